"""The loop of greedy list scheduling, as kernels: at each event a lane chooses an action and starts it.

    events     (time, lane): the lane may have something to start: it becomes free, or a message arrives
    choice     the forward and the backward with the least keys whose messages are there, or a waiting weights' gradient
    queues     of each slot: forwards in the order of microbatches, backwards in the order in which they arrive

StageTimes of messages are known from the moment on at which their sender starts.
"""

import heapq
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing

FAR = 1 << 62  # later than any time, larger than any key
UNKNOWN = -1  # the arrival of a message whose sender has not started
FORWARD, WHOLE, INPUT, WEIGHT = 0, 1, 2, 3  # kinds of actions, as in core.schedule
NONE = -1  # in place of a kind or a slot


class StageTimes(NamedTuple):
    """The abstract pipeline: slots, durations and messages in nanoseconds; [stage] where nothing else is stated."""

    slot: Ints  # [stage, microbatch]
    lane_of: Ints  # [slot]
    stage_of: Ints  # [slot]
    forward: Ints
    backward: Ints  # whole, or of the input where backwards are split
    weight: Ints
    ahead: Ints
    back: Ints
    stash: Floats


class Policy(NamedTuple):
    """How a lane chooses: the fields of `greedy.Rules`, and the position of each forward on its lane."""

    position: Ints
    forward_key: Ints
    backward_key: Ints
    limit: Floats
    hold: Ints
    warm: Ints
    quota: Ints
    patience: float
    split: bool
    strict: bool
    window: int
    released: float


class Passes(NamedTuple):
    """Which forwards there are on which slot, whatever the policy."""

    microbatch: Ints  # [slot, i]: of the i-th forward
    forwards: Ints  # [slot]: how many
    number: Ints  # [stage, microbatch]: the i of a forward
    by_lane: Ints  # slots, lane after lane
    first: Ints  # [lane]: its first slot in `by_lane`
    of_lane: Ints  # [lane]: how many forwards
    most: int  # of a lane


class SlotQueues(NamedTuple):
    """What waits on each slot: [slot, i] is the i-th forward or backward of the slot."""

    passing: Ints  # the microbatch of the i-th forward
    passes: Ints  # [slot]: how many forwards there are
    number: Ints  # [stage, microbatch]: the i of a forward
    forward_at: Ints  # when the input of the i-th forward arrives; UNKNOWN before its sender starts
    backward_at: Ints
    returning: Ints  # the microbatch of the i-th backward
    next_forward: Ints  # [slot]
    next_backward: Ints
    backwards: Ints  # [slot]: how many have a known arrival
    by_lane: Ints  # slots, lane after lane
    first: Ints  # [lane]: its first slot in `by_lane`


class LaneState(NamedTuple):
    """What each lane has done, and what it keeps."""

    waiting: Ints  # [lane, i, (stage, microbatch)]: weights' gradients
    next_waiting: Ints
    waiting_count: Ints
    free: Ints  # when it is free
    begun: Ints  # its first start; -1 before it
    kept: Floats  # stages of microbatches in memory
    flying: Ints  # forwards whose backward has not started
    forwards: Ints  # how many it has
    forwards_done: Ints


class GreedyState(NamedTuple):
    """All that the kernels read and write."""

    times: StageTimes
    policy: Policy
    queues: SlotQueues
    lanes: LaneState


def run(times: StageTimes, policy: Policy, passes: Passes) -> tuple[Ints, Ints, Ints, Ints]:
    """[lane, i, (stage, kind, microbatch)], the number of actions, the first start or -1, and the last end of lanes."""
    state = initial_state(times, policy, passes)
    free, begun = state.lanes.free, state.lanes.begun
    actions = (3 if policy.split else 2) * passes.most
    rows, counts = np.zeros((len(free), actions, 3), np.int64), np.zeros(len(free), np.int64)
    events = [(0, 0)]
    for n in range(1, len(free)):  # no comprehension: numba then drops assignments to fields of records
        events.append((0, n))  # noqa: PERF401
    while len(events) > 0:
        now, lane = heapq.heappop(events)
        if now < free[lane]:
            continue
        kind, slot = choice(now, lane, state)
        if kind == NONE:
            continue
        if kind == FORWARD:
            stage, microbatch, taker, arrival = start_forward(now, lane, slot, state)
            end = now + times.forward[stage]
        elif kind == WEIGHT:
            stage, microbatch, taker, arrival = start_weight(lane, state)
            end = now + times.weight[stage]
        else:
            stage, microbatch, taker, arrival = start_backward(now, lane, slot, state)
            end = now + times.backward[stage]
        if taker != NONE:
            heapq.heappush(events, (max(arrival, free[taker]), taker))
        i = counts[lane]
        rows[lane, i, 0], rows[lane, i, 1], rows[lane, i, 2] = stage, kind, microbatch
        counts[lane] = i + 1
        free[lane] = end
        if begun[lane] < 0:
            begun[lane] = now
        heapq.heappush(events, (end, lane))
    return rows, counts, begun, free


