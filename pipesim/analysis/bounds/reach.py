"""Whether any plan can be as fast as a guess: a dynamic program over layers and moves.

Plans up to a state (behind some layers), or up to a place (the channel to it included), are carried along as rows: of
all those whose `head` is in the same part `grain` of T the least of everything, `Heads` and then what leaves islands.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.frontier import (
    Frontier,
    add,
    add_here,
    free,
    free_all,
    frontier_of,
    has_room,
    taken,
    thinned,
    with_room,
)
from pipesim.analysis.bounds.heads import Heads, can_cross, can_stay, crossed, heads_at, keep, stayed, works_too_long
from pipesim.analysis.bounds.incoming import Incoming
from pipesim.analysis.bounds.island_traffic import SENT, Columns, Crossings, Rings, islands_crossed, islands_reduced
from pipesim.analysis.bounds.layer_sums import LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.analysis.bounds.tails import Cells, Tails, somewhere, tail_at
from pipesim.analysis.bounds.transition import WAYS, channel_step, enough_from, place_step, stage_step
from pipesim.base.arrays import Bools, Ints
from pipesim.base.kernels import borrowing, compiled, inlined

Kernel = Callable[["Guess", Frontier, int], int]


class Guess(NamedTuple):
    """What one guess is tried with."""

    sums: LayerSums
    moves: Moves
    incoming: Incoming
    tails: Tails
    cells: Cells
    target: float  # the guess T
    width: float  # seconds of a grade of rows
    rings: Rings
    places: Ints  # in `cells`, behind any number of layers
    states: Ints
    number: Ints  # [state]: its number among these
    size: Ints  # [state]: devices of the last stage
    soonest: Ints  # [v]: with v devices left, the first layer from which on they are enough
    open: Bools  # [state]: whether plans lead to it behind one of the layers, close together for that one
    reached: Bools  # [0]: whether a plan with all layers has been found


def reachable(  # noqa: PLR0917 - the letters of a guess
    sums: LayerSums, moves: Moves, incoming: Incoming, tails: Tails, cells: Cells, target: float, grain: float,
    kernel: Kernel | None = None,
) -> bool:  # fmt: skip
    """Whether some plan breaks no inequality for T = target; `kernel` is `extended`, compiled by default.

    What no plan leads to is taken out of `cells`.
    """
    run = kernel or compiled(extended)
    guess = guess_of(sums, moves, incoming, tails, cells, target, grain)
    frontier = opened(guess, int(1 / grain) + 2)
    at, last = 0, (len(sums.cut) - 1) * len(guess.places)
    while at < last:
        frontier = with_room(frontier)
        at = run(guess, frontier, at)
    return bool(guess.reached[0])


def guess_of(  # noqa: PLR0917 - as above
    sums: LayerSums, moves: Moves, incoming: Incoming, tails: Tails, cells: Cells, target: float, grain: float
) -> Guess:
    """With what is looked up often."""
    (parts,), islands, there = sums.late.shape, moves.loads.shape[1], moves.left >= 0
    size = np.ones(len(moves.first), np.int64)
    size[moves.next_state[there]] = moves.size[there]
    columns = Columns(parts, SENT + islands * parts, SENT + islands * (parts + WAYS))
    rings = Rings(moves.ring_load, moves.island_at_state, sums.late, np.empty(parts), target, columns)
    soonest = enough_from(sums, target)
    (places, states), number = somewhere(cells), np.zeros(len(moves.first), np.int64)
    number[states] = np.arange(len(states))
    width, opened, reached = grain * target, np.zeros(len(moves.first), bool), np.zeros(1, bool)
    return Guess(
        sums,
        moves,
        incoming,
        tails,
        cells,
        target,
        width,
        rings,
        places,
        states,
        number,
        size,
        soonest,
        opened,
        reached,
    )


def opened(guess: Guess, grades: int) -> Frontier:
    """Lists for states behind any number of layers; the place that is being extended has the rows `here`."""
    lists, columns = len(guess.states) * len(guess.sums.cut), guess.rings.columns
    rows = max(2 * len(guess.places), grades * len(guess.sums.cut))
    return frontier_of(lists, rows, grades, columns.idle + guess.moves.loads.shape[1] * WAYS)


@borrowing
def extended(guess: Guess, frontier: Frontier, begin: int) -> int:
    """Extend all plans, layer after layer, from step `begin` on; the step for which the frontier has no room."""
    places: int = guess.places.shape[0]
    states: int = guess.states.shape[0]
    layers: int = guess.sums.cut.shape[0] - 1
    for layer in range(begin // places, layers):
        step = layer * places
        if layer > 0:
            thin_states(guess, frontier, layer)
        p = over_places(guess, frontier, layer, max(0, begin - step))
        if p < places:
            return step + p
        for i in range(states):
            free_all(frontier, layer * states + i)
    return layers * places


@borrowing
def thin_states(guess: Guess, frontier: Frontier, layer: int) -> None:
    """Keep what is needed of the plans up to each state behind l layers; no cells without any."""
    possible, tails = guess.cells.state, guess.tails.state
    for i, s in enumerate(guess.states):
        where = layer * guess.states.shape[0] + i
        if possible[s, layer] and frontier.first[where] >= 0:
            possible[s, layer] = thinned(frontier, where, tails[s, layer, 2])
        else:
            possible[s, layer] = False
        guess.open[s] = possible[s, layer]


@borrowing
def over_places(guess: Guess, frontier: Frontier, layer: int, begin: int) -> int:
    """Extend the plans up to each place behind l layers, from place `begin` on; the first without room, if any."""
    layers, possible = guess.sums.cut.shape[0] - 1, guess.cells.place
    places: int = guess.places.shape[0]
    for number in range(begin, places):
        p = guess.places[number]
        if possible[layer, p]:
            if not has_room(frontier, frontier.found.shape[0] * (layers - layer + 1)):
                return number
            if layer > 0:
                over_channels(guess, frontier, layer, p)
            elif guess.moves.can_be_first[p]:
                start(guess, frontier)
            count = taken(frontier, guess.tails.place[layer, p, 2])
            possible[layer, p] = count > 0
            for i in range(count):
                r = frontier.found[i]
                over_stages(guess, frontier, layer, p, heads_at(frontier.table, r), r)
                free(frontier, r)
    return places


@inlined
@borrowing
def start(guess: Guess, frontier: Frontier) -> None:
    """A plan without any stage."""
    columns, label = guess.rings.columns, frontier.label
    label[:] = 0.0
    label[columns.begun : columns.idle] = np.inf
    add_here(frontier, 0)


@inlined
@borrowing
def over_channels(guess: Guess, frontier: Frontier, layer: int, p: int) -> None:
    """The plans up to all states behind l layers, extended by each channel from there to place p."""
    moves, incoming, target, possible = guess.moves, guess.incoming, guess.target, guess.open
    shift, cut, tail = incoming.shift[p], guess.sums.cut[layer], tail_at(guess.tails.place, layer, p)
    crossings = Crossings(moves.loads, moves.island_at_place, cut, target, guess.rings.columns)
    with_most, channel, size = guess.sums.with_most, moves.channel, moves.size[p]
    table, label, lists = frontier.table, frontier.label, layer * guess.states.shape[0]
    for i in range(incoming.first[p - shift], incoming.first[p - shift + 1]):
        s, m = incoming.row[i] + shift, incoming.move[i]
        if not possible[s] or m >= moves.stop[s]:
            continue
        step, before = channel_step(channel, m, cut), guess.size[s]
        r = frontier.first[lists + guess.number[s]]
        while r >= 0:
            heads = heads_at(table, r)
            if can_cross(heads, step, tail, target) and islands_crossed(
                table, r, label, heads, step, tail, crossings, m
            ):
                after = crossed(heads, step, before, size, with_most[before], with_most[size])
                keep(label, after)
                add_here(frontier, int(after.head / guess.width))
            r = frontier.after[r]


@inlined
@borrowing
def over_stages(  # noqa: PLR0917 - the letters of a step
    guess: Guess, frontier: Frontier, layer: int, p: int, heads: Heads, r: int
) -> None:
    """The plans of row r, up to place p, extended by each stage that begins there with layer l."""
    seconds, parameters, layers = guess.sums.seconds, guess.sums.parameters, guess.sums.cut.shape[0] - 1
    target, rings, place = guess.target, guess.rings, place_step(guess.sums, guess.moves, p)
    later, possible, s = guess.tails.state, guess.cells.state, guess.moves.next_state[p]
    states, number = guess.states.shape[0], guess.number[s]
    begin = max(layer + 1, guess.soonest[guess.moves.left[p]])  # B4
    for end in range(begin, layers + 1):
        if not possible[s, end]:
            continue
        step, tail = stage_step(seconds, parameters, place, layer, end), tail_at(later, s, end)
        if works_too_long(heads, step, target):
            break  # more layers only make it worse
        if not can_stay(heads, step, tail, target):
            continue
        if not islands_reduced(frontier.table, r, frontier.label, heads, step, tail, rings, p):
            continue
        if end == layers:
            guess.reached[0] = True
            return
        after = stayed(heads, step)
        keep(frontier.label, after)
        add(frontier, end * states + number, int(after.head / guess.width))
