"""Max-min fair sharing in the compiled engine: flows on links, and what an event changes.

The kind of a heap entry 4 * number + kind, beside ENDS:

    DELAY_OVER         number is a task     the delay of a transfer is over
    FLOW_ENDS          number is a task     a flow ends, unless its rate has changed since (then `ends` differs)
    CAPACITY_CHANGES   number is a change   a link changes its capacity; there can be more changes than tasks. After
                                            the numbers of changes: a medium, whose bucket is empty (`buckets`)
"""

import math
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import borrowing, inlined
from pipesim.engines.compiled.filling import JoinedSearch, fair_rates, initial_search
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
from pipesim.engines.compiled.simulation_state import ProgramArrays, RouteArrays, SimulationState
from pipesim.engines.compiled.sorting import sort_first

DELAY_OVER, FLOW_ENDS, CAPACITY_CHANGES = 1, 2, 3
CHECKS = 16  # in the time of a run that may take only so long
FEW = 24  # flows that are joined to a change: up to so many, computing all their rates takes less time
MANY = 128  # ... from so many on, a run begins again with levels, which take more time to keep and to compile
SHARED, CROWDED, TOO_MANY_CHANGES = range(3)


class Flows(NamedTuple):
    """The transfers under way. Those on one link form a doubly linked list of positions in `RouteArrays.medium`."""

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
    search: JoinedSearch
    levels: Levels
    buckets: "Buckets"


class RateLog(NamedTuple):
    """Changes of rates: the first length[0] entries."""

    task: Ints
    time: Ints
    rate: Floats
    length: Ints  # one number


class Buckets(NamedTuple):
    """Token buckets, a row for each medium where any has one; see `buckets`."""

    tokens: Floats  # at the time `since`
    since: Ints
    load: Floats  # bytes per ns of all flows, from then on
    speed: Floats  # the part of its bandwidth that a link has
    empties: Ints  # when, at this load; -1 if never
    media: Ints  # one number: how many links were found for the present change


def initial_flows(p: ProgramArrays) -> Flows:
    """No transfer is under way."""
    tasks, media, crossings = len(p.lane), len(p.capacity), len(p.routes.medium)
    task = np.empty(crossings, np.int64)
    for t in range(tasks):
        for j in range(p.routes.first[t], p.routes.first[t + 1]):
            task[j] = t
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
        initial_search(tasks, media),
        initial_levels(tasks, media),
        Buckets(
            p.buckets.size.copy(),
            np.zeros(len(p.buckets.size), np.int64),
            np.zeros(len(p.buckets.size)),
            np.ones(len(p.buckets.size)),
            np.full(len(p.buckets.size), -1, np.int64),
            np.zeros(1, np.int64),
        ),
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
        change_capacity(p, state, flows, number)
    elif kind == DELAY_OVER and flows.left[number] > 0 and p.routes.first[number] < p.routes.first[number + 1]:
        join(p, flows, number, state.now[0])
    elif kind != FLOW_ENDS:
        ended = number
    elif flows.ends[number] == state.now[0]:
        leave(p, flows, number)
        ended = number
    return ended


@inlined
def change_capacity(p: ProgramArrays, state: SimulationState, flows: Flows, number: int) -> None:  # noqa: ARG001 - as in `buckets`
    """A link has another capacity from now on."""
    flows.capacity[p.changes.medium[number]] = p.changes.capacity[number]
    touch(flows, p.changes.medium[number])


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
    for j in range(p.routes.first[task], p.routes.first[task + 1]):
        m = p.routes.medium[j]
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
    for j in range(p.routes.first[task], p.routes.first[task + 1]):
        m = p.routes.medium[j]
        if flows.previous[j] >= 0:
            flows.following[flows.previous[j]] = flows.following[j]
        else:
            flows.foremost[m] = flows.following[j]
        if flows.following[j] >= 0:
            flows.previous[flows.following[j]] = flows.previous[j]
        touch(flows, m)


@inlined
def share_links(p: ProgramArrays, state: SimulationState, flows: Flows, log: RateLog) -> int:
    """Give new rates to the flows that need them: SHARED, or why that cannot be done."""
    count = new_rates(p, state, flows)
    if count < 0:
        return CROWDED
    for at in range(flows.touched_count[0]):
        flows.is_touched[flows.touched[at]] = False
    flows.touched_count[0] = 0
    for at in range(count):
        t = flows.search.found[at]
        rate = flows.search.rates[t]
        if rate != flows.rate[t]:
            n = log.length[0]
            if n == p.most_changes:
                return TOO_MANY_CHANGES
            log.task[n], log.time[n], log.rate[n] = t, state.now[0], rate
            log.length[0] = n + 1
            set_rate(p, state, flows, t, rate)
    after_sharing(p, state, flows)
    return SHARED


