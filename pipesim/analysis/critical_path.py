"""What every task waited for, the critical path through devices and links, and the slack of every task.

A task is held by what ended last before it started: a task that it needs, the task before it on its lane, or, where a
link carries one transfer at a time, the one before it on a link of its route. The critical path follows what held each
task from the last end back to the start of the iteration, so that it covers all of it, each nanosecond with one cause:

    forward, backward, optimizer    a device computes, for as long as it takes at full speed
    slow_device                     the rest of a computation whose device is slower for a time
    transfer, all_reduce            a transfer moves its bytes, for as long as it takes alone
    contention                      the rest of a transfer that shares its links with others
    unexplained                     of recorded timelines: a task starts after all that could have held it

The slack of a task is by how much it may end later with the iteration as long as it is, if every task takes as long as
it took and lanes, and links that carry one transfer at a time, keep their orders.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipesim.analysis import curves
from pipesim.base import units
from pipesim.base.arrays import Ints, Ragged
from pipesim.base.kernels import suited
from pipesim.core.program import (
    ALL_GATHER,
    ALL_REDUCE,
    BACKWARD,
    FORWARD,
    INPUT,
    KINDS,
    OPTIMIZER,
    WEIGHT,
)
from pipesim.core.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd

CAUSES = (
    "forward", "backward", "optimizer", "slow_device", "transfer", "all_reduce", "contention", "unexplained",
)  # fmt: skip
SPENT_ON = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUT: "backward",
    WEIGHT: "backward",
    OPTIMIZER: "optimizer",
    ALL_REDUCE: "all_reduce",
    ALL_GATHER: "all_reduce",
}
_CAUSE_OF_KIND = np.array([CAUSES.index(SPENT_ON.get(kind, "transfer")) for kind in range(len(KINDS))])
SLOW, CONTENTION, UNEXPLAINED = (CAUSES.index(name) for name in ("slow_device", "contention", "unexplained"))

HOLDS = ("start", "need", "lane", "link")  # what held a task: nothing but the start, what it needs, its lane, a link
START, NEED, LANE, LINK = range(4)
_MANY = 20_000  # tasks; above, compiled code pays


class Holders(NamedTuple):
    """For each task what held it back until it started."""

    task: Ints  # what ended last; -1 where nothing did
    by: Ints  # START, NEED, LANE or LINK


class PathPart(NamedTuple):
    """A stretch of the critical path."""

    task: int
    begin: int
    end: int
    cause: str
    where: str  # the device or link


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Stretches of time that follow each other from 0 to the end of the iteration."""

    timeline: Timeline
    parts: tuple[PathPart, ...]

    def __repr__(self) -> str:
        total = max(self.timeline.makespan, 1)
        parts = (f"{cause.replace('_', ' ')} {100 * ns / total:.1f} %" for cause, ns in self.spent.items() if ns)
        return f"Critical path of {len(self.tasks):,} tasks: {', '.join(parts)}"

    def frame(self) -> "pd.DataFrame":
        """A row for each stretch, in seconds."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        rows = [(units.to_s(one.begin), units.to_s(one.end), one.task, one.cause, one.where) for one in self.parts]
        return pd.DataFrame(rows, columns=["start_s", "end_s", "task", "cause", "where"])

    @cached_property
    def tasks(self) -> tuple[int, ...]:
        """The tasks on the path, in order of time."""
        return tuple(dict.fromkeys(part.task for part in self.parts))

    @cached_property
    def spent(self) -> dict[str, int]:
        """Nanoseconds by cause; they sum to the iteration."""
        found = dict.fromkeys(CAUSES, 0)
        for part in self.parts:
            found[part.cause] += part.end - part.begin
        return found

    @cached_property
    def held(self) -> list[tuple[str, str, int]]:
        """Nanoseconds of each device and link by cause, the most first."""
        found: dict[tuple[str, str], int] = {}
        for part in self.parts:
            key = part.where, part.cause
            found[key] = found.get(key, 0) + part.end - part.begin
        rows = [(where, cause, ns) for (where, cause), ns in found.items() if ns]
        return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))

    def as_data(self) -> dict[str, Any]:
        """Plain numbers: seconds by cause, and by device or link and cause; how many tasks it has."""
        return {
            "spent_s": {cause: units.to_s(ns) for cause, ns in self.spent.items()},
            "held_by": [{"where": where, "cause": cause, "seconds": units.to_s(ns)} for where, cause, ns in self.held],
            "tasks": len(self.tasks),
        }


def last_need(timeline: Timeline, before: Ints | None = None) -> Ints:
    """For each task the dependency that ended last (the first of several), -1 without dependencies.

    If given, only those that ended by these times count.
    """
    needs = timeline.program.needs
    waiting, awaited = needs.row_of_value(), needs.values
    if before is not None:
        kept = timeline.end[awaited] <= before[waiting]
        waiting, awaited = waiting[kept], awaited[kept]
    order = np.lexsort((-awaited, timeline.end[awaited], waiting))
    found = np.full(len(timeline.program), -1, np.int64)
    found[waiting[order]] = awaited[order]  # the last assignment wins: the latest end, then the least index
    return found


def lane_order(timeline: Timeline) -> tuple[Ints, Ints]:
    """Tasks that follow each other on a lane: (before, after)."""
    order = timeline.program.order
    task, lane = order.values, order.row_of_value()
    same = lane[1:] == lane[:-1]
    return task[:-1][same], task[1:][same]


def link_order(timeline: Timeline) -> tuple[Ints, Ints]:
    """Transfers that follow each other on a link which carries one at a time: (before, after)."""
    program = timeline.program
    if not program.sharing_rule.one_at_a_time:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    task, medium = program.route.row_of_value(), program.route.values
    lasting = timeline.end[task] > timeline.start[task]
    task, medium = task[lasting], medium[lasting]
    order = np.lexsort((task, timeline.start[task], medium))
    task, medium = task[order], medium[order]
    same = (medium[1:] == medium[:-1]) & (timeline.end[task[:-1]] <= timeline.start[task[1:]])
    return task[:-1][same], task[1:][same]


def holders(timeline: Timeline) -> Holders:
    """What held each task: of equals what it needs comes first, then its lane."""
    start, end = timeline.start, timeline.end
    task = last_need(timeline, before=start)
    by = np.where(task >= 0, NEED, START)
    for code, (before, after) in ((LANE, lane_order(timeline)), (LINK, link_order(timeline))):
        ended = np.where(task[after] >= 0, end[task[after]], -1)
        later = np.flatnonzero((end[before] > ended) & (end[before] <= start[after]))
        later = later[np.argsort(end[before[later]], kind="stable")]  # of several links the last to be free
        task[after[later]], by[after[later]] = before[later], code
    return Holders(task, by)


def critical_path(timeline: Timeline) -> CriticalPath:
    """Follow what held each task from the last end back to the start.

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", microbatches=4)
    >>> path = ps.critical_path(result.timeline)
    >>> sum(path.spent.values()) == result.timeline.makespan
    True
    """
    held = holders(timeline).task
    task, tasks = int(np.argmax(timeline.end)) if len(timeline.program) else -1, list[int]()
    while task >= 0:
        tasks.append(task)
        task = int(held[task])
    blame = _Blame(timeline)
    parts: list[PathPart] = []
    now = 0
    for task in tasks[::-1]:
        parts += blame.parts(task, now)
        now = max(now, int(timeline.end[task]))
    return CriticalPath(timeline, tuple(parts))


class _Blame:
    """Splits the time of a task by its causes."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    @cached_property
    def _load(self) -> "curves.Steps[np.float64]":
        return curves.load_curves(self.timeline)

    def parts(self, task: int, now: int) -> list[PathPart]:
        """The stretches from `now` to the end of a task."""
        program, start, end = self.timeline.program, int(self.timeline.start[task]), int(self.timeline.end[task])
        compute = bool(program.lane[task] >= 0)
        alone = min(end, start + int(program.duration[task]))
        cause = CAUSES[_CAUSE_OF_KIND[program.kind[task]]]
        where = program.devices[program.lane[task]] if compute else self._narrowest(task)
        found = [PathPart(task, now, start, CAUSES[UNEXPLAINED], where), PathPart(task, start, alone, cause, where)]
        if end > alone:
            there = where if compute else self._fullest(task, start + int(program.delay[task]), end)
            found.append(PathPart(task, alone, end, CAUSES[SLOW if compute else CONTENTION], there))
        return [part for part in found if part.end > part.begin]

    def _narrowest(self, task: int) -> str:
        """The link of a route that has the least bandwidth; without a route, the ends."""
        program = self.timeline.program
        route = program.route[task]
        if not len(route):
            return f"{program.devices[program.source[task]]} to {program.devices[program.target[task]]}"
        return str(program.media[int(route[int(np.argmin(program.capacity[route]))])])

    def _fullest(self, task: int, begin: int, end: int) -> str:
        """The link of a route that is used most, as a part of its capacity, during a transfer."""
        program = self.timeline.program
        route = program.route[task].tolist()
        if not route or end <= begin:
            return self._narrowest(task)
        if program.folded is not None:  # curves are of what represents others; sums count all that are alike
            return str(program.media[max(route, key=lambda m: float(self.timeline.used[m] / program.capacity[m]))])
        edges = np.array([begin, end], np.float64)
        used = [float(curves.averages(*self._load[m], edges)[0]) / program.capacity[m] for m in route]
        return str(program.media[route[int(np.argmax(used))]])