@borrowing
def choice(now: int, lane: int, state: GreedyState) -> tuple[int, int]:
    """The kind and the slot of the action that the lane starts now; (NONE, NONE) if it waits for the next event."""
    times, policy, _, lanes = state
    forward, forward_key, soon = first_forward(now, lane, state)
    backward, backward_key, soon_backward = first_backward(now, lane, state)
    pending = lanes.waiting_count[lane] - lanes.next_waiting[lane]
    if pending > policy.quota[lane] and lanes.forwards_done[lane] < lanes.forwards[lane]:
        return WEIGHT, NONE
    if forward >= 0 and (backward < 0 or lanes.flying[lane] < policy.warm[lane] or forward_key <= backward_key):
        return FORWARD, forward
    if backward >= 0:
        return INPUT if policy.split else WHOLE, backward
    if pending > 0:
        stage = lanes.waiting[lane, lanes.next_waiting[lane], 0]
        if min(soon, soon_backward) - now >= policy.patience * times.weight[stage]:
            return WEIGHT, NONE
    return NONE, NONE


@borrowing
def first_forward(now: int, lane: int, state: GreedyState) -> tuple[int, int, int]:
    """The slot whose next forward has the least key of those within the limits, the key, and the next arrival."""
    times, policy, queues, lanes = state
    slot, key, soon = NONE, FAR, FAR
    if lanes.flying[lane] >= policy.hold[lane]:
        return slot, key, soon
    room = policy.limit[lane] + 1e-9
    for at in range(queues.first[lane], queues.first[lane + 1]):
        s = queues.by_lane[at]
        i = queues.next_forward[s]
        if i >= queues.passes[s] or queues.forward_at[s, i] < 0:
            continue
        n, m = times.stage_of[s], queues.passing[s, i]
        if policy.strict and policy.position[n, m] != lanes.forwards_done[lane]:
            continue
        if lanes.kept[lane] + times.stash[n] > room or (n == 0 and i - queues.next_backward[s] >= policy.window):
            continue
        if queues.forward_at[s, i] > now:
            soon = min(soon, queues.forward_at[s, i])
        elif policy.forward_key[n, m] < key:
            slot, key = s, policy.forward_key[n, m]
    return slot, key, soon


@borrowing
def first_backward(now: int, lane: int, state: GreedyState) -> tuple[int, int, int]:
    """The slot whose next backward has the least key, the key, and the next arrival."""
    times, policy, queues, _ = state
    slot, key, soon = NONE, FAR, FAR
    for at in range(queues.first[lane], queues.first[lane + 1]):
        s = queues.by_lane[at]
        i = queues.next_backward[s]
        if i >= queues.backwards[s]:
            continue
        if queues.backward_at[s, i] > now:
            soon = min(soon, queues.backward_at[s, i])
        elif policy.backward_key[times.stage_of[s], queues.returning[s, i]] < key:
            slot, key = s, policy.backward_key[times.stage_of[s], queues.returning[s, i]]
    return slot, key, soon


@borrowing
def start_forward(now: int, lane: int, slot: int, state: GreedyState) -> tuple[int, int, int, int]:
    """Start the next forward of a slot: its stage and microbatch, the lane of its message, and the arrival there.

    The activation of the last stage becomes a backward there.
    """
    times, _, queues, lanes = state
    n, m = times.stage_of[slot], queues.passing[slot, queues.next_forward[slot]]
    end = now + times.forward[n]
    queues.next_forward[slot] += 1
    lanes.forwards_done[lane] += 1
    lanes.flying[lane] += 1
    lanes.kept[lane] += times.stash[n]
    if n == len(times.slot) - 1:
        add_backward(slot, m, end, queues)
        return n, m, lane, end
    target = times.slot[n + 1, m]
    taker = times.lane_of[target]
    arrival = end if taker == lane else end + times.ahead[n]
    queues.forward_at[target, queues.number[n + 1, m]] = arrival
    return n, m, taker, arrival


