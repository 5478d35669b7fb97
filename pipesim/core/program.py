"""All that is decided before time starts: one row per task, in columns.

    kind         letter  runs on            works for
    forward      F       a device lane      `duration` ns
    backward     B       a device lane
    input        I       a device lane      (gradient of the input)
    weight       W       a device lane      (gradient of the weights)
    optimizer    O       a device lane
    activation   >       a route of media   `delay` ns, then `size` bytes
    gradient     <       a route of media
    all_reduce   A       a route of media   (one task per edge of a ring; a reduce-scatter if optimizers are sharded)
    all_gather   G       a route of media   (of parameters, where optimizers or parameters are sharded)

A lane runs its tasks one at a time in the order of `order`; any task waits for all its `needs`. Engines only add time.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from pipesim.base import files, serialisation, units
from pipesim.base.arrays import Floats, Ints, Ragged
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError, RefusedError, shown, within
from pipesim.core.cluster import Cluster
from pipesim.core.scenario import STEADY, Speeds, finish_time
from pipesim.core.sharing import SHARING_RULES, SHARINGS, Sharing, SharingRule

Value = TypeVar("Value", Ints, Floats)
Transfers = Literal["eager", "rendezvous", "blocking", "paired", "sequential", "posted"]
TRANSFERS: tuple[Transfers, ...] = ("eager", "rendezvous", "blocking", "paired", "sequential", "posted")

KINDS = ("forward", "backward", "input", "weight", "optimizer", "activation", "gradient", "all_reduce", "all_gather")
LETTERS = "FBIWO><AG"
# A limit that is above a capacity by less than this part is the same.
_ROUNDING = 1e-9
FORWARD, BACKWARD, INPUT, WEIGHT, OPTIMIZER, ACTIVATION, GRADIENT, ALL_REDUCE, ALL_GATHER = range(9)
COLLECTIVES = (ALL_REDUCE, ALL_GATHER)


class Bucket(NamedTuple):
    """The token bucket of a medium, whose capacity is the peak: it holds `size` bytes, and fills at `rate` per ns."""

    size: float
    rate: float


class Folded(NamedTuple):
    """What is behind the tasks, lanes and media of a program that has only one of those that do the same."""

    copies: Ints  # task -> how many are alike
    alike: Ints  # beside each medium of `route`: how many transfers that are alike cross it
    lanes: Ints  # lane -> the lane that represents it
    media: Ints  # medium -> the medium that represents it


@dataclass(frozen=True, eq=False)
class Program:
    """Tasks in columns, and the lanes and media that they run on. Times are whole nanoseconds."""

    FORMAT: ClassVar[str] = "pipesim.program"
    VERSION: ClassVar[int] = 1

    sharing: Sharing
    transfers: Transfers
    devices: tuple[str, ...]  # the lanes
    media: tuple[str, ...]  # what transfers occupy
    capacity: Floats  # per medium, bytes per ns
    # One row per task. Compute: lane is a device and source = target = lane. Transfers: lane is -1.
    kind: Ints
    stage: Ints
    microbatch: Ints  # -1 where a task is not about one
    lane: Ints
    source: Ints
    target: Ints
    duration: Ints  # ns, alone and at full speed, delay included
    delay: Ints  # ns before the first byte
    size: Floats  # bytes
    limit: (
        Floats  # bytes per ns of this transfer alone, more than a link's capacity for bursts; infinite without tables
    )
    order: Ragged  # lane -> its tasks, one after the other
    needs: Ragged  # task -> tasks that must have ended
    route: Ragged  # task -> media
    # Memory, accounted and not enforced: bytes that a task adds to its device when it starts, and when it ends.
    memory_start: Ints
    memory_end: Ints
    static_memory: Ints  # per device: parameters, gradients, optimizer state
    memory: Ints  # per device: what it has; 0 where not known
    # What metrics need to know about the work.
    microbatches: int
    samples: int  # in one iteration
    flops: float | None  # in one iteration, forward and backward
    peak_flops: float | None  # of all devices together, per second
    lane_speeds: dict[int, Speeds] = field(default_factory=dict)
    media_speeds: dict[int, Speeds] = field(default_factory=dict)
    buckets: dict[int, Bucket] = field(default_factory=dict)
    """The token buckets of media that have one."""
    folded: Folded | None = None
    """What each task, lane and medium represents, where only one of those that are alike is there."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def alike(self) -> Ints:
        """Beside each medium of `route`, in a folded program, how many transfers that are alike cross it."""
        return np.zeros(0, np.int64) if self.folded is None else self.folded.alike

    def of_lanes(self, values: Ints) -> Ints:
        """Values of all lanes, from those of the lanes that represent others."""
        return values if self.folded is None else values[self.folded.lanes]

    def of_media(self, values: Value) -> Value:
        """Values of all media, from those of the media that represent others."""
        return values if self.folded is None else values[self.folded.media]

    @property
    def represented(self) -> int:
        """How many tasks there are, those that others represent included."""
        return len(self) if self.folded is None else int(self.folded.copies.sum())

    @property
    def sharing_rule(self) -> SharingRule:
        """How transfers share links."""
        return SHARING_RULES[self.sharing]

    @property
    def is_compute(self) -> NDArray[np.bool_]:
        """Which tasks run on a lane."""
        return self.lane >= 0

    @cached_property
    def used(self) -> Floats:
        """Bytes of its links' capacity that each transfer uses up.

        These are its bytes, but for one that by a link's table is faster alone than the least capacity of its route:
        it uses all of that capacity for as long as it takes alone.
        """
        least = np.full(len(self), np.inf)
        np.minimum.at(least, self.route.row_of_value(), self.capacity[self.route.values])
        bursts = np.isfinite(self.limit) & (self.limit > least * (1 + _ROUNDING))
        share: Floats = np.divide(least, self.limit, out=np.ones(len(self)), where=bursts)
        return self.size * share

    def label(self, task: int) -> str:
        """A task as people write it: 0F2, or 0>2 for the activations of microbatch 2 that leave stage 0."""
        microbatch = self.microbatch[task] if self.microbatch[task] >= 0 else ""
        name = f"{self.stage[task]}{LETTERS[self.kind[task]]}{microbatch}"
        if self.lane[task] >= 0:
            return f"{name} on {self.devices[self.lane[task]]}"
        return f"{name} from {self.devices[self.source[task]]} to {self.devices[self.target[task]]}"

    def finish(self, task: int, start: int) -> int:
        """When a task ends that starts now and has its lane or route for itself."""
        lane, duration = int(self.lane[task]), int(self.duration[task])
        if lane >= 0:
            return finish_time(self.lane_speeds.get(lane, STEADY), start, duration)
        if not self.media_speeds:
            return start + duration
        delay = int(self.delay[task])
        return finish_time(self.route_speeds(task), start + delay, duration - delay)

    def route_speeds(self, task: int) -> Speeds:
        """How fast a transfer goes alone on its route, as links are degraded: 1 is its full rate."""
        route = self.route[task].tolist()
        degraded = [m for m in route if m in self.media_speeds]
        if not degraded:
            return STEADY
        limit = float(self.limit[task])
        full = min([limit, *(float(self.capacity[m]) for m in route)])
        times = sorted({time for m in degraded for time in self.media_speeds[m].times})
        rates = [min([limit, *(float(self.capacity[m]) * self.media_speed(m, time) for m in route)]) for time in times]
        return Speeds(tuple(times), tuple(rate / full for rate in rates))

    def media_speed(self, medium: int, time: int) -> float:
        """The part of its bandwidth that a medium has at this time."""
        speeds = self.media_speeds.get(medium, STEADY)
        return speeds.values[bisect_right(speeds.times, time) - 1]

    def with_durations(self, duration: Ints) -> "Program":
        """The same program with other durations."""
        return replace(self, duration=duration)

    def same_as(self, other: "Program") -> bool:
        """Whether both hold exactly the same."""
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def save(self, path: Path | str) -> None:
        """Write the columns as JSON."""
        if self.folded is not None:
            raise InputError("a folded program is not written to files; lower the plan without folding")
        head = {"format": self.FORMAT, "version": self.VERSION}
        body = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name != "folded"}
        body["limit"] = [None if np.isinf(limit) else limit for limit in self.limit.tolist()]
        files.write_bytes(Path(path), orjson.dumps(head | body, option=orjson.OPT_INDENT_2))

    @classmethod
    def load(cls, path: Path | str) -> "Program":
        """Read what `save` writes."""
        data = serialisation.read_data(Path(path), files.RECORDING)
        with within(str(path)):
            serialisation.check_header(data, cls.FORMAT, cls.VERSION)
            return _from_plain(data)