def slack(timeline: Timeline) -> Ints:
    """Nanoseconds by which each task may end later without a longer iteration.

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", microbatches=4)
    >>> int(ps.slack(result.timeline)[list(ps.critical_path(result.timeline).tasks)].max())
    0
    """
    needs = timeline.program.needs
    pairs = [(needs.values, needs.row_of_value()), lane_order(timeline), link_order(timeline)]
    before, after = (np.concatenate(column) for column in zip(*pairs, strict=True))
    kept = timeline.end[before] <= timeline.start[after]  # what was recorded may overlap
    before, after = before[kept], after[kept]
    count = len(timeline.program)
    later = Ragged.of_pairs(count, before, after)
    earlier = Ragged.of_pairs(count, after, before)
    kernel = suited(latest_ends, large=count > _MANY)
    latest = np.full(count, timeline.makespan, np.int64)
    kernel(timeline.end - timeline.start, later.lengths, earlier.starts, earlier.values, latest)
    return latest - timeline.end


def slack_data(timeline: Timeline) -> dict[str, Any]:
    """The slack of every task, and of each device the least and the median over its tasks, and tasks without any."""
    program, found = timeline.program, slack(timeline)
    lanes = {name: found[lane] for name, lane in zip(program.devices, program.order, strict=True) if len(lane)}
    return {
        "devices": {
            name: {
                "least_s": units.to_s(int(values.min())),
                "median_s": units.to_s(float(np.median(values))),
                "without": int((values == 0).sum()),
                "tasks": len(values),
            }
            for name, values in lanes.items()
        },
        "tasks": [
            {"task": program.label(task), "end_s": units.to_s(end), "slack_s": units.to_s(ns)}
            for task, (end, ns) in enumerate(zip(timeline.end.tolist(), found.tolist(), strict=True))
        ],
    }


def latest_ends(lasts: Ints, left: Ints, earlier_starts: Ints, earlier: Ints, latest: Ints) -> None:
    """Lower the latest ends to those that all that comes later allows; `latest` holds the end of the iteration.

    `left` is how many tasks come directly after each.
    """
    count = len(lasts)
    stack = np.empty(count, np.int64)
    top = 0
    for task in range(count):
        if left[task] == 0:
            stack[top] = task
            top += 1
    while top > 0:
        top -= 1
        task = stack[top]
        begins = latest[task] - lasts[task]
        for at in range(earlier_starts[task], earlier_starts[task + 1]):
            other = earlier[at]
            latest[other] = min(latest[other], begins)
            left[other] -= 1
            if left[other] == 0:
                stack[top] = other
                top += 1
