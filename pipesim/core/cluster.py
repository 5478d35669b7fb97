"""What a model runs on: devices, and links over any graph, switches and NICs included.

    gpu0 ══╗                        ╔══ gpu2        vertices: devices, switches, NICs
           switch0 ── nic0 ── core ─ ...            links:    bandwidth, latency, duplex
    gpu1 ══╝                                        media:    what a transfer occupies; a full-duplex link has two

A route has the fewest hops; among those the widest bottleneck; among equals the destinations are dealt out over the
parallel links in turn, so that a fat tree uses all its cores. Routes depend on the cluster alone.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base import units, widest_paths
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError, within

if TYPE_CHECKING:
    import networkx as nx

Points = tuple[tuple[float, float], ...]
# Of the seconds of a point at least this part is for its bytes: without it, one that is all delay would take no time.
_FOR_BYTES = 0.05
_TINY = 1e-300  # seconds, more than 0 also after rounding

DUPLEX = ("full", "half", "one_way", "shared")


def _check_name(name: str) -> None:
    if not name or not name.isprintable():
        raise InputError(f"the name {name!r} found; printable characters were expected")


@dataclass(frozen=True, slots=True)
class Device:
    """One device: its kind names the times in a trace that hold for it. `flops` is its peak, where known."""

    name: str
    kind: str
    node: str = ""
    memory: int = field(default=0, metadata={"parse": lambda value: int(units.size(value))})
    flops: float | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.memory < 0 or (self.flops is not None and not 0 < self.flops < np.inf):
            raise InputError(f"device {self.name!r}: memory and flops must be positive numbers")


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two vertices, bandwidth in bytes/s and latency in seconds.

    `full`: each direction has the whole bandwidth. `half`: both directions take turns on it. `one_way`: only from
    source to target. `shared`: all links that name the same `medium` share one bandwidth. A `table` of recorded
    (bytes, seconds) says how long one transfer takes alone, in place of latency + bytes / bandwidth; the bandwidth is
    then what transfers share. A small message that buffers take at once may be faster alone than the bandwidth: it
    then occupies the whole bandwidth for as long as it takes, so that two of them take twice as long.
    """

    source: str
    target: str
    bandwidth: float = field(metadata={"parse": units.bandwidth})
    latency: float = field(default=0.0, metadata={"parse": units.duration})
    duplex: Literal["full", "half", "one_way", "shared"] = "full"
    medium: str = ""
    table: Points = ()

    def __post_init__(self) -> None:
        with within(f"link {self.source} - {self.target}"):
            _check_name(self.source)
            _check_name(self.target)
            if self.source == self.target:
                raise InputError("must join two different vertices")
            check_one_of("duplex", self.duplex, DUPLEX)
            if not 0 < self.bandwidth < np.inf:
                raise InputError(f"bandwidth {self.bandwidth} found; more than 0 bytes/s was expected")
            if not 0 <= self.latency < np.inf:
                raise InputError(f"latency {self.latency} found; 0 s or more was expected")
            if (self.duplex == "shared") != bool(self.medium):
                raise InputError("duplex = 'shared' and a medium's name belong together")
            _check_table(self.table)

    @property
    def delay(self) -> float:
        """Seconds before the first byte arrives."""
        return max(0.0, _interpolate(self.table, 0.0)) if self.table else self.latency

    @property
    def fastest(self) -> float:
        """The most bytes/s that a transfer alone reaches after the delay; by the table it may exceed the bandwidth."""
        delay = self.delay
        rates = (size / max(seconds - delay, _FOR_BYTES * seconds, _TINY) for size, seconds in self.table if seconds)
        return max(self.bandwidth, max(rates, default=0.0))

    def transmission(self, size: float) -> float:
        """Seconds that this many bytes take after the first one, alone on the link."""
        if not self.table:
            return size / self.bandwidth
        return max(size / self.fastest, _interpolate(self.table, size) - self.delay)


def _check_table(table: Points) -> None:
    for (size, seconds), (larger, later) in pairwise(table):
        if not (0 <= size < larger < np.inf and 0 <= seconds <= later < np.inf):
            raise InputError(
                f"table: ({larger}, {later}) after ({size}, {seconds}); bytes must grow and seconds must not shrink"
            )
    if len(table) == 1:
        raise InputError("table: one point found; at least two (bytes, seconds) were expected")


