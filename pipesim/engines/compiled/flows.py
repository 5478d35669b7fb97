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
from pipesim.engines.compiled.rate_updates import (
    INFINITE,
    MOST_LOOKS,
    Levels,
    add_pending,
    initial_levels,
    level_of,
    next_pending,
    rate_elsewhere,
)
from pipesim.engines.compiled.simulation_state import ProgramArrays, SimulationState
from pipesim.engines.max_min import rates_and_levels

DELAY_OVER, FLOW_ENDS, CAPACITY_CHANGES = 1, 2, 3
CHECKS = 16  # in the time of a run that may take only so long
FEW = 24  # flows that are joined to a change: up to so many, computing all their rates takes less time


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
    next_check: Ints  # one number: when to look again whether what is left to carry is too much
    search: "JoinedSearch"
    levels: Levels


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
        np.zeros(1, np.int64),
        search,
        initial_levels(tasks, media),
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
    """Give new rates to the flows that need them; False where that is more changes than allowed."""
    count, rates = find_joined(p, flows, FEW), flows.search.rates
    if count > FEW:
        count = updated_rates(p, flows)
        if count < 0:
            count = find_joined(p, flows, len(p.lane))
            fair_rates(p, flows, count)
    elif count > 1:
        fair_rates(p, flows, count)
    else:
        rate_alone(p, flows, count)
    for at in range(flows.touched_count[0]):
        flows.is_touched[flows.touched[at]] = False
    flows.touched_count[0] = 0
    for at in range(count):
        t, rate = flows.search.found[at], rates[at]
        if rate != flows.rate[t]:
            n = log.length[0]
            if n == p.most_changes:
                return False
            log.task[n], log.time[n], log.rate[n] = t, state.now[0], rate
            log.length[0] = n + 1
            set_rate(p, state, flows, t, rate)
    return True


@inlined
def rate_alone(p: ProgramArrays, flows: Flows, count: int) -> None:
    """The rate of a flow that shares no link but with those that are alike, if there is one, and the levels."""
    search, level = flows.search, flows.levels.level
    for at in range(search.media_count[0]):
        level[search.media[at]] = INFINITE
    if count == 1:
        task = search.found[0]
        rate = p.limit[task]
        for j in range(p.first_medium[task], p.first_medium[task + 1]):
            level[p.medium[j]] = flows.capacity[p.medium[j]] / (p.weight[j] if len(p.weight) > 0 else 1)
            rate = min(rate, level[p.medium[j]])
        for j in range(p.first_medium[task], p.first_medium[task + 1]):
            if level[p.medium[j]] > rate:
                level[p.medium[j]] = INFINITE
        search.rates[0] = rate


@inlined
def find_joined(p: ProgramArrays, flows: Flows, most: int) -> int:
    """Find the flows joined to the touched links through common links, or more than `most` of them; how many."""
    search = flows.search
    search.turn[0] += 1
    turn, links, count, looked_at = search.turn[0], flows.touched_count[0], 0, 0
    for at in range(links):
        m = flows.touched[at]
        search.seen_medium[m] = turn
        search.media[at], search.number[m] = m, at
    while looked_at < links and count <= most:
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


def updated_rates(p: ProgramArrays, flows: Flows) -> int:
    """Find the flows that get other rates, and these, from the rates before; -1 where that takes too long."""
    levels, rate = flows.levels, flows.rate
    count, looks = make_touched_pending(p, flows), 0
    while levels.links[0] > 0 and looks < MOST_LOOKS * len(levels.level):
        m = next_pending(levels)
        looks += 1
        old = levels.level[m]
        value = level_of(p, levels, flows.capacity[m], m, flows.foremost[m], flows.following, flows.task)
        if value != old:
            levels.level[m] = value
            count = change_rates(p, flows, m, old, count)
    ended = levels.links[0] == 0
    while levels.links[0] > 0:
        next_pending(levels)
    changed = flows.search.found[:count]
    changed.sort()
    for at in range(count):
        t = changed[at]
        flows.search.rates[at], rate[t], levels.before[t] = rate[t], levels.before[t], -1.0
    return count if ended else -1


@borrowing
def make_touched_pending(p: ProgramArrays, flows: Flows) -> int:
    """Levels of touched links are to be computed; flows that have just begun get a first rate. How many they are."""
    before, found, rate, count = flows.levels.before, flows.search.found, flows.rate, 0
    for at in range(flows.touched_count[0]):
        add_pending(flows.levels, flows.touched[at])
        j = flows.foremost[flows.touched[at]]
        while j >= 0:
            t = flows.task[j]
            if rate[t] == 0 and before[t] < 0:
                before[t], found[count], rate[t] = 0.0, t, rate_elsewhere(p, flows.levels.level, t, -1)
                count += 1
            j = flows.following[j]
    return count


@borrowing
def change_rates(p: ProgramArrays, flows: Flows, medium: int, old: float, count: int) -> int:
    """A link has another level than `old`: its flows get their rates, and links above these are to be looked at."""
    level, before, rate, j = flows.levels.level, flows.levels.before, flows.rate, flows.foremost[medium]
    value = level[medium]
    while j >= 0:
        t = flows.task[j]
        j = flows.following[j]
        if rate[t] < old and rate[t] <= value:
            continue  # another link holds it back
        new, last = min(value, rate_elsewhere(p, level, t, medium)), rate[t]
        if new == last:
            continue
        if before[t] < 0:
            before[t], flows.search.found[count] = last, t
            count += 1
        rate[t] = new
        for k in range(p.first_medium[t], p.first_medium[t + 1]):
            if level[p.medium[k]] > min(new, last) and p.medium[k] != medium:
                add_pending(flows.levels, p.medium[k])
    return count


def fair_rates(p: ProgramArrays, flows: Flows, count: int) -> None:
    """Sort flows that are joined through common links, and find their rates, on the links as they were found."""
    search = flows.search
    joined, rates = search.found[:count], search.rates
    joined.sort()
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
    found, level = rates_and_levels(first, crossed, weights, offered, limits)
    for at in range(count):
        rates[at] = found[at]
    for k in range(len(offered)):
        flows.levels.level[search.media[k]] = level[k]


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


def is_too_much_left(p: ProgramArrays, state: SimulationState, flows: Flows) -> bool:
    """Whether some link has more bytes to carry than it can before the last of its transfers must have ended."""
    now, media = state.now[0], len(flows.capacity)
    bytes_left, last, crossings, until = np.zeros(media), np.zeros(media), np.zeros(media, np.int64), np.int64(0)
    for t in range(len(p.lane)):
        until = max(until, p.latest[t])
        left = flows.left[t] if state.end[t] < 0 else 0.0
        if flows.ends[t] >= 0:
            left = max(0.0, left - flows.rate[t] * (now - flows.since[t]))
        if left > 0:
            for j in range(p.first_medium[t], p.first_medium[t + 1]):
                m = p.medium[j]
                bytes_left[m] += left * (p.weight[j] if len(p.weight) > 0 else 1)
                last[m] = max(last[m], p.latest[t])
                crossings[m] += 1
    flows.next_check[0] = now + until // CHECKS + 1
    for m in range(media):  # each crossing may be rounded by a nanosecond
        if crossings[m] > 0 and now + bytes_left[m] / flows.capacity[m] > last[m] + crossings[m]:
            return True
    return False


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
