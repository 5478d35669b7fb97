"""Whether any plan can be as fast as a guess: a dynamic program over layers and moves, on plain arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def reachable(  # noqa: PLR0917, C901, PLR0912, PLR0915 - kernels take plain values, and call no others
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
    late: Floats,
    first: Ints,
    place: Ints,
    through: Floats,
    start: Floats,
    load: Floats,
    ahead: Floats,
    back: Floats,
    size: Ints,
    opens: NDArray[np.bool_],
    becomes: Ints,
    left: Ints,
    ring: Floats,
    turns: Floats,
    circle: Floats,
    turn_place: Ints,
    turn_state: Ints,
    target: float,
) -> bool:
    """Whether some plan breaks no inequality for T = target. The arrays are told in `tables` and in `moves`.

    head[l, s]      least seconds of one microbatch, both ways, through the first l layers, in state s
    full[l, s]      the same, or what ends later: the way there and back from a stage on, and its all-reduce
    sent[l, s, g, t]   least seconds for which what they send keeps island g's links busy: all of it, and of the
                    all-reduces those that start after late[t] T, for which only the rest of T is left
    sent[.., parts + d]   what leaves g on the way ahead (d = 0) or back (1), and head when that began
    idle[l, s, g, d]   whether it may not have begun
    before, whole, gone   the same with the channel to the stage that comes next, for each place that it can have
    """
    layers, places, islands = cut.shape[0] - 1, size.shape[0], ahead.shape[1]
    states = first.shape[0] - 1
    head = np.full((layers + 1, states), np.inf)
    full = np.full((layers + 1, states), np.inf)
    parts = late.shape[0]
    sent = np.full((layers + 1, states, islands, parts + 2), np.inf)
    idle = np.zeros((layers + 1, states, islands, 2), np.bool_)
    before, whole, gone = np.empty(places), np.empty(places), np.empty((places, islands, parts + 2))
    quiet, begun, still = (
        np.empty((places, islands, 2), np.bool_),
        np.empty((islands, 2)),
        np.empty((islands, 2), np.bool_),
    )
    soonest = np.zeros(rest.shape[0], np.int64)  # with v devices left, the least layer from where on they are enough
    for v in range(len(soonest)):
        while area[soonest[v]] > v * target:
            soonest[v] += 1
    useful, adds = np.empty(places, np.bool_), np.empty(parts)
    for l in range(layers):  # noqa: E741 - the letter of the formulas
        for p in range(places):
            before[p] = 0.0 if l == 0 and opens[p] else np.inf
            whole[p] = before[p]
            end = max(l + 1, soonest[left[p]])
            useful[p] = busy[size[p], end] - busy[size[p], l] <= target
            gone[p, :, :parts], gone[p, :, parts:] = before[p], np.inf
            quiet[p] = before[p] == 0
        for s in range(states):
            if head[l, s] == np.inf:
                continue
            for m in range(first[s], first[s + 1]):
                p = place[m]
                if full[l, s] + cut[l] * load[m] > target:
                    break  # a state's moves are in the order of their load
                if not useful[p]:
                    continue
                one = start[m] + cut[l] * through[m]
                if full[l, s] + one + start[m] + cut[l] * load[m] + rest[left[p] + size[p], l] > target:
                    continue
                fits, after = True, one + rest[left[p] + size[p], l]  # what follows a message that goes ahead here
                for g in range(islands):
                    fits = fits and sent[l, s, g, 0] + cut[l] * (ahead[m, g] + back[m, g]) <= target
                    for d in range(2):
                        leaves = cut[l] * (ahead[m, g] if d == 0 else back[m, g])
                        still[g, d] = idle[l, s, g, d] and leaves == 0
                        begun[g, d] = sent[l, s, g, parts + d] + leaves
                        if idle[l, s, g, d] and leaves > 0:
                            begun[g, d] = min(begun[g, d], head[l, s] + leaves)
                        if leaves > 0 and begun[g, d] + after > target:
                            begun[g, d] = np.inf
                        fits = fits and (still[g, d] or begun[g, d] < np.inf)
                if not fits:
                    continue
                before[p] = min(before[p], head[l, s] + 2 * one)
                whole[p] = min(whole[p], full[l, s] + 2 * one)
                for g in range(islands):
                    at = turn_place[m, g]
                    gone[p, at, 0] = min(gone[p, at, 0], sent[l, s, g, 0] + cut[l] * (ahead[m, g] + back[m, g]))
                    for t in range(1, parts):
                        gone[p, at, t] = min(gone[p, at, t], sent[l, s, g, t])
                    for d in range(2):
                        gone[p, at, parts + d] = min(gone[p, at, parts + d], begun[g, d])
                        quiet[p, at, d] = quiet[p, at, d] or still[g, d]
        for p in range(places):
            if before[p] == np.inf or not useful[p]:
                continue
            k, s = size[p], becomes[p]
            for end in range(max(l + 1, soonest[left[p]]), layers + 1):
                weights = parameters[end] - parameters[l]
                reduce = ring[p] * weights + turns[p] if weights > 0 else 0.0
                work = busy[k, end] - busy[k, l]
                if work + max(whole[p], early * before[p] + reduce) > target:
                    break  # more layers only make it worse
                # No backward before the first microbatch has come back, and no forward after the last has gone ahead.
                f, b = forward[k, end] - forward[k, l], backward[k, end] - backward[k, l]
                work = max(work, max(f + passing[k] * b, passing[k] * f + b) + rest[left[p], end])
                if work + max(whole[p], early * before[p] + reduce) > target:
                    continue
                fits = True
                for t in range(parts):
                    share = (1.0 if work + early * before[p] >= late[t] * target else 0.0) / (1 - late[t])
                    adds[t] = share * weights
                    for g in range(islands):
                        fits = fits and gone[p, g, t] + circle[p, g] * adds[t] <= target
                if not fits:
                    continue
                one = passage[k, end] - passage[k, l]
                head[end, s] = min(head[end, s], before[p] + one)
                full[end, s] = min(full[end, s], max(whole[p], early * before[p] + reduce) + one)
                for g in range(islands):
                    at = turn_state[p, g]
                    for t in range(parts):
                        sent[end, s, at, t] = min(sent[end, s, at, t], gone[p, g, t] + circle[p, g] * adds[t])
                    for d in range(2):
                        sent[end, s, at, parts + d] = min(sent[end, s, at, parts + d], gone[p, g, parts + d])
                        idle[end, s, at, d] = idle[end, s, at, d] or quiet[p, g, d]
    return bool((head[layers] < np.inf).any())
