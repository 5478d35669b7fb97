"""Runs that begin where an earlier one of nearly the same program stops being the same.

Up to the first moment at which what has changed matters, both do the same, so that the timeline of the earlier run is a
checkpoint at every moment: the state before that moment follows from which tasks have started and ended, and from the
rates that transfers had. Resumed runs give the same timeline as whole ones, to the last bit.

    a task has changed          matters when it starts (a transfer: when it is ready, since others queue behind it)
    what a task waits for       ... when it is ready, before or after the change
    the order of a lane         ... when the last task ends that is at its place in both orders
    a speed, a capacity         ... when it first differs, or when what it slows down starts

Planners' moves matter almost from the beginning: on 16 stages x 64 microbatches after 1.4 % of the iteration
(`benchmarks/bench_moves.py`), so that nothing is gained there. What happens at the end, such as reductions and
optimizer steps, is where it pays.
"""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints, Ragged
from pipesim.core.program import Program
from pipesim.core.scenario import STEADY, Speeds
from pipesim.core.timeline import Timeline
from pipesim.engines.compiled.heap import push
from pipesim.engines.compiled.simulation_state import ENDS, ProgramArrays, SimulationState, state_before


class Earlier(NamedTuple):
    """An earlier run, which is the same before a moment: start and end of each task, and what transfers did."""

    moment: int
    start: Ints
    end: Ints
    waiting: Ints  # transfers that became ready before the moment and did not start: in the order in which they queue
    ready: Ints  # ... and when each of them became ready
    rate_task: Ints  # changes of rates before the moment
    rate_time: Ints
    rate: Floats


def earlier_run(timeline: Timeline, moment: int) -> Earlier:
    """What a run before this moment has come to."""
    ready, start = timeline.ready, timeline.start
    waits = np.flatnonzero((timeline.program.lane < 0) & (ready < moment) & (start >= moment))
    waits = waits[np.lexsort((waits, ready[waits]))]
    nothing = np.zeros(0, np.int64)
    changes = (nothing, nothing, np.zeros(0))
    if timeline.rates is not None:
        count = int(np.searchsorted(timeline.rates.time, moment))
        changes = (timeline.rates.task[:count], timeline.rates.time[:count], timeline.rates.rate[:count])
    return Earlier(moment, start, timeline.end, waits, ready[waits], *changes)


def restored_state(p: ProgramArrays, earlier: Earlier, room: int, rated: bool) -> SimulationState:  # noqa: FBT001 - a kernel has no keywords
    """The state after all that happened before the moment; where transfers have rates, these follow."""
    tasks, lanes = len(p.lane), len(p.first_order) - 1
    state = state_before(p, earlier.moment - 1, room)
    for t in range(tasks):
        if earlier.start[t] >= earlier.moment:
            continue
        state.start[t] = earlier.start[t]
        if earlier.end[t] < earlier.moment:
            state.end[t] = earlier.end[t]
            for at in range(p.first_dependent[t], p.first_dependent[t + 1]):
                state.missing[p.dependent[at]] -= 1
        elif p.lane[t] >= 0 or not rated:
            push(state.heap, earlier.end[t], 4 * t + ENDS)
    for n in range(lanes):
        at, behind = p.first_order[n], p.first_order[n + 1]
        while at < behind and state.end[p.order[at]] >= 0:
            at += 1
        state.position[n] = at
        state.busy[n] = at < behind and state.start[p.order[at]] >= 0
    return state


# --- where programs differ -------------------------------------------------------------------------------------------


def first_difference(program: Program, earlier: Timeline) -> int:
    """The first moment at which it may matter that this is not the earlier program; 0 if they are of other forms.

    Beyond the end of the earlier run where nothing differs that matters.
    """
    was = earlier.program
    if not _of_one_form(program, was) or (program.sharing_rule.rated and earlier.rates is None):
        return 0
    used = np.where(program.is_compute, earlier.start, earlier.ready)
    rerouted = _rows_that_differ(program.route, was.route)
    changed = rerouted.copy()
    for name in ("duration", "delay", "used", "limit"):
        changed |= getattr(program, name) != getattr(was, name)
    crossing, medium = program.route.row_of_value(), program.route.values
    slowed = program.capacity != was.capacity
    changed[crossing[slowed[medium]]] = True
    found = [earlier.makespan + 1, *used[changed].tolist()]
    found += _by_needs(program, earlier)
    found += _by_order(program, earlier)
    for lane, time in _other_speeds(program.lane_speeds, was.lane_speeds):
        found += used[(program.lane == lane) & (earlier.end > time)].tolist()
    for link, time in _other_speeds(program.media_speeds, was.media_speeds):
        crosses = np.zeros(len(program), bool)
        crosses[crossing[medium == link]] = True
        found += [time] if program.sharing_rule.rated else used[crosses & (earlier.end > time)].tolist()
    return int(min(found))


def _of_one_form(program: Program, was: Program) -> bool:
    return (
        program.sharing == was.sharing
        and len(program.devices) == len(was.devices)
        and len(program.media) == len(was.media)
        and not (program.buckets or was.buckets)
        and np.array_equal(program.lane, was.lane)
        and np.array_equal(program.alike, was.alike)
    )


def _by_needs(program: Program, earlier: Timeline) -> Iterable[int]:
    """When what waits for other tasks is ready, before or after the change."""
    changed = _rows_that_differ(program.needs, earlier.program.needs)
    if not changed.any():
        return []
    ready = np.zeros(len(program), np.int64)
    np.maximum.at(ready, program.needs.row_of_value(), earlier.end[program.needs.values])
    found: list[int] = np.minimum(ready, earlier.ready)[changed].tolist()
    return found


def _by_order(program: Program, earlier: Timeline) -> Iterable[int]:
    """When the lanes with another order come to the first task that is at another place."""
    new, old = program.order, earlier.program.order
    if new == old:
        return
    for mine, its in zip(new, old, strict=True):
        differs = np.flatnonzero(mine != its)
        if len(differs):
            yield int(earlier.end[its[differs[0] - 1]]) if differs[0] else 0


def _other_speeds(new: dict[int, Speeds], old: dict[int, Speeds]) -> Iterable[tuple[int, int]]:
    """The lanes or media with other speeds, and from when on."""
    for one in sorted({*new, *old}):
        pieces = [list(zip(*of.get(one, STEADY), strict=True)) for of in (new, old)]
        same = sum(1 for _ in itertools.takewhile(lambda both: both[0] == both[1], zip(*pieces, strict=False)))
        after = [piece[same][0] for piece in pieces if len(piece) > same]
        if after:
            yield one, min(after)


def _rows_that_differ(new: Ragged, old: Ragged) -> Bools:
    if new == old:
        return np.zeros(len(new), bool)
    differ: Bools = new.lengths != old.lengths
    rows = np.flatnonzero(~differ)
    unequal = new.take(rows).values != old.take(rows).values
    differ[np.repeat(rows, new.lengths[rows])[unequal]] = True
    return differ