_PER_TASK = tuple(
    "stage microbatch lane source target duration delay size limit needs route memory_start memory_end".split()  # noqa: SIM905 - names read best in one line
)


def buckets_of(cluster: Cluster, rule: SharingRule) -> dict[int, Bucket]:
    """The token buckets of the media of a cluster, under a rule that changes rates; with no sharing all stay full."""
    if cluster.buckets and rule.one_at_a_time and rule.has_links:
        rated = ", ".join(other.name for other in SHARING_RULES.values() if other.rated)
        name = next(iter(cluster.buckets))
        raise RefusedError(
            f"sharing {rule.name!r} gives a transfer one rate; the burst of {name!r} needs rates that change: {rated}"
        )
    if not rule.rated:
        return {}
    rate = dict(zip(cluster.media, cluster.media_bandwidth, strict=True))
    return {
        n: Bucket(cluster.buckets[name][0], rate[name] / units.NS_PER_S)
        for n, name in enumerate(cluster.media)
        if name in cluster.buckets
    }


def check(program: Program) -> None:
    """Refuse columns that do not fit together."""
    _check_lengths(program, len(program.kind), len(program.devices), len(program.media))
    _check_values(program, len(program.kind), len(program.devices), len(program.media))
    _check_order(program)
    _check_scalars(program)
    _check_speeds("lane_speeds", program.lane_speeds, len(program.devices))
    _check_speeds("media_speeds", program.media_speeds, len(program.media))
    _check_buckets(program)
    _check_span(program)


