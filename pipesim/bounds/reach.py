"""Whether any plan can be as fast as a guess: a dynamic program over layers and moves, on plain arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AHEAD, BACK, HERE, ANY = range(4)  # what leaves an island on the way ahead, back, ahead to end there, and all of it
WAYS = 4


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
    onward: Floats,
    tail: Floats,
    target: float,
) -> bool:
    """Whether some plan breaks no inequality for T = target. The arrays are told in `tables`, `moves` and `tails`.

    head[l, s]      least seconds of one microbatch, both ways, through the first l layers, in state s
    full[l, s]      the same, or what ends later: the way there and back from a stage on, and its all-reduce
    last[l, s]      when the last forward can have left the first l layers
    sent[l, s, g, t]   least seconds for which all-reduces that start after late[t] T keep island g's links busy, as a
                    part of what is left of T then
    begun[l, s, g, w]  when all that leaves island g one way can have left it, in plans where something does; what
                    follows all of it is counted with it where w < HERE
    idle[l, s, g, w]   whether there is a plan where nothing does
    before, whole, came, gone, starts, quiet   the same with the channel to the next stage, for each place it can have
    """
    layers, places, islands = cut.shape[0] - 1, size.shape[0], ahead.shape[1]
    states, parts = first.shape[0] - 1, late.shape[0]
    head = np.full((layers + 1, states), np.inf)
    full = np.full((layers + 1, states), np.inf)
    last = np.full((layers + 1, states), np.inf)
    sent = np.full((layers + 1, states, islands, parts), np.inf)
    begun = np.full((layers + 1, states, islands, WAYS), np.inf)
    idle = np.zeros((layers + 1, states, islands, WAYS), np.bool_)
    before, whole, came = np.empty(places), np.empty(places), np.empty(places)
    gone, starts = np.empty((places, islands, parts)), np.empty((places, islands, WAYS))
    quiet, useful = np.empty((places, islands, WAYS), np.bool_), np.empty(places, np.bool_)
    then, leaves, adds = np.empty((islands, WAYS)), np.empty((islands, WAYS)), np.empty(parts)
    soonest = np.zeros(rest.shape[0], np.int64)  # with v devices left, the least layer from where on they are enough
    for v in range(len(soonest)):
        while area[soonest[v]] > v * target:
            soonest[v] += 1
    for l in range(layers):  # noqa: E741 - the letter of the formulas
        for p in range(places):
            before[p] = 0.0 if l == 0 and opens[p] else np.inf
            whole[p] = came[p] = before[p]
            end = max(l + 1, soonest[left[p]])
            useful[p] = onward[l, p] < np.inf and busy[size[p], end] - busy[size[p], l] <= target
            gone[p], starts[p], quiet[p] = before[p], np.inf, before[p] == 0
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
                after = one + onward[l, p]  # what follows a message that goes ahead here
                if full[l, s] + start[m] + cut[l] * load[m] + after > target:
                    continue
                fits = True
                for g in range(islands):
                    leaves[g, AHEAD] = leaves[g, HERE] = cut[l] * ahead[m, g]
                    leaves[g, BACK] = cut[l] * back[m, g]
                    leaves[g, ANY] = leaves[g, AHEAD] + leaves[g, BACK]
                    for w in range(WAYS):
                        then[g, w] = begun[l, s, g, w] + leaves[g, w]
                        still = idle[l, s, g, w] and leaves[g, w] == 0
                        if idle[l, s, g, w] and not still:
                            since = full[l, s] if w < HERE else early * head[l, s]
                            then[g, w] = min(then[g, w], since + leaves[g, w])
                        if then[g, w] + (after if leaves[g, w] > 0 and w < HERE else 0.0) > target:
                            then[g, w] = np.inf
                        fits = fits and (still or then[g, w] < np.inf)
                if not fits:
                    continue
                before[p] = min(before[p], head[l, s] + 2 * one)
                whole[p] = min(whole[p], full[l, s] + 2 * one)
                came[p] = min(came[p], max(last[l, s] + one, early * head[l, s] + start[m] + cut[l] * load[m]))
                for g in range(islands):
                    at = turn_place[m, g]
                    for t in range(parts):
                        gone[p, at, t] = min(gone[p, at, t], sent[l, s, g, t])
                    for w in range(WAYS):
                        starts[p, at, w] = min(starts[p, at, w], then[g, w])
                        quiet[p, at, w] = quiet[p, at, w] or (idle[l, s, g, w] and leaves[g, w] == 0)
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
                work = max(work, max(f + passing[k] * b, passing[k] * f + b) + tail[end, s])
                if work + max(whole[p], early * before[p] + reduce) > target:
                    continue
                one = passage[k, end] - passage[k, l]
                gone_on = max(came[p] + f, early * before[p] + passing[k] * f)
                over = max(early * before[p] + work, gone_on + tail[end, s] + b)  # the last backward, at the earliest
                fits = over + reduce <= target
                for t in range(parts):
                    share = 1 / (1 - late[t]) if over >= late[t] * target else 0.0
                    adds[t] = share * weights
                    for g in range(islands):
                        fits = fits and gone[p, g, t] + circle[p, g] * adds[t] <= target
                for g in range(islands):
                    turning = circle[p, g] * weights
                    then[g] = starts[p, g]
                    if then[g, HERE] + one + tail[end, s] + reduce > target:
                        then[g, HERE] = np.inf
                    then[g, ANY] += turning
                    if quiet[p, g, ANY] and turning > 0:
                        then[g, ANY] = min(then[g, ANY], early * before[p] + turning)
                    if then[g, ANY] > target:
                        then[g, ANY] = np.inf
                    fits = fits and (quiet[p, g, HERE] or then[g, HERE] < np.inf)
                    fits = fits and (then[g, ANY] < np.inf or (quiet[p, g, ANY] and turning == 0))
                if not fits:
                    continue
                head[end, s] = min(head[end, s], before[p] + one)
                last[end, s] = min(last[end, s], gone_on)
                full[end, s] = min(full[end, s], max(whole[p], early * before[p] + reduce) + one)
                for g in range(islands):
                    at = turn_state[p, g]
                    for t in range(parts):
                        sent[end, s, at, t] = min(sent[end, s, at, t], gone[p, g, t] + circle[p, g] * adds[t])
                    for w in range(WAYS):
                        begun[end, s, at, w] = min(begun[end, s, at, w], then[g, w])
                        still = quiet[p, g, w] and (w != ANY or circle[p, g] * weights == 0)
                        idle[end, s, at, w] = idle[end, s, at, w] or still
    return bool((head[layers] < np.inf).any())