def _interpolate(table: Points, size: float) -> float:
    """Seconds at this size; outside the table its first or last piece goes on."""
    upper = next((i for i in range(1, len(table) - 1) if table[i][0] >= size), len(table) - 1)
    (x0, y0), (x1, y1) = table[upper - 1], table[upper]
    return y0 + (y1 - y0) * (size - x0) / (x1 - x0)


@dataclass(frozen=True, slots=True)
class Route:
    """The way from one device to another: the media it occupies, its delay, its bottleneck in bytes/s."""

    links: tuple[int, ...]
    media: tuple[int, ...]
    delay: float
    bandwidth: float


@dataclass(frozen=True)
class Cluster:
    """Devices, and links between them, over any graph. Valid if it exists."""

    FORMAT: ClassVar[str] = "pipesim.cluster"
    VERSION: ClassVar[int] = 1

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        if not self.devices:
            raise InputError("devices: a cluster needs at least one")
        names = [device.name for device in self.devices]
        if len(set(names)) < len(names):
            double = next(name for name in names if names.count(name) > 1)
            raise InputError(f"devices: the name {double!r} stands twice")
        seen: set[tuple[str, str]] = set()
        for index, link in enumerate(self.links):
            directions = {(link.source, link.target)} | (
                set() if link.duplex == "one_way" else {(link.target, link.source)}
            )
            if directions & seen:
                raise InputError(f"links[{index}]: {link.source} and {link.target} are already joined by a link")
            seen |= directions
        self._check_media()

    def _check_media(self) -> None:
        capacity: dict[str, float] = {}
        own = {medium for link in self.links if not link.medium for _, _, medium in _arcs(link)}
        for index, link in enumerate(self.links):
            if link.medium in own:
                raise InputError(
                    f"links[{index}].medium: {link.medium!r} is also what another link is called by itself"
                )
            if link.medium and capacity.setdefault(link.medium, link.bandwidth) != link.bandwidth:
                raise InputError(
                    f"links[{index}].bandwidth: {link.bandwidth} found; the other links on medium {link.medium!r} "
                    f"have {capacity[link.medium]}"
                )

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each device."""
        return {device.name: position for position, device in enumerate(self.devices)}

    def device(self, name: str) -> Device:
        """The device of this name, which must exist."""
        return self.devices[self.index[name]]

    @cached_property
    def has_tables(self) -> bool:
        """Whether any link has recorded times."""
        return any(link.table for link in self.links)

    @cached_property
    def vertices(self) -> tuple[str, ...]:
        """Devices first, then switches and NICs in order of first appearance."""
        names = dict.fromkeys(device.name for device in self.devices)
        for link in self.links:
            names |= dict.fromkeys((link.source, link.target))
        return tuple(names)

    @cached_property
    def media(self) -> tuple[str, ...]:
        """What transfers occupy: "a->b" for one direction, "a<->b" for both in turn, or a shared medium's name."""
        return tuple(self._media_capacity)

    @cached_property
    def media_bandwidth(self) -> tuple[float, ...]:
        """Bytes/s of each medium."""
        return tuple(self._media_capacity.values())

    @cached_property
    def _media_capacity(self) -> dict[str, float]:
        return {medium: link.bandwidth for link in self.links for _, _, medium in _arcs(link)}

    @cached_property
    def _arcs(self) -> "_Arcs":
        """All arcs by the vertex that they leave, in the order of where they lead to, link and medium."""
        position = {name: i for i, name in enumerate(self.vertices)}
        medium_index = {name: i for i, name in enumerate(self.media)}
        every = sorted(
            (position[source], position[target], number, medium_index[medium])
            for number, link in enumerate(self.links)
            for source, target, medium in _arcs(link)
        )
        source, there, link, medium = np.array(every, np.int64).reshape(-1, 4).T
        first = np.searchsorted(source, np.arange(len(self.vertices) + 1)).astype(np.int64)
        wide = np.array([link.bandwidth for link in self.links], np.float64)[link]
        there = np.ascontiguousarray(there)
        return _Arcs(first, there, wide, link, medium, *widest_paths.reversed_arcs(first, there))

    def _tree(self, target: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """For each vertex the arc to take towards this device, and the bottleneck from there on; 0 where none leads."""
        arcs = self._arcs
        return widest_paths.tree(arcs.first, arcs.there, arcs.wide, arcs.first_before, arcs.before, target)

    @cached_property
    def _trees(self) -> dict[int, NDArray[np.int64]]:
        """Those of the last targets that were asked for."""
        return {}

    def route(self, source: str, target: str) -> Route:
        """The way from one device to another."""
        for name in (source, target):
            if name not in self.index:
                raise InputError(f"cluster {self.name!r} has no device {name!r}")
        ends = self.index[source], self.index[target]
        if ends not in self._routes:
            self._routes[ends] = self._make_route(*ends)
        return self._routes[ends]

    @cached_property
    def _routes(self) -> dict[tuple[int, int], Route]:
        return {}

    def _make_route(self, source: int, target: int) -> Route:
        if target not in self._trees:
            if len(self._trees) >= _TREES:
                self._trees.clear()
            self._trees[target] = self._tree(target)[0]
        tree, arcs = self._trees[target], self._arcs
        links: list[int] = []
        media: list[int] = []
        vertex = source
        while vertex != target:
            arc = int(tree[vertex])
            if arc == widest_paths.NOWHERE:
                raise InputError(
                    f"cluster {self.name!r}: no route from {self.vertices[source]!r} to {self.vertices[target]!r}"
                )
            vertex, medium = int(arcs.there[arc]), int(arcs.medium[arc])
            links.append(int(arcs.link[arc]))
            if medium not in media:  # two hops over one shared medium occupy it once
                media.append(medium)
        passed = [self.links[link] for link in links]
        return Route(
            tuple(links),
            tuple(media),
            sum(link.delay for link in passed),
            min((link.bandwidth for link in passed), default=np.inf),
        )

    def timing(self, route: Route, size: float) -> tuple[float, float]:
        """Seconds of delay and of transmission of this many bytes, alone on the route."""
        if not self.has_tables:
            return route.delay, size / route.bandwidth
        return route.delay, max((self.links[link].transmission(size) for link in route.links), default=0.0)

    @cached_property
    def bandwidth_matrix(self) -> NDArray[np.float64]:
        """Bytes/s between devices: the bottleneck of the route, infinite from one to itself, 0 where there is none."""
        matrix = np.array([self.bandwidths_to(target) for target in range(len(self.devices))]).T
        np.fill_diagonal(matrix, np.inf)
        return matrix

    def bandwidths_to(self, target: int) -> NDArray[np.float64]:
        """A column of `bandwidth_matrix`, which is not made for it: bytes/s from each device to this one."""
        return self._tree(target)[1][: len(self.devices)]

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The cluster as a networkx graph; devices carry `device`, links their bandwidth and latency."""
        import networkx as nx  # noqa: PLC0415 - slow to import, and only pictures and analyses need it

        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name)
        for name in self.vertices:
            position = self.index.get(name)
            graph.add_node(name, device=None if position is None else self.devices[position])
        for link in self.links:
            for source, target, medium in _arcs(link):
                graph.add_edge(source, target, bandwidth=link.bandwidth, latency=link.latency, medium=medium)
        return graph


_TREES = 2048  # trees that a cluster keeps: each has a number for every vertex


class _Arcs(NamedTuple):
    """Arcs in columns; those of vertex v from first[v] on."""

    first: NDArray[np.int64]
    there: NDArray[np.int64]
    wide: NDArray[np.float64]
    link: NDArray[np.int64]
    medium: NDArray[np.int64]
    first_before: NDArray[np.int64]  # the vertices from which an arc leads to v: before[first_before[v]] and on
    before: NDArray[np.int64]


def _arcs(link: Link) -> list[tuple[str, str, str]]:
    """The directions of a link as (source, target, medium)."""
    there, back = (link.source, link.target), (link.target, link.source)
    if link.duplex == "shared":
        return [(*there, link.medium), (*back, link.medium)]
    if link.duplex == "half":
        medium = f"{link.source}<->{link.target}"
        return [(*there, medium), (*back, medium)]
    one_way = [(*there, f"{link.source}->{link.target}")]
    return one_way if link.duplex == "one_way" else [*one_way, (*back, f"{link.target}->{link.source}")]
