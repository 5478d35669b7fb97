"""Whether any plan can be as fast as a guess: a dynamic program over layers and moves.

Plans up to a state (behind some layers), or up to a place (the channel to it included), are carried along as rows: of
all those whose `head` is in the same part `grain` of T the least of everything, `Heads` and then what leaves islands.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.frontier import Frontier, add, free, frontier_of, has_room, taken, with_room
from pipesim.analysis.bounds.heads import can_cross, can_stay, crossed, heads_at, keep, stayed, works_too_long
from pipesim.analysis.bounds.island_traffic import SENT, Columns, Crossings, Rings, islands_crossed, islands_reduced
from pipesim.analysis.bounds.layer_sums import LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.analysis.bounds.tails import Tails, tail_at
from pipesim.analysis.bounds.transition import WAYS, channel_step, enough_from, place_step, stage_step
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing, compiled

REACHED = -1

Kernel = Callable[["Guess", Frontier, int], int]


class Guess(NamedTuple):
    """What one guess is tried with."""

    sums: LayerSums
    moves: Moves
    tails: Tails
    target: float  # the guess T
    width: float  # seconds of a grade of rows
    rings: Rings
    size: Ints  # [state]: devices of the last stage
    soonest: Ints  # [v]: with v devices left, the first layer from which on they are enough
    later: Floats  # [s, l, column]: `tails.state`, in the order in which it is read


def reachable(  # noqa: PLR0917 - the letters of a guess
    sums: LayerSums, moves: Moves, tails: Tails, target: float, grain: float, kernel: Kernel | None = None
) -> bool:
    """Whether some plan breaks no inequality for T = target; `kernel` is `extended`, compiled by default."""
    run = kernel or compiled(extended)
    guess = guess_of(sums, moves, tails, target, grain)
    frontier = opened(guess, len(moves.first) * len(sums.cut), int(1 / grain) + 2)
    at, last = 0, (len(sums.cut) - 1) * (len(moves.first) + len(moves.size))
    while REACHED < at < last:
        frontier = with_room(frontier)
        at = run(guess, frontier, at)
    return at == REACHED


def guess_of(sums: LayerSums, moves: Moves, tails: Tails, target: float, grain: float) -> Guess:
    """With what is looked up often."""
    (parts,), islands, there = sums.late.shape, moves.loads.shape[1], moves.left >= 0
    size = np.ones(len(moves.first), np.int64)
    size[moves.next_state[there]] = moves.size[there]
    columns = Columns(parts, SENT + islands * parts, SENT + islands * (parts + WAYS))
    rings = Rings(moves.ring_load, moves.island_at_state, sums.late, np.empty(parts), target, columns)
    later = tails.state.transpose(1, 0, 2).copy()
    return Guess(sums, moves, tails, target, grain * target, rings, size, enough_from(sums, target), later)


def opened(guess: Guess, at_place: int, grades: int) -> Frontier:
    """The places of first stages; lists of places follow those of states behind any number of layers."""
    places, islands, columns = len(guess.moves.size), guess.moves.loads.shape[1], guess.rings.columns
    frontier = frontier_of(at_place + places, 2 * places, grades, columns.idle + islands * WAYS)
    frontier.label[:] = 0.0
    frontier.label[columns.begun : columns.idle] = np.inf
    for p in np.flatnonzero(guess.moves.can_be_first & (guess.tails.place[0, :, 2] >= 0)).tolist():
        add(frontier, at_place + p, 0)
    return frontier


@borrowing
def extended(guess: Guess, frontier: Frontier, begin: int) -> int:
    """Extend all plans, layer after layer, from step `begin` on; the step for which the frontier has no room."""
    states: int = guess.size.shape[0]
    places: int = guess.moves.size.shape[0]
    layers: int = guess.sums.cut.shape[0] - 1
    for layer in range(begin // (states + places), layers):
        step = layer * (states + places)
        s = from_states(guess, frontier, layer, max(0, begin - step))
        if s < states:
            return step + s
        p = from_places(guess, frontier, layer, max(0, begin - step - states))
        if p < places:
            return step + states + p if p >= 0 else REACHED
    return layers * (states + places)


@borrowing
def from_states(guess: Guess, frontier: Frontier, layer: int, begin: int) -> int:
    """Extend the plans up to each state behind l layers, from state `begin` on; the first without room, if any."""
    moves = guess.moves
    states: int = guess.size.shape[0]
    for s in range(begin, states):
        where = layer * states + s
        if frontier.first[where] >= 0:
            if not has_room(frontier, where, moves.stop[s] - moves.first[s]):
                return s
            for i in range(taken(frontier, where, guess.tails.state[layer, s, 2])):
                over_channels(guess, frontier, layer, s, frontier.found[i])
    return states


@borrowing
def from_places(guess: Guess, frontier: Frontier, layer: int, begin: int) -> int:
    """Extend the plans up to each place behind l layers, from place `begin` on; REACHED, or the first without room."""
    layers = guess.sums.cut.shape[0] - 1
    places: int = guess.moves.size.shape[0]
    for p in range(begin, places):
        where = (layers + 1) * guess.size.shape[0] + p
        if frontier.first[where] >= 0:
            if not has_room(frontier, where, layers - layer):
                return p
            for i in range(taken(frontier, where, guess.tails.place[layer, p, 2])):
                if over_stages(guess, frontier, layer, p, frontier.found[i]):
                    return REACHED
    return places


@borrowing
def over_channels(guess: Guess, frontier: Frontier, layer: int, s: int, r: int) -> None:
    """The plans of row r, up to state s behind l layers, extended by each channel from there."""
    moves, target, before, tails = guess.moves, guess.target, guess.size[s], guess.tails.place
    channel, place, shift, cut = moves.channel, moves.place, moves.shift[s], guess.sums.cut[layer]
    crossings = Crossings(moves.loads, moves.island_at_place, cut, target, guess.rings.columns)
    size, with_most, at_place = moves.size, guess.sums.with_most, guess.size.shape[0] * guess.sums.cut.shape[0]
    table, label, heads = frontier.table, frontier.label, heads_at(frontier.table, r)
    for m in range(moves.first[s], moves.stop[s]):
        step, p = channel_step(channel, m, cut), shift + place[m]
        if heads.head + step.load > target:  # B28
            break  # a state's moves are in the order of their load
        tail = tail_at(tails, layer, p)
        if not can_cross(heads, step, tail, target):
            continue
        if not islands_crossed(table, r, label, heads, step, tail, crossings, m):
            continue
        after = crossed(heads, step, before, size[p], with_most[before], with_most[size[p]])
        keep(label, after)
        add(frontier, at_place + p, int(after.head / guess.width))
    free(frontier, r)


@borrowing
def over_stages(guess: Guess, frontier: Frontier, layer: int, p: int, r: int) -> bool:
    """The plans of row r, up to place p, with each stage that begins there with layer l; whether one has all layers."""
    seconds, parameters, layers = guess.sums.seconds, guess.sums.parameters, guess.sums.cut.shape[0] - 1
    target, later, rings, place = guess.target, guess.later, guess.rings, place_step(guess.sums, guess.moves, p)
    states, s = guess.size.shape[0], guess.moves.next_state[p]
    begin = max(layer + 1, guess.soonest[guess.moves.left[p]])  # B4
    table, label, heads = frontier.table, frontier.label, heads_at(frontier.table, r)
    for end in range(begin, layers + 1):
        step, tail = stage_step(seconds, parameters, place, layer, end), tail_at(later, s, end)
        if works_too_long(heads, step, target):
            break  # more layers only make it worse
        if not can_stay(heads, step, tail, target):
            continue
        if not islands_reduced(table, r, label, heads, step, tail, rings, p):
            continue
        if end == layers:
            return True
        after = stayed(heads, step)
        keep(label, after)
        add(frontier, end * states + s, int(after.head / guess.width))
    free(frontier, r)
    return False