def _check_lengths(program: Program, tasks: int, lanes: int, media: int) -> None:
    for names, length, what in (
        (_PER_TASK, tasks, "task"),
        (("order", "static_memory", "memory"), lanes, "device"),
        (("capacity",), media, "medium"),
    ):
        for name in names:
            found = len(getattr(program, name))
            if found != length:
                raise InputError(f"{name}: {found} rows found; {length} were expected, one per {what}")


def _check_values(program: Program, tasks: int, lanes: int, media: int) -> None:
    for name, least, most in (
        ("kind", 0, len(KINDS) - 1),
        ("lane", -1, lanes - 1),
        ("source", 0, lanes - 1),
        ("target", 0, lanes - 1),
        ("delay", 0, None),
        ("duration", 0, None),
        ("size", 0, None),
    ):
        _check_range(name, getattr(program, name), least, most)
    for name, most in (("order", tasks - 1), ("needs", tasks - 1), ("route", media - 1)):
        _check_range(name, getattr(program, name).values, 0, most)
    for name, column in (("capacity", program.capacity), ("limit", program.limit)):
        if not (column > 0).all():
            raise InputError(f"{name}: {column.min()} found; more than 0 was expected")
    if len(program.alike) not in {0, len(program.route.values)}:
        raise InputError(f"alike: {len(program.alike)} found; {len(program.route.values)} were expected, or none")
    _check_range("alike", program.alike, 1, None)
    if (program.duration < program.delay).any():
        raise InputError("duration: shorter than the delay, which is a part of it")


def _check_range(name: str, column: NDArray[Any], least: int, most: int | None) -> None:
    if len(column) and not (least <= column.min() and (most is None or column.max() <= most)):
        found = column.min() if column.min() < least else column.max()
        raise InputError(f"{name}: {found} found; {least} to {'any' if most is None else most} was expected")


def _check_order(program: Program) -> None:
    if not np.array_equal(np.sort(program.order.values), np.flatnonzero(program.is_compute)):
        raise InputError("order: every task on a lane must stand in the order of its lane once")
    if not np.array_equal(program.lane[program.order.values], program.order.row_of_value()):
        raise InputError("order: a task is in the order of another lane than its own")


def _check_scalars(program: Program) -> None:
    for name, allowed in (("sharing", SHARINGS), ("transfers", TRANSFERS)):
        check_one_of(name, getattr(program, name), allowed)
    if program.microbatches < 1 or program.samples < 0:
        raise InputError(
            f"microbatches, samples: {program.microbatches}, {program.samples} found; 1 and 0 are the least"
        )


def _check_speeds(name: str, speeds: dict[int, Speeds], count: int) -> None:
    for index, (times, values) in speeds.items():
        if not 0 <= index < count:
            raise InputError(f"{name}: {index} found; 0 to {count - 1} was expected")
        rising = all(a < b for a, b in itertools.pairwise(times))
        if len(times) != len(values) or times[:1] != (0,) or not rising or not all(0 < v < np.inf for v in values):
            raise InputError(f"{name}[{index}]: rising times from 0 on, and a speed above 0 for each, were expected")


def _check_buckets(program: Program) -> None:
    for medium, (size, rate) in program.buckets.items():
        if not 0 <= medium < len(program.media):
            raise InputError(f"buckets: {medium} found; 0 to {len(program.media) - 1} was expected")
        if not (0 < size < np.inf and 0 < rate < program.capacity[medium]):
            raise InputError(
                f"buckets[{medium}]: {size} bytes that fill at {rate} bytes per ns found; more than 0, and less than "
                f"the capacity, {program.capacity[medium]}, were expected"
            )
    if program.buckets and program.folded is not None:
        raise InputError("buckets: a folded program found; media that are alike have a bucket each")


