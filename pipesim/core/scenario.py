"""Scenarios: slow devices and degraded links, for part of an iteration or all of it.

    [[slow]]                         [[degraded]]
    device = "gpu3"                  source = "node0.nic0"
    factor = 1.5                     target = "core"
    start = "10ms"                   fraction = 0.25
    end = "50ms"                     # without start and end: always

device may be a pattern, as "node1.*", or node = "node1" in its place.

`Speeds` is the speed of one lane or link over time; 1 is normal.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import ClassVar, NamedTuple

from pipesim.base import units
from pipesim.base.errors import InputError
from pipesim.base.lookup import suggest
from pipesim.core.cluster import Cluster


class Speeds(NamedTuple):
    """The speed from each time (ns) until the next; the first time is 0."""

    times: tuple[int, ...]
    values: tuple[float, ...]


STEADY = Speeds((0,), (1.0,))


def finish_time(speeds: Speeds, start: int, work: int) -> int:
    """The time at which work of `work` ns at speed 1 ends if it starts at `start`; rounded up once."""
    if speeds is STEADY or work == 0:
        return start + work
    # Relative to the start, since a float has nanosecond resolution for 104 days only.
    gone, left = 0.0, float(work)
    for piece in range(bisect_right(speeds.times, start) - 1, len(speeds.times)):
        until = speeds.times[piece + 1] - start if piece + 1 < len(speeds.times) else math.inf
        if gone + left / speeds.values[piece] <= until:
            gone += left / speeds.values[piece]
            break
        left = max(0.0, left - (until - gone) * speeds.values[piece])
        gone = float(until)
    return start + units.ns_up(gone)


@dataclass(frozen=True, slots=True)
class Slow:
    """Devices whose tasks take `factor` times as long between start and end (seconds).

    `device` is a name or a pattern (`node0.*`), `node` a node or a pattern; with both, devices of it that match both.
    """

    device: str = ""
    factor: float = 0.0
    start: float = field(default=0.0, metadata={"parse": units.duration})
    end: float | None = field(default=None, metadata={"parse": units.duration})

    node: str = ""

    def __post_init__(self) -> None:
        if not self.device and not self.node:
            raise InputError('neither device nor node found; one of them was expected, as in device = "gpu3"')
        if not 0 < self.factor < math.inf:
            raise InputError(f"factor: {self.factor} found; more than 0 was expected (2 means half as fast)")
        _check_window(self.start, self.end)

    def names(self, cluster: Cluster, place: str) -> list[str]:
        """The devices of a cluster that are slow; `place` is that of errors."""
        here = [one for one in cluster.devices if not self.node or fnmatchcase(one.node, self.node)]
        if not here:
            nodes = dict.fromkeys(one.node for one in cluster.devices)
            known = suggest(self.node, nodes)
            raise InputError(f"{place}.node: cluster {cluster.name!r} has no node {self.node!r}; {known}")
        names = [one.name for one in here]
        if not self.device or self.device in names:
            return [self.device] if self.device else names
        found = [name for name in names if fnmatchcase(name, self.device)]
        if not found:
            is_node = any(one.node == self.device for one in here)
            known = f"it is a node: '{self.device}.*' is all of it" if is_node else suggest(self.device, names)
            raise InputError(f"{place}.device: cluster {cluster.name!r} has no device {self.device!r}; {known}")
        return found


@dataclass(frozen=True, slots=True)
class Degraded:
    """A link with only `fraction` of its bandwidth between start and end (seconds).

    In both directions, or only from source to target if `one_way`; directions that share a medium degrade together.
    """

    source: str
    target: str
    fraction: float
    start: float = field(default=0.0, metadata={"parse": units.duration})
    end: float | None = field(default=None, metadata={"parse": units.duration})
    one_way: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise InputError(f"fraction: {self.fraction} found; more than 0 and at most 1 was expected")
        _check_window(self.start, self.end)


def _check_window(start: float, end: float | None) -> None:
    for name, value in (("start", start), ("end", end or 0.0)):
        if not 0 <= value <= units.to_s(units.LONGEST_NS):
            raise InputError(f"{name}: {value} s found; 0 s to 146 years was expected")
    if end is not None and end <= start:
        raise InputError(f"end: {end} s found; a time after the start, {start} s, was expected")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Slow devices and degraded links; the factors of overlapping windows are multiplied."""

    FORMAT: ClassVar[str] = "pipesim.scenario"
    VERSION: ClassVar[int] = 1

    slow: tuple[Slow, ...] = ()
    degraded: tuple[Degraded, ...] = ()

    @classmethod
    def of_text(cls, text: str) -> "Scenario":
        """Devices that are always slow, as people type them: `gpu2=1.1;node1.*=1.05`."""
        found = []
        for part in text.split(";"):
            device, equals, factor = part.rpartition("=")
            try:
                found.append(Slow(device.strip(), units.number(factor.strip())))
            except ValueError:
                equals = ""
            if not equals:
                raise InputError(f"{part!r} found; DEVICE=FACTOR was expected, as gpu2=1.1 or 'node1.*=1.1'")
        return cls(tuple(found))

    def on(self, cluster: Cluster) -> "Scenario":
        """The scenario with each slow device by its name, in place of patterns and nodes."""
        found = []
        for index, slow in enumerate(self.slow):
            found += [replace(slow, device=name, node="") for name in slow.names(cluster, f"slow[{index}]")]
        return Scenario(tuple(found), self.degraded)

    def of_device(self, device: str) -> Speeds:
        """The speed of a device over time."""
        return _speeds((s.start, s.end, 1 / s.factor) for s in self.slow if s.device == device)

    def of_team(self, devices: Iterable[str]) -> Speeds:
        """The speed over time of devices in lock-step: at any time that of the slowest of them."""
        if not self.slow:
            return STEADY
        each = list(dict.fromkeys(map(self.of_device, devices)))
        if len(each) == 1:
            return each[0]
        times = tuple(sorted({time for speeds in each for time in speeds.times}))
        return Speeds(times, tuple(min(s.values[bisect_right(s.times, time) - 1] for s in each) for time in times))

    def of_media(self, cluster: Cluster) -> dict[str, Speeds]:
        """The speed over time of each medium that is degraded."""
        named = {name for d in self.degraded for name in (d.source, d.target)}
        medium_of = {(a, b): medium for a, b, medium in cluster.arcs_between(named)}
        windows: dict[str, list[tuple[float, float | None, float]]] = {}
        for index, d in enumerate(self.degraded):
            ways = [(d.source, d.target)] if d.one_way else [(d.source, d.target), (d.target, d.source)]
            media = dict.fromkeys(medium_of[way] for way in ways if way in medium_of)
            if not media:
                raise InputError(f"degraded[{index}]: cluster {cluster.name!r} has no link {d.source!r} - {d.target!r}")
            for medium in media:
                windows.setdefault(medium, []).append((d.start, d.end, d.fraction))
        return {medium: _speeds(parts) for medium, parts in windows.items()}

    def beside(self, other: "Scenario") -> "Scenario":
        """The union of both scenarios."""
        return Scenario(self.slow + other.slow, self.degraded + other.degraded)

    def check_devices(self, cluster: Cluster) -> None:
        """Refuse devices that the cluster does not have."""
        for index, slow in enumerate(self.slow):
            if slow.device not in cluster.index:
                raise InputError(f"slow[{index}].device: cluster {cluster.name!r} has no device {slow.device!r}")


CALM = Scenario()


def _speeds(windows: Iterable[tuple[float, float | None, float]]) -> Speeds:
    whole = [(_ns(start), math.inf if end is None else _ns(end), speed) for start, end, speed in windows]
    if not whole:
        return STEADY
    # Only the windows that are open at a time are multiplied: recorded loads have thousands that do not overlap.
    changes = {0: list[int]()}
    for number, (start, end, _) in enumerate(whole):
        for time in (start, end) if start < end else ():
            if time < math.inf:
                changes.setdefault(int(time), []).append(number)
    open_now, values = set[int](), []
    for time in sorted(changes):
        open_now.symmetric_difference_update(changes[time])
        values.append(math.prod(whole[number][2] for number in sorted(open_now)))
    return Speeds(tuple(sorted(changes)), tuple(values))


def _ns(seconds: float) -> int:
    return round(seconds * units.NS_PER_S)
