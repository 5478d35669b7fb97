"""What is still to come, at the least: the way of one microbatch through all later stages and back."""

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints


def tails(  # noqa: PLR0917, C901, PLR0912 - kernels take plain values, and call no others
    busy: Floats,
    passage: Floats,
    forward: Floats,
    backward: Floats,
    passing: Floats,
    many: Ints,  # noqa: ARG001 - the tables as they are
    rest: Floats,
    cut: Floats,
    parameters: Floats,
    area: Floats,
    early: float,
    late: Floats,  # noqa: ARG001
    first: Ints,
    stop: Ints,
    shift: Ints,
    place: Ints,
    arrive: Floats,
    leave: Floats,
    onto: Floats,
    home: Floats,
    own: Floats,  # noqa: ARG001 - the moves as they are
    start: Floats,
    load: Floats,
    ahead: Floats,  # noqa: ARG001
    back: Floats,  # noqa: ARG001
    size: Ints,
    opens: NDArray[np.bool_],  # noqa: ARG001
    becomes: Ints,
    left: Ints,
    ring: Floats,
    turns: Floats,
    circle: Floats,  # noqa: ARG001
    turn_place: Ints,  # noqa: ARG001
    turn_state: Ints,  # noqa: ARG001
    target: float,
) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """Seconds of one microbatch, both ways, from layer l on; infinite where no plan with T = target goes on so.

    onward[l, p]    through a stage at a place and all that follow it
    tail[l, s]      through a channel from a state, and on
    lone_...        the same for a microbatch that one replica alone may have so late
    room[l, p]      what there may be before a stage at a place, at most (`full` in `reach`)
    space[l, s]     what there may be before a channel from a state, at most (`full` in `reach`)
    """
    layers, places, states = cut.shape[0] - 1, size.shape[0], first.shape[0]
    onward, tail = np.full((layers, places), np.inf), np.full((layers + 1, states), np.inf)
    lone_onward, lone_tail = np.full((layers, places), np.inf), np.full((layers + 1, states), np.inf)
    room, space = np.full((layers, places), -np.inf), np.full((layers + 1, states), -np.inf)
    tail[layers], lone_tail[layers], space[layers] = 0.0, 0.0, target
    soonest = np.zeros(rest.shape[0], np.int64)  # with v devices left, the least layer from where on they are enough
    for v in range(len(soonest)):
        while area[soonest[v]] > v * target:
            soonest[v] += 1
    devices = rest.shape[0] - 1
    used = np.zeros(states, np.int64)
    for p in range(places):
        if left[p] >= 0:
            used[becomes[p]] = devices - left[p]
    widest = np.empty(devices + 1)  # with so many devices used, the most room anywhere
    for l in range(layers - 1, -1, -1):  # noqa: E741 - the letter of the formulas
        head = max(0.0, rest[devices, 0] - rest[devices, l])
        widest[:] = -np.inf
        for p in range(places):
            k, s = size[p], becomes[p]
            if left[p] < 0 or area[0] - area[l] > (devices - left[p] - k) * target:
                continue  # there are not so many devices, or too few for what comes before
            for end in range(max(l + 1, soonest[left[p]]), layers + 1):
                weights = parameters[end] - parameters[l]
                reduce = ring[p] * weights + turns[p] if weights > 0 else 0.0
                ready = max(head, early * head + reduce)
                work = busy[k, end] - busy[k, l]
                if work + ready > target:
                    break  # more layers only make it worse
                f, b = forward[k, end] - forward[k, l], backward[k, end] - backward[k, l]
                work = max(work, max(f + passing[k] * b, passing[k] * f + b) + tail[end, s])
                one = passage[k, end] - passage[k, l]
                limit = min(target - work, space[end, s] - one)
                if work + ready > target or limit < head:
                    continue
                onward[l, p] = min(onward[l, p], one + tail[end, s])
                lone_onward[l, p] = min(lone_onward[l, p], one + lone_tail[end, s])
                room[l, p] = max(room[l, p], limit)
            widest[devices - left[p] - k] = max(widest[devices - left[p] - k], room[l, p])
        for s in range(states if l > 0 else 0):
            if widest[used[s]] < head:
                continue
            for m in range(first[s], stop[s]):
                if head + cut[l] * load[m] > target:
                    break  # a state's moves are in the order of their load
                p = shift[s] + place[m]
                one = start[m] + cut[l] * arrive[m]
                over = start[m] + cut[l] * load[m] + start[m] + cut[l] * home[m] + lone_onward[l, p]
                limit = min(target - over, room[l, p] - 2 * one)
                if limit >= head:
                    lone = start[m] + cut[l] * onto[m] + start[m] + cut[l] * leave[m] + onward[l, p]
                    lone_tail[l, s] = min(lone_tail[l, s], lone)
                    tail[l, s] = min(tail[l, s], one + start[m] + cut[l] * leave[m] + onward[l, p])
                    space[l, s] = max(space[l, s], limit)
    return onward, tail, lone_onward, lone_tail, room, space
