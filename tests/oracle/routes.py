"""Which links a message takes, and how long one alone takes over them."""

from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

from oracle.rounding import DERIVED, NS_PER_S, ULP, Refused, Rounding


class Message(NamedTuple):
    """Over these media: nanoseconds alone, of which delay; bytes, and bytes/ns that it does not exceed (None: any)."""

    media: tuple[str, ...]
    duration: int
    delay: int
    size: Fraction
    limit: Fraction | None
    error: float  # bytes that floating point may be off by


class Roads:
    """The directed graph of a cluster."""

    def __init__(self, cluster, rounding: Rounding):
        self.rounding = rounding
        names = [device.name for device in cluster.devices]
        self.devices = {device.name: device for device in cluster.devices}
        for link in cluster.links:
            names += [end for end in (link.source, link.target) if end not in names]
        self.names = names
        self.hop = {}  # (from, to) -> (link, medium)
        for link in cluster.links:
            for ends, medium in directions(link).items():
                self.hop[ends] = (link, medium)
        self.way = cache(self._way)
        self.hops_to = cache(self._hops_to)
        self.width = cache(self._width)

    @cached_property
    def bandwidth(self) -> dict[str, Fraction]:
        """Bytes/ns of each medium."""
        return {medium: Fraction(link.bandwidth) / NS_PER_S for link, medium in self.hop.values()}

    def _hops_to(self, target: str) -> dict[str, int]:
        """Hops from each vertex that has a way to the target, by relaxing all arcs until nothing changes."""
        hops = {target: 0}
        changed = True
        while changed:
            changed = False
            for source, there in self.hop:
                if there in hops and hops[there] + 1 < hops.get(source, len(self.names) + 1):
                    hops[source], changed = hops[there] + 1, True
        return hops

    def _nearer(self, vertex: str, target: str) -> list[str]:
        """The neighbours one hop nearer to the target, in the order of vertices."""
        hops = self.hops_to(target)
        return [name for name in self.names if (vertex, name) in self.hop and hops.get(name) == hops[vertex] - 1]

    def _width(self, vertex: str, target: str) -> float:
        """The widest bottleneck of all shortest ways."""
        if vertex == target:
            return float("inf")
        return max(self._through(vertex, name, target) for name in self._nearer(vertex, target))

    def _through(self, vertex: str, name: str, target: str) -> float:
        return min(self.hop[vertex, name][0].bandwidth, self.width(name, target))

    def _way(self, source: str, target: str) -> list[tuple[str, str]]:
        """The arcs from source to target."""
        hops = self.hops_to(target)
        if source not in hops:
            raise Refused("route")
        arcs, number = [], self.names.index(target)
        while source != target:
            nearer = self._nearer(source, target)
            best = max(self._through(source, name, target) for name in nearer)
            equal = [name for name in nearer if self._through(source, name, target) == best]
            turn = number if hops[source] % 2 else number // len(equal)
            following = equal[turn % len(equal)]
            arcs.append((source, following))
            source = following
        return arcs

    def message(self, source: str, target: str, size: Fraction, times: int, largest: Fraction) -> Message:
        """`times` messages of `size` bytes in a row; `largest` of what was added up to that in floating point."""
        links = [self.hop[arc][0] for arc in self.way(source, target)]
        media = tuple(sorted({self.hop[arc][1] for arc in self.way(source, target)}))
        delay = times * sum((_delay(link) for link in links), Fraction(0)) * NS_PER_S
        moving = times * max(_transmission(link, size) for link in links) * NS_PER_S
        slowest = min(Fraction(link.bandwidth) for link in links) / NS_PER_S
        error = DERIVED * ULP * (moving + delay + times * largest / slowest)
        if any(link.table for link in links):
            error *= 20  # what the table says less its delay may lose a factor of 20 of its digits
        limit = times * size / moving if moving and any(link.table for link in links) else None
        whole = self.rounding.nearest(delay)
        duration = whole + self.rounding.up(moving, error)
        return Message(media, duration, whole, times * size, limit, float(DERIVED * ULP * times * (size + largest)))


def directions(link) -> dict[tuple[str, str], str]:
    """The directions of a link, and the medium that each occupies."""
    there, back = (link.source, link.target), (link.target, link.source)
    if link.duplex == "shared":
        return dict.fromkeys((there, back), link.medium)
    if link.duplex == "half":
        return dict.fromkeys((there, back), f"{link.source}<->{link.target}")
    both = {there: f"{link.source}->{link.target}", back: f"{link.target}->{link.source}"}
    return both if link.duplex == "full" else {there: both[there]}


def _delay(link) -> Fraction:
    return max(Fraction(0), _on_table(link.table, Fraction(0))) if link.table else Fraction(link.latency)


def _transmission(link, size: Fraction) -> Fraction:
    """By the table, though never faster than the fastest of its points; of a point 5 % at least go to its bytes."""
    if not link.table:
        return size / Fraction(link.bandwidth)
    delay = _delay(link)
    points = [(Fraction(x), Fraction(y)) for x, y in link.table if y]
    fastest = max([Fraction(link.bandwidth), *(x / max(y - delay, y * Fraction(0.05)) for x, y in points)])
    return max(size / fastest, _on_table(link.table, size) - delay)


def _on_table(table, size: Fraction) -> Fraction:
    """Seconds on the straight piece that covers this size; the first and the last piece go on beyond the table."""
    points = [(Fraction(x), Fraction(y)) for x, y in table]
    pieces = list(pairwise(points))
    covering = [piece for piece in pieces if size <= piece[1][0]] or pieces[-1:]
    (x0, y0), (x1, y1) = covering[0]
    return y0 + (size - x0) * (y1 - y0) / (x1 - x0)
