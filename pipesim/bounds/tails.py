"""What is still to come, at the least: the way of one microbatch through all later stages and back."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def tails(  # noqa: PLR0917, C901 - kernels take plain values, and call no others
    busy: Floats,
    passage: Floats,
    forward: Floats,
    backward: Floats,
    passing: Floats,
    rest: Floats,
    cut: Floats,
    parameters: Floats,
    area: Floats,
    early: float,
    late: Floats,  # noqa: ARG001 - the tables as they are
    first: Ints,
    place: Ints,
    through: Floats,
    start: Floats,
    load: Floats,
    ahead: Floats,  # noqa: ARG001 - the moves as they are
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
) -> tuple[Floats, Floats]:
    """Seconds of one microbatch, both ways, from layer l on; infinite where no plan with T = target goes on so.

    onward[l, p]    through a stage at a place and all that follow it
    tail[l, s]      through a channel from a state, and on
    """
    layers, places, states = cut.shape[0] - 1, size.shape[0], first.shape[0] - 1
    onward, tail = np.full((layers, places), np.inf), np.full((layers + 1, states), np.inf)
    tail[layers] = 0.0
    soonest = np.zeros(rest.shape[0], np.int64)  # with v devices left, the least layer from where on they are enough
    for v in range(len(soonest)):
        while area[soonest[v]] > v * target:
            soonest[v] += 1
    most = rest.shape[0] - 1
    for l in range(layers - 1, -1, -1):  # noqa: E741 - the letter of the formulas
        head = max(0.0, rest[most, 0] - rest[most, l])
        for p in range(places):
            k, s = size[p], becomes[p]
            for end in range(max(l + 1, soonest[left[p]]), layers + 1):
                weights = parameters[end] - parameters[l]
                reduce = ring[p] * weights + turns[p] if weights > 0 else 0.0
                ready = max(head, early * head + reduce)
                work = busy[k, end] - busy[k, l]
                if work + ready > target:
                    break  # more layers only make it worse
                f, b = forward[k, end] - forward[k, l], backward[k, end] - backward[k, l]
                if max(f + passing[k] * b, passing[k] * f + b) + tail[end, s] + ready > target:
                    continue
                onward[l, p] = min(onward[l, p], passage[k, end] - passage[k, l] + tail[end, s])
        for s in range(states if l > 0 else 0):
            for m in range(first[s], first[s + 1]):
                if head + cut[l] * load[m] > target:
                    break  # a state's moves are in the order of their load
                p = place[m]
                one = start[m] + cut[l] * through[m]
                if head + one + start[m] + cut[l] * load[m] + onward[l, p] <= target:
                    tail[l, s] = min(tail[l, s], 2 * one + onward[l, p])
    return onward, tail
