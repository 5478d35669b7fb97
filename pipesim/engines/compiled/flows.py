"""Max-min fair sharing in the compiled engine: flows on links, and what an event changes.

The kind of a heap entry 4 * number + kind, beside ENDS:

    DELAY_OVER         number is a task     the delay of a transfer is over
    FLOW_ENDS          number is a task     a flow ends, unless its rate has changed since (then `ends` differs)
    CAPACITY_CHANGES   number is a change   a link changes its capacity; there can be more changes than tasks
"""

import math
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import borrowing, inlined
from pipesim.engines.compiled.heap import push
from pipesim.engines.compiled.simulation_state import ProgramArrays, SimulationState
from pipesim.engines.max_min import max_min

DELAY_OVER, FLOW_ENDS, CAPACITY_CHANGES = 1, 2, 3
INFINITE = float("inf")


class Flows(NamedTuple):
    """The transfers under way. Those on one link form a doubly linked list of positions in `ProgramArrays.medium`."""

    left: Floats  # of each task: bytes to go at the time `since`
    rate: Floats
    since: Ints
    ends: Ints  # at its present rate; -1 where it is not under way
    task: Ints  # of each position in `medium`
    following: Ints
    previous: Ints
    foremost: Ints  # of each link: the first position of its list; -1 where it is empty
    capacity: Floats  # of each link, now
    touched: Ints  # links where something changed since rates were last computed: the first touched_count[0]
    touched_count: Ints
    is_touched: Bools
    under_way: Ints  # how many flows there are
    search: "JoinedSearch"


class RateLog(NamedTuple):
    """Changes of rates: the first length[0] entries."""

    task: Ints
    time: Ints
    rate: Floats
    length: Ints  # one number


class JoinedSearch(NamedTuple):
    """Room for finding which flows are joined to a change through common links."""

    turn: Ints  # one number: which search this is
    seen_medium: Ints  # the search that last found each link
    seen_flow: Ints
    found: Ints
    number: Ints  # of each link: its number among those found
    media: Ints  # the links found, in the order in which they are looked at: the first media_count[0]
    media_count: Ints
    rates: Floats  # of the flows found


def initial_flows(p: ProgramArrays) -> Flows:
    """No transfer is under way."""
    tasks, media, crossings = len(p.lane), len(p.capacity), len(p.medium)
    task = np.empty(crossings, np.int64)
    for t in range(tasks):
        for j in range(p.first_medium[t], p.first_medium[t + 1]):
            task[j] = t
    search = JoinedSearch(
        np.zeros(1, np.int64),
        np.full(media, -1, np.int64),
        np.full(tasks, -1, np.int64),
        np.empty(tasks, np.int64),
        np.empty(media, np.int64),
        np.empty(media, np.int64),
        np.zeros(1, np.int64),
        np.empty(tasks),
    )
    return Flows(
        p.used.copy(),
        np.zeros(tasks),
        np.zeros(tasks, np.int64),
        np.full(tasks, -1, np.int64),
        task,
        np.full(crossings, -1, np.int64),
        np.full(crossings, -1, np.int64),
        np.full(media, -1, np.int64),
        p.capacity.copy(),
        np.empty(media, np.int64),
        np.zeros(1, np.int64),
        np.zeros(media, np.bool_),
        np.zeros(1, np.int64),
        search,
    )


@inlined
def request(p: ProgramArrays, state: SimulationState) -> None:
    """Transfers have become ready: their delays begin."""
    while state.ready_count[0] > 0:
        state.ready_count[0] -= 1
        t = state.ready[state.ready_count[0]]
        state.start[t] = state.now[0]
        push(state.heap, state.now[0] + p.delay[t], 4 * t + DELAY_OVER)


@inlined
def ended_task(p: ProgramArrays, state: SimulationState, flows: Flows, code: int) -> int:
    """Process one heap entry; the task that ends with it, or -1."""
    kind, number, ended = code & 3, code >> 2, -1
    if kind == CAPACITY_CHANGES:
        flows.capacity[p.changes.medium[number]] = p.changes.capacity[number]
        touch(flows, p.changes.medium[number])
    elif kind == DELAY_OVER and flows.left[number] > 0 and p.first_medium[number] < p.first_medium[number + 1]:
        join(p, flows, number, state.now[0])
    elif kind != FLOW_ENDS:
        ended = number
    elif flows.ends[number] == state.now[0]:
        leave(p, flows, number)
        ended = number
    return ended


@inlined
def touch(flows: Flows, medium: int) -> None:
    """Something has changed on a link."""
    if not flows.is_touched[medium]:
        flows.is_touched[medium] = True
        flows.touched[flows.touched_count[0]] = medium
        flows.touched_count[0] += 1


@inlined
def join(p: ProgramArrays, flows: Flows, task: int, now: int) -> None:
    """A flow begins on every link of its route, at no rate until links are shared."""
    flows.rate[task], flows.since[task] = 0.0, now
    flows.under_way[0] += 1
    for j in range(p.first_medium[task], p.first_medium[task + 1]):
        m = p.medium[j]
        flows.following[j], flows.previous[j] = flows.foremost[m], -1
        if flows.foremost[m] >= 0:
            flows.previous[flows.foremost[m]] = j
        flows.foremost[m] = j
        touch(flows, m)


@inlined
def leave(p: ProgramArrays, flows: Flows, task: int) -> None:
    """A flow ends on every link of its route."""
    flows.ends[task] = -1
    flows.under_way[0] -= 1
    for j in range(p.first_medium[task], p.first_medium[task + 1]):
        m = p.medium[j]
        if flows.previous[j] >= 0:
            flows.following[flows.previous[j]] = flows.following[j]
        else:
            flows.foremost[m] = flows.following[j]
        if flows.following[j] >= 0:
            flows.previous[flows.following[j]] = flows.previous[j]
        touch(flows, m)


