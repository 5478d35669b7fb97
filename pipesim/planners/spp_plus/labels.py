"""The stages of a plan that keeps the bound's inequalities: its dynamic program, with one plan to each state.

It goes through states, places and moves as `analysis.bounds.reach` does, but HEAD and what leaves islands are those of
one plan, so that its stages are known. It keeps fewer inequalities than the bound: with all of them the plans that are
found come out worse.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.layer_sums import WORK, LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.analysis.bounds.transition import channel_step, crossing, enough_from, place_step, stage_step
from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import borrowing, compiled

CLOSE = 1e-3  # what the way through the pipeline counts where islands are as busy


class Labels(NamedTuple):
    """The best plan up to each state [l, s] behind l layers, and where it came from."""

    worst: Floats  # [l, s]: what plans are compared by: seconds of the worst of all there is to keep, and a little more
    begins: Ints  # [l, s]: first layer of the last stage
    place: Ints  # [l, s]: its place
    move: Ints  # [l, p]: the move that led to a place, -1 for the first stage
    origin: Ints  # [l, p]: the state that the move came from


class Search(NamedTuple):
    """What one T is tried with, and what the best plans take."""

    sums: LayerSums
    moves: Moves
    target: float  # T
    soonest: Ints  # [v]: with v devices left, the first layer from which on they are enough
    head: Floats  # [l, s]: one microbatch, both ways
    full: Floats  # [l, s]: head, or what ends later: the way back from a stage on, and its all-reduce
    sent: Floats  # [l, s, island, t]: all-reduces from late[t] on, the first with all messages; `begun` ahead and back
    least: Floats  # [p]: `worst` of the best plan up to a place, behind the layers that are looked at
    useful: Bools  # [p]: whether a stage can follow there
    gone: Floats  # [island, t]: `sent` up to a place
    rings: Floats  # [t]: bytes of an all-reduce, over the part of T that is left when it starts


Kernel = Callable[[Search, Labels], None]


def best_labels(sums: LayerSums, moves: Moves, target: float, kernel: Kernel | None = None) -> Labels:
    """Of two plans that lead to the same state the one whose `worst` is less; `kernel` is `extended`, compiled."""
    layers, places, states = len(sums.cut) - 1, len(moves.size), len(moves.first)
    islands, parts = moves.loads.shape[1], len(sums.late)
    labels = Labels(
        np.full((layers + 1, states), np.inf),
        np.zeros((layers + 1, states), np.int64),
        np.zeros((layers + 1, states), np.int64),
        np.full((layers + 1, places), -1),
        np.full((layers + 1, places), -1),
    )
    search = Search(
        sums,
        moves,
        target,
        enough_from(sums, target),
        np.full((layers + 1, states), np.inf),
        np.full((layers + 1, states), np.inf),
        np.empty((layers + 1, states, islands, parts + 2)),
        np.empty(places),
        np.empty(places, np.bool_),
        np.empty((islands, parts + 2)),
        np.empty(parts),
    )
    (kernel or compiled(extended))(search, labels)
    return labels


@borrowing
def extended(search: Search, labels: Labels) -> None:
    """The best plans behind layer after layer: from places to states, from states to places."""
    sums, moves = search.sums, search.moves
    for layer in range(sums.cut.shape[0] - 1):
        for p in range(moves.size.shape[0]):
            k, end = moves.size[p], max(layer + 1, search.soonest[moves.left[p]])
            search.least[p] = 0.0 if layer == 0 and moves.can_be_first[p] else np.inf
            work = sums.seconds[k, end, WORK] - sums.seconds[k, layer, WORK]
            search.useful[p] = moves.left[p] >= 0 and work <= search.target
        for s in range(moves.first.shape[0]):
            if search.head[layer, s] < np.inf:
                over_channels(search, labels, layer, s)
        for p in range(moves.size.shape[0]):
            if search.useful[p] and search.least[p] < np.inf:
                over_stages(search, labels, layer, p)


@borrowing
def over_channels(search: Search, labels: Labels, layer: int, s: int) -> None:
    """The best plan up to state s, extended by each channel from there."""
    moves, target, head, full = search.moves, search.target, search.head[layer, s], search.full[layer, s]
    cut, carried, (islands, parts) = search.sums.cut[layer], full, (moves.loads.shape[1], search.sums.late.shape[0])
    for g in range(islands):
        for t in range(1, parts):
            carried = max(carried, search.sent[layer, s, g, t])
    for m in range(moves.first[s], moves.stop[s]):
        step, p = channel_step(moves.channel, m, cut), moves.shift[s] + moves.place[m]
        if full + step.load > target:
            break  # a state's moves are in the order of their load
        if not search.useful[p]:
            continue
        one, rest = step.delay + step.round_trip / 2, search.sums.rest[moves.left[p] + moves.size[p], layer]
        if full + one + step.delay + step.load + rest > target:
            continue
        most, way = max(carried, full + 2 * one), CLOSE * (full + 2 * one)
        if most + way >= search.least[p]:
            continue
        most = worst_crossed(most, search.sent[layer, s], moves.loads, m, cut, head, one + rest)
        if most <= target and most + way < search.least[p]:
            search.least[p], labels.move[layer, p], labels.origin[layer, p] = most + way, m, s


@borrowing
def worst_crossed(  # noqa: PLR0917 - the letters of a step
    most: float, sent: Floats, loads: Floats, m: int, cut: float, head: float, after: float
) -> float:
    """The greatest of `most` and what leaves islands with the channel of move m; `after` follows each message."""
    parts = sent.shape[1] - 2
    for g in range(sent.shape[0]):
        most = max(most, sent[g, 0] + cut * (loads[m, g, 0] + loads[m, g, 1]))
        for way in range(2):  # AHEAD, BACK
            leaves = crossing(loads, m, g, way, cut)
            if leaves > 0:
                most = max(most, min(sent[g, parts + way], head) + leaves + after)
    return most


@borrowing
def over_stages(search: Search, labels: Labels, layer: int, p: int) -> None:
    """The best plan up to place p, extended by each stage that begins there with layer l."""
    sums, target, left, s = search.sums, search.target, search.moves.left[p], search.moves.next_state[p]
    (head, full), place = crossed(search, labels, layer, p), place_step(sums, search.moves, p)
    early = sums.forward_part * head
    for end in range(max(layer + 1, search.soonest[left]), sums.cut.shape[0]):
        step = stage_step(sums.seconds, sums.parameters, place, layer, end)
        ready = max(full, early + step.reduce)
        if step.work + ready > target:
            break  # more layers only make it worse
        if max(step.work, step.ends + sums.rest[left, end]) + ready > target:
            continue
        most = worst_reduced(search, p, step.weights, step.work + early)
        if most > target:
            continue
        value = max(most, ready + step.both) + CLOSE * (ready + step.both)
        if value < labels.worst[end, s]:
            labels.worst[end, s], labels.begins[end, s], labels.place[end, s] = value, layer, p
            search.head[end, s], search.full[end, s] = head + step.both, ready + step.both
            reduced(search, p, end)


@borrowing
def crossed(search: Search, labels: Labels, layer: int, p: int) -> tuple[float, float]:
    """Head and full of the best plan up to place p, and in `gone` what leaves islands."""
    moves, cut, (islands, columns) = search.moves, search.sums.cut[layer], search.gone.shape
    m, s, parts = labels.move[layer, p], labels.origin[layer, p], columns - 2
    if m < 0:
        for g in range(islands):
            for t in range(columns):
                search.gone[g, t] = 0.0 if t < parts else np.inf
        return 0.0, 0.0
    step = channel_step(moves.channel, m, cut)
    one = step.delay + step.round_trip / 2
    for g in range(islands):
        to = moves.island_at_place[m, g]
        for t in range(columns):
            search.gone[to, t] = search.sent[layer, s, g, t]
        search.gone[to, 0] += cut * (moves.loads[m, g, 0] + moves.loads[m, g, 1])
        for way in range(2):  # AHEAD, BACK
            leaves = crossing(moves.loads, m, g, way, cut)
            if leaves > 0:
                search.gone[to, parts + way] = (
                    min(search.sent[layer, s, g, parts + way], search.head[layer, s]) + leaves
                )
    return search.head[layer, s] + 2 * one, search.full[layer, s] + 2 * one


@borrowing
def worst_reduced(search: Search, p: int, weights: float, over: float) -> float:
    """The greatest of what leaves islands with the all-reduce of a stage, which cannot start before `over`."""
    most, late = 0.0, search.sums.late
    for t in range(late.shape[0]):
        share = (1.0 if over >= late[t] * search.target else 0.0) / (1 - late[t])
        search.rings[t] = share * weights
        for g in range(search.gone.shape[0]):
            most = max(most, search.gone[g, t] + search.moves.ring_load[p, g] * search.rings[t])
    return most


@borrowing
def reduced(search: Search, p: int, end: int) -> None:
    """Keep what leaves islands with the all-reduce of a stage up to layer end - 1."""
    moves, (islands, columns), s = search.moves, search.gone.shape, search.moves.next_state[p]
    for g in range(islands):
        to = moves.island_at_state[p, g]
        for t in range(columns):
            ring = moves.ring_load[p, g] * search.rings[t] if t < columns - 2 else 0.0
            search.sent[end, s, to, t] = search.gone[g, t] + ring