def _check_span(program: Program) -> None:
    """Whatever waits for what, an iteration lasts no longer than all tasks one after the other, at the least speed."""
    changing = [*program.lane_speeds.values(), *program.media_speeds.values()]
    slowest = min((value for speeds in changing for value in speeds.values), default=1.0)
    span = float(program.duration.astype(np.float64).sum()) / min(slowest, 1.0)
    if span > units.LONGEST_NS:
        raise InputError(f"duration: all tasks together last {units.to_s(span):.3g} s; at most 146 years were expected")


def _same(mine: Any, theirs: Any) -> bool:  # noqa: ANN401 - any column
    if isinstance(mine, np.ndarray):
        return bool(mine.dtype == theirs.dtype and np.array_equal(mine, theirs))
    return bool(mine == theirs)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any column
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Ragged):
        return {"starts": value.starts.tolist(), "values": value.values.tolist()}
    if isinstance(value, dict):
        return {
            str(key): [list(part) if isinstance(part, tuple) else part for part in row] for key, row in value.items()
        }
    return value


_NAMES, _FLOATS, _RAGGED = {"devices", "media"}, {"capacity", "size"}, {"order", "needs", "route"}
_TEXTS, _NUMBERS = {"sharing", "transfers"}, {"flops", "peak_flops"}


def _from_plain(data: dict[str, Any]) -> Program:
    values: dict[str, Any] = {}
    for f in fields(Program):
        if f.name == "folded":
            continue
        if f.name not in data:
            if f.name == "buckets":
                continue  # in files from before there were any
            raise InputError(f"{f.name}: missing")
        with within(f.name):
            values[f.name] = _read_field(f.name, data[f.name])
    program = Program(**values)
    check(program)
    return program


def _read_field(name: str, value: Any) -> Any:  # noqa: ANN401, PLR0911 - one return per sort of field
    if name in _TEXTS or (name in _NUMBERS and value is None):
        return value
    if name in _NAMES:
        return tuple(_listed(value, str))
    if name in _RAGGED:
        return _read_ragged(value)
    if name.endswith("_speeds"):
        return {
            key: Speeds(tuple(_listed(a, int)), tuple(_listed(b, float | int))) for key, (a, b) in _read_pairs(value)
        }
    if name == "buckets":
        return {key: Bucket(*map(float, _listed(row, float | int))) for key, row in _read_pairs(value)}
    if name == "limit":
        return np.array(
            [np.inf if limit is None else limit for limit in _listed(value, float | int | None)], np.float64
        )
    if name in _NUMBERS or name in {"microbatches", "samples"}:
        return _listed([value], float | int if name in _NUMBERS else int)[0]
    floats = name in _FLOATS
    return np.array(_listed(value, float | int if floats else int), np.float64 if floats else np.int64)


def _listed(value: Any, kind: Any) -> list[Any]:  # noqa: ANN401 - what a file holds
    """A list of such items, or an error; whole numbers fit 64 bits."""
    if not isinstance(value, list):
        raise InputError(f"{shown(value)} found; a list was expected")
    for item in value:
        if not isinstance(item, kind) or isinstance(item, bool) or (isinstance(item, int) and item.bit_length() > 63):
            raise InputError(f"{shown(item)} found; {getattr(kind, '__name__', kind)} was expected")
    return value


def _read_ragged(value: Any) -> Ragged:  # noqa: ANN401 - what a file holds
    if not isinstance(value, dict) or set(value) != {"starts", "values"}:
        raise InputError(f"{shown(value)} found; starts and values were expected")
    starts, values = (np.array(_listed(value[name], int), np.int64) for name in ("starts", "values"))
    if not len(starts) or starts[0] != 0 or starts[-1] != len(values) or (np.diff(starts) < 0).any():
        raise InputError(f"starts: must rise from 0 to {len(values)}, the number of values")
    return Ragged(starts, values)


def _read_pairs(value: Any) -> Iterator[tuple[int, list[Any]]]:  # noqa: ANN401 - what a file holds
    """An index, and two values that belong to it."""
    if not isinstance(value, dict):
        raise InputError(f"{shown(value)} found; a table was expected")
    for key, row in value.items():
        if not (key.isascii() and key.isdecimal()) or len(key) > 9 or not isinstance(row, list) or len(row) != 2:
            raise InputError(f"{shown(key)}: an index with two values was expected")
        yield int(key), row
