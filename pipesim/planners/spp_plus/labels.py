"""The stages of a plan that keeps the bound's inequalities: its dynamic program, with one plan to each state."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CLOSE = 1e-3  # what the way through the pipeline counts where islands are as busy


def labelled(  # noqa: PLR0917, C901, PLR0912, PLR0915 - kernels take plain values, and call no others
    busy: Floats, passage: Floats, forward: Floats, backward: Floats, passing: Floats, rest: Floats, cut: Floats,
    parameters: Floats, area: Floats, early: float, late: Floats,
    first: Ints, place: Ints, through: Floats, start: Floats, load: Floats, ahead: Floats, back: Floats,
    size: Ints, opens: Bools, becomes: Ints, left: Ints, ring: Floats, turns: Floats, circle: Floats,
    turn_place: Ints, turn_state: Ints, target: float,
) -> tuple[Floats, Ints, Ints, Ints]:  # fmt: skip
    """As `pipesim.bounds.reach.reachable`, but head, full and sent are those of one plan, so that it can be told.

    It keeps fewer inequalities than the bound: with all of them the plans that are told come out worse.

    Of two plans that lead to the same state the one stays whose worst of full and sent is less. Returned are that worst
    part of T and the first layer and place of the last stage, [l, s] each, and the move that led to a place, [l, p].
    """
    layers, places, islands = cut.shape[0] - 1, size.shape[0], ahead.shape[1]
    states = first.shape[0] - 1
    head = np.full((layers + 1, states), np.inf)
    full = np.full((layers + 1, states), np.inf)
    parts = late.shape[0]
    sent = np.full((layers + 1, states, islands, parts + 2), np.inf)
    worst = np.full((layers + 1, states), np.inf)
    begins = np.zeros((layers + 1, states), np.int64)
    places_of = np.zeros((layers + 1, states), np.int64)
    came = np.full((layers + 1, places), -1)
    before, whole, least = np.empty(places), np.empty(places), np.empty(places)
    gone, adds = np.empty((places, islands, parts + 2)), np.empty(parts)
    useful = np.empty(places, np.bool_)
    soonest = np.zeros(rest.shape[0], np.int64)  # with v devices left, the least layer from where on they are enough
    for v in range(len(soonest)):
        while area[soonest[v]] > v * target:
            soonest[v] += 1
    for l in range(layers):  # noqa: E741 - the letter of the formulas
        for p in range(places):
            before[p] = 0.0 if l == 0 and opens[p] else np.inf
            whole[p] = least[p] = before[p]
            end = max(l + 1, soonest[left[p]])
            useful[p] = busy[size[p], end] - busy[size[p], l] <= target
            gone[p, :, :parts], gone[p, :, parts:] = before[p], np.inf
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
                most, after = full[l, s] + 2 * one, one + rest[left[p] + size[p], l]
                for g in range(islands):
                    for t in range(1, parts):
                        most = max(most, sent[l, s, g, t])
                    most = max(most, sent[l, s, g, 0] + cut[l] * (ahead[m, g] + back[m, g]))
                    for d in range(2):
                        leaves = cut[l] * (ahead[m, g] if d == 0 else back[m, g])
                        if leaves > 0:
                            most = max(most, min(sent[l, s, g, parts + d], head[l, s]) + leaves + after)
                value = most + CLOSE * (full[l, s] + 2 * one)
                if most > target or value >= least[p]:
                    continue
                least[p], came[l, p] = value, m
                before[p], whole[p] = head[l, s] + 2 * one, full[l, s] + 2 * one
                for g in range(islands):
                    at = turn_place[m, g]
                    gone[p, at] = sent[l, s, g]
                    gone[p, at, 0] += cut[l] * (ahead[m, g] + back[m, g])
                    for d in range(2):
                        leaves = cut[l] * (ahead[m, g] if d == 0 else back[m, g])
                        if leaves > 0:
                            gone[p, at, parts + d] = min(sent[l, s, g, parts + d], head[l, s]) + leaves
        for p in range(places):
            if before[p] == np.inf or not useful[p]:
                continue
            k, s = size[p], becomes[p]
            for end in range(max(l + 1, soonest[left[p]]), layers + 1):
                weights = parameters[end] - parameters[l]
                reduce = ring[p] * weights + turns[p] if weights > 0 else 0.0
                ready = max(whole[p], early * before[p] + reduce)
                work = busy[k, end] - busy[k, l]
                if work + ready > target:
                    break  # more layers only make it worse
                f, b = forward[k, end] - forward[k, l], backward[k, end] - backward[k, l]
                work = max(work, max(f + passing[k] * b, passing[k] * f + b) + rest[left[p], end])
                if work + ready > target:
                    continue
                most = 0.0
                for t in range(parts):
                    share = (1.0 if work + early * before[p] >= late[t] * target else 0.0) / (1 - late[t])
                    adds[t] = share * weights
                    for g in range(islands):
                        most = max(most, gone[p, g, t] + circle[p, g] * adds[t])
                if most > target:
                    continue
                one = passage[k, end] - passage[k, l]
                value = max(most, ready + one) + CLOSE * (ready + one)
                if value >= worst[end, s]:
                    continue
                worst[end, s], begins[end, s], places_of[end, s] = value, l, p
                head[end, s], full[end, s] = before[p] + one, ready + one
                for g in range(islands):
                    at = turn_state[p, g]
                    for t in range(parts):
                        sent[end, s, at, t] = gone[p, g, t] + circle[p, g] * adds[t]
                    sent[end, s, at, parts:] = gone[p, g, parts:]
    return worst, begins, places_of, came