@borrowing
def start_backward(now: int, lane: int, slot: int, state: GreedyState) -> tuple[int, int, int, int]:
    """Start the next backward of a slot, whole or of the input; returns what `start_forward` does."""
    times, policy, queues, lanes = state
    n, m = times.stage_of[slot], queues.returning[slot, queues.next_backward[slot]]
    end = now + times.backward[n]
    queues.next_backward[slot] += 1
    lanes.flying[lane] -= 1
    lanes.kept[lane] -= times.stash[n] * (policy.released if policy.split else 1.0)
    if policy.split:
        i = lanes.waiting_count[lane]
        lanes.waiting[lane, i, 0], lanes.waiting[lane, i, 1] = n, m
        lanes.waiting_count[lane] = i + 1
    if n == 0:
        return n, m, NONE, end
    target = times.slot[n - 1, m]
    taker = times.lane_of[target]
    arrival = end if taker == lane else end + times.back[n]
    add_backward(target, m, arrival, queues)
    return n, m, taker, arrival


@borrowing
def start_weight(lane: int, state: GreedyState) -> tuple[int, int, int, int]:
    """Start the weights' gradient that waits longest; it sends no message."""
    times, policy, _, lanes = state
    i = lanes.next_waiting[lane]
    n, m = lanes.waiting[lane, i, 0], lanes.waiting[lane, i, 1]
    lanes.next_waiting[lane] = i + 1
    lanes.kept[lane] -= times.stash[n] * (1 - policy.released)
    return n, m, NONE, 0


@borrowing
def add_backward(slot: int, microbatch: int, arrival: int, queues: SlotQueues) -> None:
    """Append a backward to the queue of a slot."""
    i = queues.backwards[slot]
    queues.returning[slot, i], queues.backward_at[slot, i] = microbatch, arrival
    queues.backwards[slot] = i + 1


def initial_state(times: StageTimes, policy: Policy, passes: Passes) -> GreedyState:
    """The forwards of the first stage are ready."""
    shape, slots, lanes = passes.microbatch.shape, len(passes.forwards), len(passes.of_lane)
    forward_at = np.full(shape, UNKNOWN, np.int64)
    for s in range(slots):
        if times.stage_of[s] == 0:
            for i in range(passes.forwards[s]):
                forward_at[s, i] = 0
    begun = np.zeros(lanes, np.int64)
    for n in range(lanes):
        begun[n] = -1
    return GreedyState(
        times,
        policy,
        SlotQueues(
            passes.microbatch,
            passes.forwards,
            passes.number,
            forward_at,
            np.full(shape, UNKNOWN, np.int64),
            np.zeros(shape, np.int64),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int64),
            passes.by_lane,
            passes.first,
        ),
        LaneState(
            np.zeros((lanes, passes.most, 2), np.int64),
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.int64),
            begun,
            np.zeros(lanes),
            np.zeros(lanes, np.int64),
            passes.of_lane,
            np.zeros(lanes, np.int64),
        ),
    )


def passes_of(slot: Ints, lane_of: Ints, lanes: int) -> Passes:
    """The forwards of all slots: with numpy, whose sorting a kernel would compile for seconds."""
    stages, microbatches = slot.shape
    slot = slot.ravel()
    ordered, count = np.argsort(slot, kind="stable"), np.bincount(slot, minlength=len(lane_of))
    rank = np.arange(len(slot)) - (np.cumsum(count) - count)[slot[ordered]]
    number, microbatch = np.empty(len(slot), np.int64), np.zeros((len(lane_of), microbatches), np.int64)
    number[ordered] = rank
    microbatch[slot[ordered], rank] = ordered % microbatches
    by_lane = np.argsort(lane_of, kind="stable")
    of_lane = np.bincount(lane_of, count, lanes).astype(np.int64)
    first = np.searchsorted(lane_of[by_lane], np.arange(lanes + 1))
    return Passes(microbatch, count, number.reshape(stages, microbatches), by_lane, first, of_lane, int(of_lane.max()))
