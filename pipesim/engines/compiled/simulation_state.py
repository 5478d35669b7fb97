"""What the event loops of all sharing rules have in common: the program as arrays, lanes, dependencies, the heap.

    at each time:   first everything that ends is processed, and the compute tasks that this lets start;
                    then the rule grants links, or shares them out, once; then again, if something ends at once

The steps are those of the SimPy engine, on arrays. A heap entry is 4 * number + kind: of a task that ends the kind is
ENDS; a rule may use three more.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import inlined
from pipesim.core import limits
from pipesim.core.program import Program
from pipesim.engines.compiled.dependents import Shorts, dependents_of
from pipesim.engines.compiled.heap import empty_heap, push
from pipesim.engines.compiled.speeds import Profiles, finish, profiles_of

ENDS = 0
PER_CHANGE = 100  # bytes for each change of a rate: an array that grows, and its copies


class CapacityChanges(NamedTuple):
    """From `time` on a medium has this capacity, in bytes per ns."""

    time: Ints
    medium: Shorts
    capacity: Floats
    speed: Floats  # the part of its bandwidth that this is


class BucketArrays(NamedTuple):
    """The token buckets of media, a row for each medium where any has one: 0 where it has none."""

    size: Floats
    rate: Floats


class RouteArrays(NamedTuple):
    """What each task crosses: medium[first[t] : first[t + 1]], at no more than limit[t] bytes per ns."""

    first: Shorts
    medium: Shorts
    weight: Shorts  # beside each medium, how many transfers that are alike cross it; empty: one
    limit: Floats


class ProgramArrays(NamedTuple):
    """What the event loops read of a program; row t of `values` is values[first[t] : first[t + 1]]."""

    lane: Shorts  # of each task; -1 for transfers
    duration: Ints
    delay: Ints
    used: Floats
    needs: Shorts  # how many tasks each task needs
    first_dependent: Shorts
    dependent: Shorts
    first_order: Shorts
    order: Shorts
    routes: RouteArrays
    capacity: Floats
    profiles: Profiles
    changes: CapacityChanges  # none, unless the rule is one that changes rates
    buckets: BucketArrays
    most_changes: int  # of rates
    latest: Ints  # of each task: if it ends later, the run is given up; empty: never


class RunTimes(NamedTuple):
    """When each task started and ended, -1 where it did not; and each change of a rate."""

    start: Ints
    end: Ints
    rate_task: Ints
    rate_time: Ints
    rate: Floats
    is_refused: bool  # given up: rates changed more often than `most_changes`
    is_late: bool  # given up: a task ended after its `latest`
    is_crowded: bool  # given up: another kernel takes less time


def arrays_of(program: Program) -> ProgramArrays:
    """The program as arrays. Indices take 32 bits, so that less memory is read; no machine holds more tasks."""
    first_dependent, dependent = dependents_of(program.needs.starts, program.needs.values, len(program))
    return ProgramArrays(
        program.lane.astype(np.int32),
        program.duration,
        program.delay,
        program.used,
        program.needs.lengths.astype(np.int32),
        first_dependent,
        dependent,
        program.order.starts.astype(np.int32),
        program.order.values.astype(np.int32),
        RouteArrays(
            program.route.starts.astype(np.int32),
            program.route.values.astype(np.int32),
            program.alike.astype(np.int32),
            program.limit,
        ),
        program.capacity,
        profiles_of(program),
        _capacity_changes(program),
        _buckets(program),
        limits.most_changes(PER_CHANGE),
        np.zeros(0, np.int64),
    )


def _capacity_changes(program: Program) -> CapacityChanges:
    found = [
        (time, medium, program.media_speed(medium, time))
        for medium, speeds in (program.media_speeds.items() if program.sharing_rule.rated else ())
        for time in speeds.times
    ]
    return CapacityChanges(
        np.array([time for time, _, _ in found], np.int64),
        np.array([medium for _, medium, _ in found], np.int32),
        np.array([float(program.capacity[medium]) * speed for _, medium, speed in found], np.float64),
        np.array([speed for _, _, speed in found], np.float64),
    )


def _buckets(program: Program) -> BucketArrays:
    size, rate = np.zeros((2, len(program.media) if program.buckets else 0))
    for medium, bucket in program.buckets.items():
        size[medium], rate[medium] = bucket
    return BucketArrays(size, rate)


class SimulationState(NamedTuple):
    """What changes while a program runs."""

    now: Ints  # one number
    start: Ints  # of each task; -1 before it has started
    end: Ints  # of each task; -1 before it has ended
    missing: Shorts  # how many of the tasks that a task needs have not ended
    position: Ints  # of each lane: how many of its tasks have ended
    busy: Bools  # of each lane
    ready: Ints  # transfers whose needs have ended and which the rule has not looked at: the first ready_count[0]
    ready_count: Ints
    heap: Ints  # what happens next, as `pipesim.engines.compiled.heap` describes it


def state_before(p: ProgramArrays, now: int, room: int) -> SimulationState:
    """Nothing has started; the heap has room for `room` entries."""
    tasks, lanes = len(p.lane), len(p.first_order) - 1
    return SimulationState(
        np.full(1, now, np.int64),
        np.full(tasks, -1, np.int64),
        np.full(tasks, -1, np.int64),
        p.needs.copy(),
        np.zeros(lanes, np.int64),
        np.zeros(lanes, np.bool_),
        np.empty(tasks + 1, np.int64),
        np.zeros(1, np.int64),
        empty_heap(room),
    )


def initial_state(p: ProgramArrays, room: int) -> SimulationState:
    """Only the first tasks of lanes that need nothing have started."""
    tasks, lanes, state = len(p.lane), len(p.first_order) - 1, state_before(p, 0, room)
    for n in range(lanes):
        state.position[n] = p.first_order[n]
        if p.first_order[n] < p.first_order[n + 1] and p.needs[p.order[p.first_order[n]]] == 0:
            state.busy[n] = True
            start_task(p, state, p.order[p.first_order[n]])
    for t in range(tasks):
        if p.needs[t] == 0 and p.lane[t] < 0:
            state.ready[state.ready_count[0]] = t
            state.ready_count[0] += 1
    return state


@inlined
def start_task(p: ProgramArrays, state: SimulationState, task: int) -> None:
    """Start a task that has its lane or its links to itself until it ends."""
    now = state.now[0]
    state.start[task] = now
    if p.profiles.of_task[task] < 0:
        push(state.heap, now + p.duration[task], 4 * task + ENDS)
    else:
        delay = p.delay[task] if p.lane[task] < 0 else 0
        ends = finish(p.profiles, p.profiles.of_task[task], now + delay, p.duration[task] - delay)
        push(state.heap, ends, 4 * task + ENDS)


@inlined
def end_task(p: ProgramArrays, state: SimulationState, task: int) -> None:
    """A task ends: its lane goes on; compute tasks that miss nothing more start, such transfers become ready."""
    state.end[task] = state.now[0]
    n = p.lane[task]
    if n >= 0:
        state.busy[n] = False
        state.position[n] += 1
        at = state.position[n]
        if at < p.first_order[n + 1] and state.missing[p.order[at]] == 0:
            state.busy[n] = True
            start_task(p, state, p.order[at])
    for at in range(p.first_dependent[task], p.first_dependent[task + 1]):
        w = p.dependent[at]
        state.missing[w] -= 1
        if state.missing[w] > 0:
            continue
        n = p.lane[w]
        if n < 0:
            state.ready[state.ready_count[0]] = w
            state.ready_count[0] += 1
        elif not state.busy[n] and p.order[state.position[n]] == w:
            state.busy[n] = True
            start_task(p, state, w)


@inlined
def happens_now(state: SimulationState) -> bool:
    """Whether the first heap entry is of the present time."""
    return bool(state.heap[0, 0] > 0 and state.heap[1, 0] == state.now[0])


@inlined
def advance(state: SimulationState) -> bool:
    """Go on to the time of the first heap entry; False if there is none."""
    if state.heap[0, 0] == 0:
        return False
    state.now[0] = state.heap[1, 0]
    return True


def without_rates(state: SimulationState) -> RunTimes:
    """The outcome under a rule in which no rate changes while a transfer runs."""
    none = np.empty(0, np.int64)
    return RunTimes(state.start, state.end, none, none, np.empty(0), False, False, False)
