"""The loop over what happens next: every sharing rule, delays, limits and changing speeds.

    at each time:   all that ends is finished, and what that sets free begins, until nothing more ends now;
                    then links are granted or rates shared out anew, once; then again, if that ended something now

    code % 4    0 a task ends   1 a transfer's delay is over   2 a flow may be over   3 a link changes its speed
    code // 4   which one: a task, or a change of speed (there can be more of these than tasks)

As the SimPy engine does, step by step, on arrays: `missing`, `queue`, `taken`, `left`, `rate` are what they are there.
"""

import math

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import compiled
from pipesim.engines.compiled import heap, speeds
from pipesim.engines.sharing import INFINITE, max_min

ALONE, QUEUES, SHARES = range(3)
TOO_MANY = -2
ENDS, DELAY_OVER, FLOW_OVER, SPEED_CHANGES = range(4)
NOBODY, NO_TASKS = np.zeros(0), np.zeros(0, np.int64)

push, drop, finish, rates_of = heap.push, heap.drop, speeds.finish, compiled(max_min)


@compiled
def line_up(  # noqa: PLR0917 - a kernel takes plain values
    queue_ready: Ints, queue_task: Ints, head: int, tail: int, ready: int, task: int
) -> None:
    """Insert (ready, task) where it belongs in entries head .. tail - 1; there is room for one more."""
    at = tail
    while at > head and (queue_ready[at - 1] > ready or (queue_ready[at - 1] == ready and queue_task[at - 1] > task)):
        queue_ready[at], queue_task[at] = queue_ready[at - 1], queue_task[at - 1]
        at -= 1
    queue_ready[at], queue_task[at] = ready, task


@compiled
def shared(  # noqa: PLR0917 - a kernel takes plain values
    component: Ints, first_medium: Ints, medium: Ints, limit: Floats, speed: Floats, number: Ints
) -> Floats:
    """The rates of flows that are joined through common media; these are numbered anew, in their order."""
    count = len(component)
    first, wanted = np.zeros(count + 1, np.int64), np.empty(count)
    for at in range(count):
        t = component[at]
        first[at + 1] = first[at] + first_medium[t + 1] - first_medium[t]
        wanted[at] = limit[t]
    some = np.empty(first[count], np.int64)
    for at in range(count):
        t = component[at]
        for k in range(first_medium[t], first_medium[t + 1]):
            some[first[at] + k - first_medium[t]] = medium[k]
    joined = np.unique(some)
    offered = np.empty(len(joined))
    for k in range(len(joined)):
        number[joined[k]] = k
        offered[k] = speed[joined[k]]
    for k in range(len(some)):
        some[k] = number[some[k]]
    rates = rates_of(first, some, offered, wanted)
    found = np.empty(count)
    for at in range(count):
        found[at] = rates[at]
    return found


@compiled
def cleared(times: Ints, codes: Ints, size: int, over: Ints) -> int:
    """Drop the ends of flows that are no longer true, or there twice. Returns the new size.

    An end that changed, and then changed back, is there twice. What is kept is marked in `over`, then unmarked.
    """
    kept = 0
    for at in range(size):
        time, code = times[at], codes[at]
        if code & 3 != FLOW_OVER:
            kept = push(times, codes, kept, time, code)
        elif over[code >> 2] == time:
            over[code >> 2] = -2 - time
            kept = push(times, codes, kept, time, code)
    for at in range(kept):
        if codes[at] & 3 == FLOW_OVER:
            over[codes[at] >> 2] = times[at]
    return kept