@inlined
def after_sharing(p: ProgramArrays, state: SimulationState, flows: Flows) -> None:
    """Flows have new rates: where there are buckets, `buckets` does something here."""


@inlined
def new_rates(p: ProgramArrays, state: SimulationState, flows: Flows) -> int:  # noqa: ARG001 - as in `buckets`
    """Find the flows that may get other rates, in order, and these rates; how many, or -1 where many are joined."""
    return joined_rates(p, flows, MANY)


@inlined
def new_rates_by_levels(p: ProgramArrays, state: SimulationState, flows: Flows) -> int:  # noqa: ARG001 - as above
    """In place of `new_rates` where many are joined: then only the rates that change are computed, from all levels."""
    count, most = -1, FEW
    while count < 0:
        count = joined_rates(p, flows, most)
        if count < 0:
            most = len(p.lane)
            count = updated_rates(p.routes, flows)
    return count


@inlined
def joined_rates(p: ProgramArrays, flows: Flows, most: int) -> int:
    """Find the flows that are joined to touched links, in order, and their rates; -1 where more than `most` are joined.

    How many they are. Those that no common link joins are computed apart: most often each is alone.
    """
    return rates_of_groups(p, flows, find_groups(p.routes, flows, most))


@inlined
def rates_of_groups(p: ProgramArrays, flows: Flows, groups: int) -> int:
    """The rates of the flows in groups that are found, in order, and how many they are; -1 where there are none."""
    search, begin = flows.search, 0
    for group in range(groups):
        if search.group_flows[group] > begin + 1:
            fair_rates(p.routes, flows.capacity, flows.search, flows.levels.level, begin, group)
        else:
            rate_alone(p.routes, flows, begin, group)
        begin = search.group_flows[group]
    if begin > 1:
        sort_first(search.found, begin)
    return begin if groups >= 0 else -1


@borrowing
def find_groups(routes: RouteArrays, flows: Flows, most: int) -> int:
    """Find the groups of flows that are joined to touched links; how many, or -1 where one has more than `most`."""
    search = flows.search
    search.turn[0] += 1
    groups, count, links = 0, 0, 0
    for at in range(flows.touched_count[0]):
        m = flows.touched[at]
        if search.seen_medium[m] != search.turn[0]:
            before = count
            count, links = find_joined(routes, flows, m, count, links, most)
            if count > before + most:
                return -1
            search.group_flows[groups], search.group_media[groups] = count, links
            groups += 1
    return groups


@inlined
def rate_alone(routes: RouteArrays, flows: Flows, begin: int, group: int) -> None:
    """The rate of the flow of a group, if it has one: its links have no others but those that are alike."""
    if begin < flows.search.group_flows[group]:
        task = flows.search.found[begin]
        rate = routes.limit[task]
        for j in range(routes.first[task], routes.first[task + 1]):
            alike = routes.weight[j] if len(routes.weight) > 0 else 1
            rate = min(rate, flows.capacity[routes.medium[j]] / alike)
        flows.search.rates[task] = rate


@borrowing
def rate_and_levels_alone(routes: RouteArrays, flows: Flows, begin: int, group: int) -> None:
    """In place of `rate_alone` where levels are kept: those of the links of the group too."""
    search, level = flows.search, flows.levels.level
    rate_alone(routes, flows, begin, group)
    for at in range(search.group_media[group - 1] if group > 0 else 0, search.group_media[group]):
        level[search.media[at]] = INFINITE
    for n in range(begin, search.group_flows[group]):
        task = search.found[n]
        for j in range(routes.first[task], routes.first[task + 1]):
            offer = flows.capacity[routes.medium[j]] / (routes.weight[j] if len(routes.weight) > 0 else 1)
            if offer <= search.rates[task]:
                level[routes.medium[j]] = offer


@inlined
def find_joined(  # noqa: PLR0917 - a kernel has no keywords
    routes: RouteArrays, flows: Flows, medium: int, begin: int, first: int, most: int
) -> tuple[int, int]:
    """Find the flows joined to a link through common links, or a few more than `most`: from `begin` and `first` on.

    Where they and the links end.
    """
    search = flows.search
    turn, links, count, looked_at = search.turn[0], first + 1, begin, first
    search.seen_medium[medium] = turn
    search.media[first] = medium
    while looked_at < links and count <= begin + most:
        j = flows.foremost[search.media[looked_at]]
        looked_at += 1
        while j >= 0:
            t = flows.task[j]
            if search.seen_flow[t] != turn:
                search.seen_flow[t] = turn
                search.found[count] = t
                count += 1
                for k in range(routes.first[t], routes.first[t + 1]):
                    m = routes.medium[k]
                    if search.seen_medium[m] != turn:
                        search.seen_medium[m] = turn
                        search.media[links] = m
                        links += 1
            j = flows.following[j]
    return count, links


