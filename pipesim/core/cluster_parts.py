"""What a cluster consists of: devices, links, and the routes over links."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from pipesim.base import units
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError, within

Points = tuple[tuple[float, float], ...]
# The least part of the seconds of a point that is transmission, so that a point that is all delay takes some time.
_FOR_BYTES = 0.05
_TINY = 1e-300  # seconds, more than 0 also after rounding

DUPLEX = ("full", "half", "one_way", "shared")


def _check_name(name: str) -> None:
    if not name or not name.isprintable():
        raise InputError(f"the name {name!r} found; printable characters were expected")


@dataclass(frozen=True, slots=True)
class Device:
    """One device: its kind selects times in a trace. `flops` is its peak, if known."""

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
    """A link between two vertices, with bandwidth in bytes/s and latency in seconds.

    `full`: each direction has the whole bandwidth. `half`: both directions share it. `one_way`: only from source to
    target. `shared`: all links with the same `medium` share one bandwidth. A `table` of recorded (bytes, seconds)
    replaces latency + bytes / bandwidth as the time of one transfer alone; the bandwidth is then what transfers share.
    A small message that fits into buffers may be faster alone than the bandwidth: it then occupies the whole bandwidth
    for its duration, so that two of them take twice as long.

    `burst` and `peak` are of a link that is shaped by a token bucket: so many bytes pass at the peak bandwidth before
    the link is held to `bandwidth`, at which the bucket fills again while less is sent. It is full at first.
    """

    source: str
    target: str
    bandwidth: float = field(metadata={"parse": units.bandwidth})
    latency: float = field(default=0.0, metadata={"parse": units.duration})
    duplex: Literal["full", "half", "one_way", "shared"] = "full"
    medium: str = ""
    table: Points = ()
    burst: float = field(default=0.0, metadata={"parse": units.size})
    peak: float = field(default=0.0, metadata={"parse": units.bandwidth})

    def __post_init__(self) -> None:
        with within(f"link {self.source} - {self.target}"):
            _check_name(self.source)
            _check_name(self.target)
            if self.source == self.target:
                raise InputError("must connect two different vertices")
            check_one_of("duplex", self.duplex, DUPLEX)
            if not 0 < self.bandwidth < np.inf:
                raise InputError(f"bandwidth {self.bandwidth} found; more than 0 bytes/s was expected")
            if not 0 <= self.latency < np.inf:
                raise InputError(f"latency {self.latency} found; 0 s or more was expected")
            if (self.duplex == "shared") != bool(self.medium):
                raise InputError("duplex = 'shared' needs a medium, and a medium needs duplex = 'shared'")
            _check_table(self.table)
            self._check_burst()

    def _check_burst(self) -> None:
        if not (self.burst or self.peak):
            return
        if not 0 < self.burst < np.inf:
            raise InputError(f"burst {self.burst} found; more than 0 bytes was expected beside a peak")
        if not self.bandwidth < self.peak < np.inf:
            raise InputError(
                f"peak {self.peak} found; more than the bandwidth, {self.bandwidth} bytes/s, was expected with a burst"
            )
        if self.table:
            raise InputError("burst: a table found, too; one of them was expected")

    @property
    def delay(self) -> float:
        """Seconds before the first byte arrives."""
        return max(0.0, _interpolate(self.table, 0.0)) if self.table else self.latency

    @property
    def fastest(self) -> float:
        """The most bytes/s that a transfer alone reaches after the delay; by the table it may exceed the bandwidth."""
        if self.burst:
            return self.peak
        delay = self.delay
        rates = (size / max(seconds - delay, _FOR_BYTES * seconds, _TINY) for size, seconds in self.table if seconds)
        return max(self.bandwidth, max(rates, default=0.0))

    def transmission(self, size: float) -> float:
        """Seconds that this many bytes take after the first one, alone on the link; its bucket is full."""
        if self.burst:
            return max(size / self.peak, (size - self.burst) / self.bandwidth)
        if not self.table:
            return size / self.bandwidth
        return max(size / self.fastest, _interpolate(self.table, size) - self.delay)


def _check_table(table: Points) -> None:
    for (size, seconds), (larger, later) in pairwise(table):
        if not (0 <= size < larger < np.inf and 0 <= seconds <= later < np.inf):
            raise InputError(
                f"table: ({larger}, {later}) after ({size}, {seconds}); bytes must increase, seconds must not decrease"
            )
    if len(table) == 1:
        raise InputError("table: one point found; at least two (bytes, seconds) were expected")


def _interpolate(table: Points, size: float) -> float:
    """Seconds at this size; extrapolates the first or last piece outside the table."""
    upper = next((i for i in range(1, len(table) - 1) if table[i][0] >= size), len(table) - 1)
    (x0, y0), (x1, y1) = table[upper - 1], table[upper]
    return y0 + (y1 - y0) * (size - x0) / (x1 - x0)


@dataclass(frozen=True, slots=True)
class Route:
    """A route from one device to another: the media it occupies, its delay, its bottleneck in bytes/s."""

    links: tuple[int, ...]
    media: tuple[int, ...]
    delay: float
    bandwidth: float


def directions(link: Link) -> list[tuple[str, str, str]]:
    """The directions of a link as (source, target, medium)."""
    there, back = (link.source, link.target), (link.target, link.source)
    if link.duplex == "shared":
        return [(*there, link.medium), (*back, link.medium)]
    if link.duplex == "half":
        medium = f"{link.source}<->{link.target}"
        return [(*there, medium), (*back, medium)]
    one_way = [(*there, f"{link.source}->{link.target}")]
    return one_way if link.duplex == "one_way" else [*one_way, (*back, f"{link.target}->{link.source}")]