@compiled
def play(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one loop over plain arrays, as fast as it can be
    mode: int, lane: Ints, duration: Ints, delay: Ints, size: Floats, limit: Floats, missing: Ints,
    first_waiter: Ints, waiter: Ints, first_order: Ints, order: Ints, first_medium: Ints, medium: Ints,
    capacity: Floats, profile: Ints, profile_first: Ints, profile_time: Ints, profile_value: Floats,
    change_time: Ints, change_medium: Ints, change_capacity: Floats, most_changes: int,
) -> tuple[Ints, Ints, Ints, Ints, Floats]:  # fmt: skip
    """Start and end of every task, -1 where it never came to it; and the changes of rates: task, time, rate.

    Of more than `most_changes` rates it gives up: the first end is TOO_MANY.
    """
    tasks, lanes, media = len(lane), len(first_order) - 1, len(capacity)
    start, end = np.full(tasks, -1, np.int64), np.full(tasks, -1, np.int64)
    at_lane = first_order[:-1].copy()
    busy = np.zeros(lanes, np.bool_)
    ended, asked = np.empty(tasks + 1, np.int64), np.empty(tasks + 1, np.int64)
    ended_count, asked_count = 0, 0
    # A clearance leaves at most half of `most`. Between two there is one more push for each task, which asks for none.
    most = 2 * (tasks + len(change_time) + 8)
    times, codes = np.empty(most + tasks, np.int64), np.empty(most + tasks, np.int64)
    waiting_size = 0
    crossings = len(medium)
    # queues: medium m has room for every task that ever crosses it
    room = np.zeros(media + 1, np.int64)
    queue_ready, queue_task = np.empty(0, np.int64), np.empty(0, np.int64)
    head, tail = np.zeros(media, np.int64), np.zeros(media, np.int64)
    taken = np.zeros(media, np.bool_)
    arrived, freed = np.empty(tasks if mode == QUEUES else 0, np.int64), np.empty(0, np.int64)
    lined = np.empty(tasks + crossings if mode == QUEUES else 0, np.int64)
    arrived_count, freed_count = 0, 0
    if mode == QUEUES:
        for j in range(crossings):
            room[medium[j] + 1] += 1
        for m in range(media):
            room[m + 1] += room[m]
            head[m] = tail[m] = room[m]
        queue_ready, queue_task = np.empty(crossings, np.int64), np.empty(crossings, np.int64)
        freed = np.empty(crossings, np.int64)
    # shares: the flows on a medium are a doubly linked list of places in `medium`
    sharing = tasks if mode == SHARES else 0
    left, rate = np.zeros(sharing), np.zeros(sharing)
    since, over = np.zeros(sharing, np.int64), np.full(sharing, -1, np.int64)
    flow_of = np.empty(crossings if mode == SHARES else 0, np.int64)
    following, previous = np.full(len(flow_of), -1, np.int64), np.full(len(flow_of), -1, np.int64)
    foremost = np.full(media, -1, np.int64)
    touched, touched_count = np.empty(media, np.int64), 0
    is_touched = np.zeros(media, np.bool_)
    seen_medium, seen_flow = np.full(media, -1, np.int64), np.full(sharing, -1, np.int64)
    stack, flows = np.empty(media, np.int64), np.empty(sharing, np.int64)
    number, turn = np.empty(media, np.int64), 0
    speed_now = capacity.copy()
    log = [(0, 0, 0.0)]
    log.clear()
    if mode == SHARES:
        left[:] = size
        for t in range(tasks):
            for j in range(first_medium[t], first_medium[t + 1]):
                flow_of[j] = t
        for n in range(len(change_time)):
            waiting_size = push(times, codes, waiting_size, change_time[n], 4 * n + SPEED_CHANGES)
    for t in range(tasks):
        if missing[t] == 0 and lane[t] < 0:
            asked[asked_count] = t
            asked_count += 1
    now = 0
    for n in range(lanes):  # whose first task waits for nothing
        if first_order[n] < first_order[n + 1] and missing[order[first_order[n]]] == 0:
            t = order[first_order[n]]
            start[t] = 0
            busy[n] = True
            over_at = finish(profile_first, profile_time, profile_value, profile[t], 0, duration[t])
            waiting_size = push(times, codes, waiting_size, over_at, 4 * t + ENDS)
    while True:
        # --- all that happens now ---
        while True:
            while ended_count > 0 or asked_count > 0:
                if ended_count > 0:
                    ended_count -= 1
                    t = ended[ended_count]
                    end[t] = now
                    n = lane[t]
                    if n >= 0:
                        busy[n] = False
                        at_lane[n] += 1
                        if at_lane[n] < first_order[n + 1] and missing[order[at_lane[n]]] == 0:
                            t2 = order[at_lane[n]]
                            start[t2] = now
                            busy[n] = True
                            over_at = now + duration[t2]
                            if profile[t2] >= 0:
                                over_at = finish(
                                    profile_first, profile_time, profile_value, profile[t2], now, duration[t2]
                                )
                            waiting_size = push(times, codes, waiting_size, over_at, 4 * t2 + ENDS)
                    for at in range(first_waiter[t], first_waiter[t + 1]):
                        w = waiter[at]
                        missing[w] -= 1
                        if missing[w] > 0:
                            continue
                        n = lane[w]
                        if n < 0:
                            asked[asked_count] = w
                            asked_count += 1
                        elif not busy[n] and order[at_lane[n]] == w:
                            start[w] = now
                            busy[n] = True
                            over_at = now + duration[w]
                            if profile[w] >= 0:
                                over_at = finish(
                                    profile_first, profile_time, profile_value, profile[w], now, duration[w]
                                )
                            waiting_size = push(times, codes, waiting_size, over_at, 4 * w + ENDS)
                    continue
                asked_count -= 1
                t = asked[asked_count]
                if mode == QUEUES:
                    arrived[arrived_count] = t
                    arrived_count += 1
                    continue
                start[t] = now
                if mode == ALONE:
                    over_at = now + duration[t]
                    if profile[t] >= 0:
                        at = now + delay[t]
                        over_at = finish(
                            profile_first, profile_time, profile_value, profile[t], at, duration[t] - delay[t]
                        )
                    waiting_size = push(times, codes, waiting_size, over_at, 4 * t + ENDS)
                else:
                    waiting_size = push(times, codes, waiting_size, now + delay[t], 4 * t + DELAY_OVER)
            if waiting_size == 0 or times[0] > now:
                break
            code = codes[0]
            waiting_size = drop(times, codes, waiting_size)
            what, t = code & 3, code >> 2
            if what == ENDS:
                ended[ended_count] = t
                ended_count += 1
                if mode == QUEUES and lane[t] < 0:
                    for j in range(first_medium[t], first_medium[t + 1]):
                        m = medium[j]
                        taken[m] = False
                        if head[m] < tail[m]:
                            freed[freed_count] = m
                            freed_count += 1
            elif what == DELAY_OVER:
                if left[t] == 0 or first_medium[t] == first_medium[t + 1]:
                    ended[ended_count] = t
                    ended_count += 1
                    continue
                rate[t], since[t] = 0.0, now
                for j in range(first_medium[t], first_medium[t + 1]):
                    m = medium[j]
                    following[j], previous[j] = foremost[m], -1
                    if foremost[m] >= 0:
                        previous[foremost[m]] = j
                    foremost[m] = j
                    if not is_touched[m]:
                        is_touched[m] = True
                        touched[touched_count] = m
                        touched_count += 1
            elif what == FLOW_OVER:
                if over[t] != now:
                    continue
                over[t] = -1
                for j in range(first_medium[t], first_medium[t + 1]):
                    m = medium[j]
                    if previous[j] >= 0:
                        following[previous[j]] = following[j]
                    else:
                        foremost[m] = following[j]
                    if following[j] >= 0:
                        previous[following[j]] = previous[j]
                    if not is_touched[m]:
                        is_touched[m] = True
                        touched[touched_count] = m
                        touched_count += 1
                ended[ended_count] = t
                ended_count += 1
            else:
                m = change_medium[t]
                speed_now[m] = change_capacity[t]
                if not is_touched[m]:
                    is_touched[m] = True
                    touched[touched_count] = m
                    touched_count += 1
        # --- then links are granted ---
        if mode == QUEUES and arrived_count + freed_count > 0:
            lined_count = 0
            for at in range(freed_count):
                m = freed[at]
                if head[m] < tail[m]:
                    lined[lined_count] = queue_task[head[m]]
                    lined_count += 1
            freed_count = 0
            for at in range(1, arrived_count):  # few arrive at once, and nearly in order
                t = arrived[at]
                place = at
                while place > 0 and arrived[place - 1] > t:
                    arrived[place] = arrived[place - 1]
                    place -= 1
                arrived[place] = t
            turns = 0
            while turns < arrived_count + lined_count:
                # First those that have just arrived, then those whose turn may have come; of the former some line up,
                # perhaps before others that became ready now, so that it is their turn at once.
                fresh = turns < arrived_count
                t = arrived[turns] if fresh else lined[turns - arrived_count]
                turns += 1
                may = True
                for j in range(first_medium[t], first_medium[t + 1]):
                    m = medium[j]
                    if fresh:
                        may = may and not taken[m] and head[m] == tail[m]
                    else:
                        may = may and not taken[m] and head[m] < tail[m] and queue_task[head[m]] == t
                if may:
                    for j in range(first_medium[t], first_medium[t + 1]):
                        m = medium[j]
                        taken[m] = True
                        if not fresh:
                            head[m] += 1
                    start[t] = now
                    over_at = now + duration[t]
                    if profile[t] >= 0:
                        over_at = finish(
                            profile_first, profile_time, profile_value, profile[t],
                            now + delay[t], duration[t] - delay[t],
                        )  # fmt: skip
                    waiting_size = push(times, codes, waiting_size, over_at, 4 * t + ENDS)
                elif fresh:
                    for j in range(first_medium[t], first_medium[t + 1]):
                        m = medium[j]
                        line_up(queue_ready, queue_task, head[m], tail[m], now, t)
                        tail[m] += 1
                    lined[lined_count] = t
                    lined_count += 1
            arrived_count = 0
        elif touched_count > 0:
            turn += 1
            flow_count, stack_count = 0, 0
            for at in range(touched_count):
                m = touched[at]
                is_touched[m] = False
                seen_medium[m] = turn
                stack[stack_count] = m
                stack_count += 1
            touched_count = 0
            while stack_count > 0:
                stack_count -= 1
                j = foremost[stack[stack_count]]
                while j >= 0:
                    t = flow_of[j]
                    if seen_flow[t] != turn:
                        seen_flow[t] = turn
                        flows[flow_count] = t
                        flow_count += 1
                        for k in range(first_medium[t], first_medium[t + 1]):
                            m = medium[k]
                            if seen_medium[m] != turn:
                                seen_medium[m] = turn
                                stack[stack_count] = m
                                stack_count += 1
                    j = following[j]
            if flow_count > 0:
                component = flows[:flow_count]
                alone = INFINITE  # the rate of a flow that nobody shares with
                if flow_count == 1:
                    alone = limit[flows[0]]
                    for k in range(first_medium[flows[0]], first_medium[flows[0] + 1]):
                        alone = min(alone, speed_now[medium[k]])
                    shares = NOBODY
                else:
                    component = np.sort(component)
                    shares = shared(component, first_medium, medium, limit, speed_now, number)
                for at in range(flow_count):
                    t = component[at]
                    share = alone if flow_count == 1 else shares[at]
                    if share == rate[t]:
                        continue
                    left[t] = max(0.0, left[t] - rate[t] * (now - since[t]))
                    since[t], rate[t] = now, share
                    over[t] = now + math.ceil(left[t] / share - 1e-6)
                    if len(log) == most_changes:
                        end[0] = TOO_MANY
                        return start, end, NO_TASKS, NO_TASKS, NOBODY
                    log.append((t, now, share))
                    if waiting_size >= most:  # without the ends that have changed since
                        waiting_size = cleared(times, codes, waiting_size, over)
                    waiting_size = push(times, codes, waiting_size, over[t], 4 * t + FLOW_OVER)
        elif waiting_size == 0:
            break
        if waiting_size > 0 and times[0] > now:
            now = times[0]
        elif waiting_size == 0:
            break
    log_task, log_time, log_rate = np.empty(len(log), np.int64), np.empty(len(log), np.int64), np.empty(len(log))
    for at in range(len(log)):
        log_task[at], log_time[at], log_rate[at] = log[at]
    return start, end, log_task, log_time, log_rate
