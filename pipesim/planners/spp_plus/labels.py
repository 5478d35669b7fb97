"""The stages of a plan that keeps the bound's inequalities: its dynamic program, with one plan to each state."""

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints

CLOSE = 1e-3  # what the way through the pipeline counts where islands are as busy


def labelled(  # noqa: PLR0917, C901, PLR0912, PLR0915 - kernels take plain values, and call no others
    busy: Floats, passage: Floats, forward: Floats, backward: Floats, passing: Floats, many: Ints,  # noqa: ARG001
    rest: Floats, cut: Floats, parameters: Floats, area: Floats, early: float, late: Floats,
    first: Ints, stop: Ints, shift: Ints, place: Ints, arrive: Floats, leave: Floats, onto: Floats,  # noqa: ARG001
    home: Floats, own: Floats,  # noqa: ARG001
    start: Floats, load: Floats, ahead: Floats, back: Floats,
    size: Ints, opens: Bools, becomes: Ints, left: Ints, ring: Floats, turns: Floats, circle: Floats,
    turn_place: Ints, turn_state: Ints, target: float,
) -> tuple[Floats, Ints, Ints, Ints, Ints]:  # fmt: skip
    """As `analysis.bounds.reach.reachable`, but head, full and sent are those of one plan, so that it can be told.

    It keeps fewer inequalities than the bound: with all of them the plans that are told come out worse.

    Of two plans that lead to the same state the one stays whose worst of full and sent is less. Returned are that worst
    part of T and the first layer and place of the last stage, [l, s] each, and the move that
    led to a place and the state it came from, [l, p] each.
    """
    layers, places, islands = cut.shape[0] - 1, size.shape[0], ahead.shape[1]
    states = first.shape[0]
    head = np.full((layers + 1, states), np.inf)
    full = np.full((layers + 1, states), np.inf)
    parts = late.shape[0]
    sent = np.empty((layers + 1, states, islands, parts + 2))
    worst = np.full((layers + 1, states), np.inf)
    begins = np.zeros((layers + 1, states), np.int64)
    places_of = np.zeros((layers + 1, states), np.int64)
    came, origin = np.full((layers + 1, places), -1), np.full((layers + 1, places), -1)
    least, useful = np.empty(places), np.empty(places, np.bool_)
    gone, adds = np.empty((islands, parts + 2)), np.empty(parts)
    soonest = np.zeros(rest.shape[0], np.int64)  # with v devices left, the least layer from where on they are enough
    for v in range(len(soonest)):
        while area[soonest[v]] > v * target:
            soonest[v] += 1
    for l in range(layers):  # noqa: E741 - the letter of the formulas
        for p in range(places):
            least[p] = 0.0 if l == 0 and opens[p] else np.inf
            end = max(l + 1, soonest[left[p]])
            useful[p] = left[p] >= 0 and busy[size[p], end] - busy[size[p], l] <= target
        for s in range(states):
            if head[l, s] == np.inf:
                continue
            carried = full[l, s]
            for g in range(islands):
                for t in range(1, parts):
                    carried = max(carried, sent[l, s, g, t])
            for m in range(first[s], stop[s]):
                p = shift[s] + place[m]
                if full[l, s] + cut[l] * load[m] > target:
                    break  # a state's moves are in the order of their load
                if not useful[p]:
                    continue
                one = start[m] + cut[l] * own[m] / 2
                if full[l, s] + one + start[m] + cut[l] * load[m] + rest[left[p] + size[p], l] > target:
                    continue
                most, after = max(carried, full[l, s] + 2 * one), one + rest[left[p] + size[p], l]
                if most + CLOSE * (full[l, s] + 2 * one) >= least[p]:
                    continue
                for g in range(islands):
                    most = max(most, sent[l, s, g, 0] + cut[l] * (ahead[m, g] + back[m, g]))
                    for d in range(2):
                        leaves = cut[l] * (ahead[m, g] if d == 0 else back[m, g])
                        if leaves > 0:
                            most = max(most, min(sent[l, s, g, parts + d], head[l, s]) + leaves + after)
                value = most + CLOSE * (full[l, s] + 2 * one)
                if most > target or value >= least[p]:
                    continue
                least[p], came[l, p], origin[l, p] = value, m, s
        for p in range(places):
            if not useful[p] or least[p] == np.inf:
                continue
            before, whole = 0.0, 0.0
            gone[:, :parts], gone[:, parts:] = 0.0, np.inf
            m, s = came[l, p], origin[l, p]
            if m >= 0:
                one = start[m] + cut[l] * own[m] / 2
                before, whole = head[l, s] + 2 * one, full[l, s] + 2 * one
                for g in range(islands):
                    at = turn_place[m, g]
                    gone[at] = sent[l, s, g]
                    gone[at, 0] += cut[l] * (ahead[m, g] + back[m, g])
                    for d in range(2):
                        leaves = cut[l] * (ahead[m, g] if d == 0 else back[m, g])
                        if leaves > 0:
                            gone[at, parts + d] = min(sent[l, s, g, parts + d], head[l, s]) + leaves
            k, s = size[p], becomes[p]
            for end in range(max(l + 1, soonest[left[p]]), layers + 1):
                weights = parameters[end] - parameters[l]
                reduce = ring[p] * weights + turns[p] if weights > 0 else 0.0
                ready = max(whole, early * before + reduce)
                work = busy[k, end] - busy[k, l]
                if work + ready > target:
                    break  # more layers only make it worse
                f, b = forward[k, end] - forward[k, l], backward[k, end] - backward[k, l]
                work = max(work, max(f + passing[k] * b, passing[k] * f + b) + rest[left[p], end])
                if work + ready > target:
                    continue
                most = 0.0
                for t in range(parts):
                    share = (1.0 if work + early * before >= late[t] * target else 0.0) / (1 - late[t])
                    adds[t] = share * weights
                    for g in range(islands):
                        most = max(most, gone[g, t] + circle[p, g] * adds[t])
                if most > target:
                    continue
                one = passage[k, end] - passage[k, l]
                value = max(most, ready + one) + CLOSE * (ready + one)
                if value >= worst[end, s]:
                    continue
                worst[end, s], begins[end, s], places_of[end, s] = value, l, p
                head[end, s], full[end, s] = before + one, ready + one
                for g in range(islands):
                    at = turn_state[p, g]
                    for t in range(parts):
                        sent[end, s, at, t] = gone[g, t] + circle[p, g] * adds[t]
                    sent[end, s, at, parts:] = gone[g, parts:]
    return worst, begins, places_of, came, origin