@inlined
def share_links(p: ProgramArrays, state: SimulationState, flows: Flows, log: RateLog) -> bool:
    """Give new rates to the flows joined to what was touched; False where that is more changes than allowed."""
    count, rates = find_joined(p, flows), flows.search.rates
    joined = flows.search.found[:count]
    if count == 1:
        rates[0] = rate_alone(p, flows, joined[0])
    elif count > 1:
        fair_rates(p, joined, flows, rates)
    for at in range(count):
        t, rate = joined[at], rates[at]
        if rate != flows.rate[t]:
            n = log.length[0]
            if n == p.most_changes:
                return False
            log.task[n], log.time[n], log.rate[n] = t, state.now[0], rate
            log.length[0] = n + 1
            set_rate(p, state, flows, t, rate)
    return True


@inlined
def rate_alone(p: ProgramArrays, flows: Flows, task: int) -> float:
    """The rate of a flow that shares no link but with those that are alike."""
    rate: float = p.limit[task]
    for j in range(p.first_medium[task], p.first_medium[task + 1]):
        alike = p.weight[j] if len(p.weight) > 0 else 1
        rate = min(rate, flows.capacity[p.medium[j]] / alike)
    return rate


@inlined
def find_joined(p: ProgramArrays, flows: Flows) -> int:
    """Find the flows joined to the touched links through common links; how many they are."""
    search = flows.search
    search.turn[0] += 1
    turn, links, count, looked_at = search.turn[0], flows.touched_count[0], 0, 0
    for at in range(links):
        m = flows.touched[at]
        flows.is_touched[m] = False
        search.seen_medium[m] = turn
        search.media[at], search.number[m] = m, at
    flows.touched_count[0] = 0
    while looked_at < links:
        j = flows.foremost[search.media[looked_at]]
        looked_at += 1
        while j >= 0:
            t = flows.task[j]
            if search.seen_flow[t] != turn:
                search.seen_flow[t] = turn
                search.found[count] = t
                count += 1
                for k in range(p.first_medium[t], p.first_medium[t + 1]):
                    m = p.medium[k]
                    if search.seen_medium[m] != turn:
                        search.seen_medium[m] = turn
                        search.media[links], search.number[m] = m, links
                        links += 1
            j = flows.following[j]
    search.media_count[0] = links
    return count


def fair_rates(p: ProgramArrays, joined: Ints, flows: Flows, rates: Floats) -> None:
    """Sort flows that are joined through common links, and find their rates, on the links as they were found."""
    joined.sort()
    count, search = len(joined), flows.search
    first, limits = np.zeros(count + 1, np.int64), np.empty(count)
    for at in range(count):
        t = joined[at]
        first[at + 1] = first[at] + p.first_medium[t + 1] - p.first_medium[t]
        limits[at] = p.limit[t]
    crossed = np.empty(first[count], np.int64)
    weights = np.empty(first[count] if len(p.weight) > 0 else 0, np.int64)
    for at in range(count):
        t = joined[at]
        for k in range(p.first_medium[t], p.first_medium[t + 1]):
            crossed[first[at] + k - p.first_medium[t]] = search.number[p.medium[k]]
            if len(p.weight) > 0:
                weights[first[at] + k - p.first_medium[t]] = p.weight[k]
    offered = np.empty(search.media_count[0])
    for k in range(len(offered)):
        offered[k] = flows.capacity[search.media[k]]
    found = max_min(first, crossed, weights, offered, limits)
    for at in range(count):
        rates[at] = found[at]


@inlined
def set_rate(p: ProgramArrays, state: SimulationState, flows: Flows, task: int, rate: float) -> None:
    """From now on a flow runs at this rate."""
    now = state.now[0]
    flows.left[task] = max(0.0, flows.left[task] - flows.rate[task] * (now - flows.since[task]))
    flows.since[task], flows.rate[task] = now, rate
    flows.ends[task] = now + math.ceil(flows.left[task] / rate - 1e-6)
    if state.heap[0, 0] >= len(state.heap) - 1 - len(p.lane):
        remove_outdated(state.heap, flows.ends)
    push(state.heap, flows.ends[task], 4 * task + FLOW_ENDS)


@borrowing
def remove_outdated(events: Ints, ends: Ints) -> None:
    """Remove the ends of flows that no longer hold, or that are there twice.

    An end that changed, and then changed back, is there twice. What is kept is marked in `ends`, then unmarked.
    """
    before = events[0, 0]
    events[0, 0] = 0
    for at in range(1, before + 1):
        time, code = events[at, 0], events[at, 1]
        if code & 3 != FLOW_ENDS:
            push(events, time, code)
        elif ends[code >> 2] == time:
            ends[code >> 2] = -2 - time
            push(events, time, code)
    for at in range(1, events[0, 0] + 1):
        if events[at, 1] & 3 == FLOW_ENDS:
            ends[events[at, 1] >> 2] = events[at, 0]


def empty_log(room: int) -> RateLog:
    """No change yet."""
    return RateLog(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room), np.zeros(1, np.int64))


def longer_log(log: RateLog, more: int) -> RateLog:
    """The same changes with room for at least so many more, and twice as many as before."""
    n = log.length[0]
    longer: RateLog = empty_log(2 * len(log.task) + more)
    for at in range(n):
        longer.task[at], longer.time[at], longer.rate[at] = log.task[at], log.time[at], log.rate[at]
    longer.length[0] = n
    return longer