def updated_rates(routes: RouteArrays, flows: Flows) -> int:
    """Find the flows that get other rates, and these, from the rates before; -1 where that takes too long."""
    levels, rate = flows.levels, flows.rate
    count, looks = make_touched_pending(routes, flows), 0
    while levels.links[0] > 0 and looks < MOST_LOOKS * len(levels.level):
        m = next_pending(levels)
        looks += 1
        old = levels.level[m]
        value = level_of(routes, levels, flows.capacity[m], m, flows.foremost[m], flows.following, flows.task)
        if value != old:
            levels.level[m] = value
            count = change_rates(routes, flows, m, old, count)
    ended = levels.links[0] == 0
    while levels.links[0] > 0:
        next_pending(levels)
    sort_first(flows.search.found, count)
    for at in range(count):
        t = flows.search.found[at]
        flows.search.rates[t], rate[t], levels.before[t] = rate[t], levels.before[t], -1.0
    return count if ended else -1


@borrowing
def make_touched_pending(routes: RouteArrays, flows: Flows) -> int:
    """Levels of touched links are to be computed; flows that have just begun get a first rate. How many they are."""
    before, found, rate, count = flows.levels.before, flows.search.found, flows.rate, 0
    for at in range(flows.touched_count[0]):
        add_pending(flows.levels, flows.touched[at])
        j = flows.foremost[flows.touched[at]]
        while j >= 0:
            t = flows.task[j]
            if rate[t] == 0 and before[t] < 0:
                before[t], found[count], rate[t] = 0.0, t, rate_elsewhere(routes, flows.levels.level, t, -1)
                count += 1
            j = flows.following[j]
    return count


@borrowing
def change_rates(routes: RouteArrays, flows: Flows, medium: int, old: float, count: int) -> int:
    """A link has another level than `old`: its flows get their rates, and links above these are to be looked at."""
    level, before, rate, j = flows.levels.level, flows.levels.before, flows.rate, flows.foremost[medium]
    value = level[medium]
    while j >= 0:
        t = flows.task[j]
        j = flows.following[j]
        if rate[t] < old and rate[t] <= value:
            continue  # another link holds it back
        new, last = min(value, rate_elsewhere(routes, level, t, medium)), rate[t]
        if new == last:
            continue
        if before[t] < 0:
            before[t], flows.search.found[count] = last, t
            count += 1
        rate[t] = new
        for k in range(routes.first[t], routes.first[t + 1]):
            if level[routes.medium[k]] > min(new, last) and routes.medium[k] != medium:
                add_pending(flows.levels, routes.medium[k])
    return count


@inlined
def set_rate(p: ProgramArrays, state: SimulationState, flows: Flows, task: int, rate: float) -> None:
    """From now on a flow runs at this rate."""
    now = state.now[0]
    flows.left[task] = max(0.0, flows.left[task] - flows.rate[task] * (now - flows.since[task]))
    flows.since[task], flows.rate[task] = now, rate
    flows.ends[task] = now + math.ceil(flows.left[task] / rate - 1e-6)
    if state.heap[0, 0] >= len(state.heap) - 1 - len(p.lane):
        remove_outdated(p, state.heap, flows)
    push(state.heap, flows.ends[task], 4 * task + FLOW_ENDS)


@borrowing
def remove_outdated(p: ProgramArrays, events: Ints, flows: Flows) -> None:  # noqa: ARG001 - as in `buckets`
    """Remove the ends of flows that no longer hold, or that are there twice.

    An end that changed, and then changed back, is there twice. What is kept is marked in `ends`, then unmarked.
    """
    before, ends = events[0, 0], flows.ends
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
            for j in range(p.routes.first[t], p.routes.first[t + 1]):
                m = p.routes.medium[j]
                bytes_left[m] += left * (p.routes.weight[j] if len(p.routes.weight) > 0 else 1)
                last[m] = max(last[m], p.latest[t])
                crossings[m] += 1
    flows.next_check[0] = now + until // CHECKS + 1
    found = False
    for m in range(media):  # each crossing may be rounded by a nanosecond
        found |= crossings[m] > 0 and now + bytes_left[m] / p.capacity[m] > last[m] + crossings[m]
    return found


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
