"""What is still to come, at the least: the way of one microbatch through all later stages and back."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.incoming import Incoming, incoming_of
from pipesim.analysis.bounds.layer_sums import LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.analysis.bounds.transition import channel_step, enough_from, place_step, stage_step
from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import borrowing, compiled, inlined

Kernel = Callable[["Way"], None]


class Tail(NamedTuple):
    """What is still to come from a place or a state, behind some layers."""

    seconds: float  # one microbatch, both ways: from a place through a stage there, from a state through a channel
    least: float  # the same for a microbatch that one replica alone may have so late
    room: float  # what there may be before, at most: HEAD in `reach`


class Cells(NamedTuple):
    """What plans with T may go through: a superset of what they do go through."""

    place: Bools  # [l, p]
    state: Bools  # [s, l]


class Tails(NamedTuple):
    """The columns of `Tail` for each number of layers; where `Cells` has nothing, anything."""

    place: Floats  # [l, p, column]
    state: Floats  # [s, l, column]


class Way(NamedTuple):
    """The way back from the last layer to the first."""

    sums: LayerSums
    moves: Moves
    incoming: Incoming
    found: Tails
    cells: Cells
    target: float
    soonest: Ints  # [v]: with v devices left, the first layer from which on they are enough
    places: Ints  # in `cells`, behind any number of layers
    states: Ints
    open: Bools  # [state]: whether it is in `cells` behind one of the layers, close together for that one
    behind: Floats  # [s, column]: tails of all states behind that layer


@borrowing
def tail_at(tails: Floats, i: int, j: int) -> Tail:
    """One row of `Tails`."""
    return Tail(tails[i, j, 0], tails[i, j, 1], tails[i, j, 2])


@borrowing
def set_tail(  # noqa: PLR0917 - columns
    tails: Floats, i: int, j: int, seconds: float, least: float, room: float
) -> None:
    """Set one row of `Tails`."""
    tails[i, j, 0], tails[i, j, 1], tails[i, j, 2] = seconds, least, room


def all_cells(sums: LayerSums, moves: Moves) -> Cells:
    """All that there is: places with devices left for what follows, and the states that these lead to."""
    layers, there = len(sums.cut) - 1, moves.left >= 0
    state = np.zeros(len(moves.first), bool)
    state[moves.next_state[there]] = True
    return Cells(np.tile(there, (layers, 1)), np.repeat(state[:, None], layers + 1, axis=1))


def somewhere(cells: Cells) -> tuple[Ints, Ints]:
    """The places, and the states, that are in it behind any number of layers, and not only behind all of them."""
    return np.flatnonzero(cells.place.any(axis=0)), np.flatnonzero(cells.state[:, :-1].any(axis=1))


def no_tails(sums: LayerSums, moves: Moves) -> Tails:
    """Room for all."""
    layers = len(sums.cut) - 1
    return Tails(np.empty((layers, len(moves.size), 3)), np.empty((len(moves.first), layers + 1, 3)))


def tails_of(  # noqa: PLR0917 - the letters of a guess
    sums: LayerSums, moves: Moves, target: float, kernel: Kernel | None = None,
    cells: Cells | None = None, incoming: Incoming | None = None, found: Tails | None = None,
) -> tuple[Tails, Cells]:  # fmt: skip
    """From the last layer back to the first; `kernel` is `backwards`, compiled by default.

    `cells`: what may be part of a plan, of which those are left that still may. `found` is used again.
    """
    cells = Cells(*(one.copy() for one in cells)) if cells else all_cells(sums, moves)
    found = found or no_tails(sums, moves)
    run = kernel or compiled(backwards)
    incoming = incoming or incoming_of(moves)
    behind = np.full((len(moves.first), 3), (np.inf, np.inf, -np.inf))
    opened = np.zeros(len(moves.first), bool)
    run(Way(sums, moves, incoming, found, cells, target, enough_from(sums, target), *somewhere(cells), opened, behind))
    return found, cells


@borrowing
def backwards(way: Way) -> None:
    """Layer after layer."""
    sums, moves, found, cells, behind = way.sums, way.moves, way.found, way.cells, way.behind
    layers, devices = sums.cut.shape[0] - 1, sums.rest.shape[0] - 1
    for s in range(behind.shape[0]):
        set_tail(found.state, s, layers, 0.0, 0.0, way.target)
    for layer in range(layers - 1, -1, -1):
        head = max(0.0, sums.rest[devices, 0] - sums.rest[devices, layer])
        for s in way.states:
            way.open[s] = cells.state[s, layer]
        for p in way.places:
            if cells.place[layer, p]:
                before = devices - moves.left[p] - moves.size[p]
                enough = sums.area[0] - sums.area[layer] <= before * way.target  # B4
                cells.place[layer, p] = enough and through_stages(way, head, layer, p)
                if cells.place[layer, p] and layer > 0:
                    through_channels(way, head, layer, p)
        for s in way.states:
            if cells.state[s, layer]:
                cells.state[s, layer] = behind[s, 2] > -np.inf
                if cells.state[s, layer]:
                    set_tail(found.state, s, layer, behind[s, 0], behind[s, 1], behind[s, 2])
                    behind[s, 0], behind[s, 1], behind[s, 2] = np.inf, np.inf, -np.inf


@inlined
@borrowing
def through_stages(way: Way, head: float, layer: int, p: int) -> bool:
    """Set what is to come at place p, over all last layers of a stage there; whether anything can be.

    `head` is the least way before layer l.
    """
    sums, moves, target = way.sums, way.moves, way.target
    s, place, early = moves.next_state[p], place_step(sums, moves, p), sums.forward_part * head
    seconds, parameters, state, possible = sums.seconds, sums.parameters, way.found.state, way.cells.state
    tail, least, room = np.inf, np.inf, -np.inf
    for end in range(max(layer + 1, way.soonest[moves.left[p]]), sums.cut.shape[0]):
        if not possible[s, end]:
            continue
        step = stage_step(seconds, parameters, place, layer, end)
        ready = max(head, early + step.reduce)  # B16
        if step.work + ready > target:  # B23, B24
            break  # more layers only make it worse
        after = tail_at(state, s, end)
        work = max(step.work, step.ends + after.seconds)  # B25
        limit = min(target - work, after.room - step.both)  # B36
        if work + ready <= target and limit >= head:
            tail, least = min(tail, step.both + after.seconds), min(least, step.both + after.least)  # B21, B22
            room = max(room, limit)
    set_tail(way.found.place, layer, p, tail, least, room)
    return bool(room > -np.inf)


@inlined
@borrowing
def through_channels(way: Way, head: float, layer: int, p: int) -> None:
    """Lower what is to come behind the layer in each state from which a channel leads to place p."""
    incoming, target, behind, stop = way.incoming, way.target, way.behind, way.moves.stop
    cut, after, shift = way.sums.cut[layer], tail_at(way.found.place, layer, p), incoming.shift[p]
    channel, possible = way.moves.channel, way.open
    for i in range(incoming.first[p - shift], incoming.first[p - shift + 1]):
        s, m = incoming.row[i] + shift, incoming.move[i]
        if not possible[s] or m >= stop[s]:
            continue
        step = channel_step(channel, m, cut)
        one = step.delay + step.forward
        over = step.delay + step.load + step.delay + step.backward_min + after.least  # B28
        limit = min(target - over, after.room - 2 * one)  # B36
        if limit >= head:
            behind[s, 0] = min(behind[s, 0], one + step.delay + step.backward + after.seconds)  # B21
            late = step.delay + step.forward_min + step.delay + step.backward + after.seconds
            behind[s, 1] = min(behind[s, 1], late)  # B22
            behind[s, 2] = max(behind[s, 2], limit)
