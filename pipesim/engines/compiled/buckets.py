"""Token buckets in the compiled engine: what replaces kernels of `flows` where links have them.

The steps are those of `engines.shaped_links`, where buckets are described.
"""

import math

from pipesim.base.arrays import Ints
from pipesim.base.kernels import borrowing, inlined
from pipesim.engines.compiled.flows import (
    CAPACITY_CHANGES,
    FLOW_ENDS,
    Flows,
    find_groups,
    rates_of_groups,
    touch,
)
from pipesim.engines.compiled.heap import push
from pipesim.engines.compiled.simulation_state import ProgramArrays, SimulationState
from pipesim.engines.compiled.sorting import sort_first
from pipesim.engines.shaped_links import NEVER, ROUNDING


@borrowing
def bring_to(p: ProgramArrays, flows: Flows, medium: int, now: int) -> None:
    """What a bucket holds now."""
    buckets = flows.buckets
    change = (p.buckets.rate[medium] * buckets.speed[medium] - buckets.load[medium]) * (now - buckets.since[medium])
    buckets.tokens[medium] = min(p.buckets.size[medium], max(0.0, buckets.tokens[medium] + change))
    buckets.since[medium] = now


@inlined
def change_capacity_with_buckets(p: ProgramArrays, state: SimulationState, flows: Flows, number: int) -> None:
    """A link has another capacity from now on, or its bucket may be empty."""
    buckets, now = flows.buckets, state.now[0]
    if number < len(p.changes.time):
        m = p.changes.medium[number]
        if p.buckets.size[m] > 0:
            bring_to(p, flows, m, now)
            buckets.speed[m] = p.changes.speed[number]
        flows.capacity[m] = p.changes.capacity[number]
        touch(flows, m)
    else:
        m = number - len(p.changes.time)
        if buckets.empties[m] == now:  # else a change of rates came before
            buckets.empties[m], buckets.tokens[m], buckets.since[m] = NEVER, 0.0, now
            touch(flows, m)


@inlined
def new_rates_with_buckets(p: ProgramArrays, state: SimulationState, flows: Flows) -> int:
    """In place of `new_rates`: capacities are as buckets have them now; however many are joined, at once."""
    groups, buckets = find_groups(p.routes, flows, len(p.lane)), flows.buckets
    buckets.media[0] = flows.search.group_media[groups - 1]
    for at in range(buckets.media[0]):
        m = flows.search.media[at]
        if p.buckets.size[m] > 0:
            bring_to(p, flows, m, state.now[0])
            rate = p.buckets.rate[m] * buckets.speed[m]
            flows.capacity[m] = p.capacity[m] * buckets.speed[m] if buckets.tokens[m] >= rate else rate
    return rates_of_groups(p, flows, groups)


@borrowing
def set_timers(p: ProgramArrays, state: SimulationState, flows: Flows) -> None:
    """In place of `after_sharing`: when buckets are empty at the loads that links have now."""
    buckets, now = flows.buckets, state.now[0]
    for at in range(buckets.media[0]):
        m = flows.search.media[at]
        if p.buckets.size[m] > 0:
            buckets.load[m] = load_of(flows, m)
            rate, empties = p.buckets.rate[m] * buckets.speed[m], NEVER
            excess = buckets.load[m] - rate
            if buckets.tokens[m] >= rate and excess > ROUNDING * rate:
                empties = now + max(1, math.ceil(buckets.tokens[m] / excess - 1e-6))
            if empties not in (NEVER, buckets.empties[m]):
                if state.heap[0, 0] >= len(state.heap) - 1 - len(p.lane):
                    remove_outdated_with_buckets(p, state.heap, flows)
                push(state.heap, empties, 4 * (len(p.changes.time) + m) + CAPACITY_CHANGES)
            buckets.empties[m] = empties


@inlined
def load_of(flows: Flows, medium: int) -> float:
    """Bytes per ns of all flows on a link, added in the order of tasks."""
    found, count, load, j = flows.search.found, 0, 0.0, flows.foremost[medium]
    while j >= 0:
        found[count] = flows.task[j]
        count += 1
        j = flows.following[j]
    sort_first(found, count)
    for at in range(count):
        load += flows.rate[found[at]]
    return load


@borrowing
def remove_outdated_with_buckets(p: ProgramArrays, events: Ints, flows: Flows) -> None:
    """In place of `remove_outdated`: also times of empty buckets that no longer hold, or that are there twice."""
    before, changes, ends, empties = events[0, 0], len(p.changes.time), flows.ends, flows.buckets.empties
    events[0, 0] = 0
    for at in range(1, before + 1):
        time, code = events[at, 0], events[at, 1]
        kind, number = code & 3, code >> 2
        if kind == FLOW_ENDS:
            if ends[number] == time:
                ends[number] = -2 - time
                push(events, time, code)
        elif kind == CAPACITY_CHANGES and number >= changes:
            if empties[number - changes] == time:
                empties[number - changes] = -2 - time
                push(events, time, code)
        else:
            push(events, time, code)
    for at in range(1, events[0, 0] + 1):
        kind, number = events[at, 1] & 3, events[at, 1] >> 2
        if kind == FLOW_ENDS:
            ends[number] = events[at, 0]
        elif kind == CAPACITY_CHANGES and number >= changes:
            empties[number - changes] = events[at, 0]
