"""Whether any plan can be as fast as a guess: a dynamic program over layers and moves, on plain arrays.

Of plans up to a state (behind layer layers), or up to a place (the channel to it included), whose `head` is in the same
part `grain` of T, the least of everything is carried along: `Heads`, and for each island g, at `Columns`,

sent[g, t]   least seconds for which all-reduces that start after late[t] T keep its links busy, as a part of what is
             left of T then
begun[g, w]  when all that leaves it one way can have left it, if something does; what follows all of it is counted
             with it where w < HERE
idle[g, w]   0 where nothing does, else infinite
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.frontier import Frontier, add, free, frontier_of, has_room, taken, with_room
from pipesim.analysis.bounds.layer_sums import LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.analysis.bounds.tails import Tail, Tails, tail_at
from pipesim.analysis.bounds.transition import (
    AHEAD,
    ANY,
    BACK,
    HERE,
    WAYS,
    ChannelStep,
    StageStep,
    channel_step,
    crossing,
    enough_from,
    place_step,
    stage_step,
)
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing, compiled

REACHED = -1
SENT = 12  # the first column of islands; before it are those of `Heads`


Kernel = Callable[["Guess", Frontier, int], int]


class Heads(NamedTuple):
    """What plans have behind them that lead to a state or a place, at the least: seconds, but for the last two."""

    head: float  # one microbatch, both ways, or what ends later: there and back from a stage on, and its all-reduce
    forward_head: float  # one microbatch, forward
    last_forward: float  # when the last forward can have come as far, to one replica at least
    before_tail: float  # what there is to be done beside all that is still to come
    before_least: float  # the same, where one replica alone may be so late
    backward_head: float  # head where one replica alone may be late on the way back, so that only its part is
    forwards_done: float  # when all is done of the last stage if what follows its last forward takes no time
    backwards_done: float  # the same if what is before its first backward takes no time
    spread: float  # its forward; at a place, how much later the last replica can start than the first
    mean_spread: float  # its forward and backward; at a place, how much later all start and sooner they end, on average
    own_head: float  # at a place, head for the replica that has most before it
    rounds: float  # at a place, turns of its replicas until each of the stage before has handed on a microbatch


class Columns(NamedTuple):
    """Where a row has what leaves islands."""

    parts: int  # parts of T after which all-reduces are counted
    begun: int
    idle: int


class Crossings(NamedTuple):
    """What leaves islands with the channels behind a layer."""

    loads: Floats  # [move, island, way]
    to: Ints  # [move, island] -> island at the place
    cut: float  # bytes
    target: float
    columns: Columns


class Rings(NamedTuple):
    """What leaves islands with the all-reduce of a stage."""

    load: Floats  # [place, island]: seconds per byte of parameters
    to: Ints  # [place, island] -> island in the state
    late: Floats  # [t]: parts of T
    weights: Floats  # [t]: bytes of an all-reduce, over the part of T that is left when it starts
    target: float
    columns: Columns


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
def heads_at(table: Floats, r: int) -> Heads:
    """The first columns of a row."""
    return Heads(
        table[r, 0], table[r, 1], table[r, 2], table[r, 3], table[r, 4], table[r, 5],
        table[r, 6], table[r, 7], table[r, 8], table[r, 9], table[r, 10], table[r, 11],
    )  # fmt: skip


@borrowing
def keep(label: Floats, heads: Heads) -> None:
    """Set the first columns of a row."""
    for d in range(SENT):
        label[d] = heads[d]


# --- from a state over a channel to a place --------------------------------------------------------------------------


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
        if heads.head + step.load > target:
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
def can_cross(heads: Heads, step: ChannelStep, tail: Tail, target: float) -> bool:
    """Whether plans keep what does not depend on islands, with a channel to where `tail` is to come."""
    one, after = step.delay + step.forward, step.delay + step.backward_min
    over = step.delay + step.load + (after + tail.least) - target
    if heads.head + max(2 * one - tail.room, over) > 0:
        return False
    before, before_least = before_tails(heads, step)
    return max(before + tail.seconds, before_least + tail.least) <= target


@borrowing
def before_tails(heads: Heads, step: ChannelStep) -> tuple[float, float]:
    """What there is to be done beside all that is to come behind a channel: for any, and for one late replica."""
    one, leaving = step.delay + step.forward, step.delay + step.backward
    before = max(heads.before_tail + one, heads.before_least + step.delay + step.forward_min) + leaving
    return before, heads.head + step.delay + step.load + (step.delay + step.backward_min)


@borrowing
def crossed(  # noqa: PLR0917 - the letters of a step
    heads: Heads, step: ChannelStep, before: int, k: int, most_before: int, most: int
) -> Heads:
    """With a channel between stages of `before` and k devices, of which so many have most microbatches."""
    one, leaving = step.delay + step.forward, step.delay + step.backward
    turns = most // before  # so many times all of the stage before have one, then the others
    mean = (before * turns / 2 + most - before * turns) * (turns + 1) / most - 1
    before_tail, before_least = before_tails(heads, step)
    return Heads(
        head=heads.head + 2 * one,
        forward_head=heads.forward_head + one,
        last_forward=max(heads.last_forward + step.forward_min, heads.forward_head + step.load) + step.delay,
        before_tail=before_tail,
        before_least=before_least,
        backward_head=heads.head + one + (step.delay + step.backward_min),
        forwards_done=heads.forwards_done + leaving + one,
        backwards_done=heads.backwards_done + leaving + one,
        spread=((most - 1) // before) * heads.spread,
        mean_spread=mean * heads.mean_spread,
        own_head=heads.head + 2 * step.delay + step.round_trip,
        rounds=float((most_before - 1) // k),
    )


@borrowing
def islands_crossed(  # noqa: PLR0917 - the letters of a step
    table: Floats, r: int, label: Floats, heads: Heads, step: ChannelStep, tail: Tail, crossings: Crossings, m: int
) -> bool:  # fmt: skip
    """Add to the row what leaves islands over the channel of move m; whether no island is busy for too long."""
    parts, begun, idle = crossings.columns
    after_forward = step.delay + step.backward_min + tail.least  # what follows a message that goes ahead here
    before_backward = step.delay + step.forward + tail.seconds  # and what is before one that comes back
    for g in range(crossings.to.shape[1]):
        to = crossings.to[m, g]
        for w in range(WAYS):
            leaves = crossing(crossings.loads, m, g, w, crossings.cut)
            then, quiet = table[r, begun + g * WAYS + w] + leaves, table[r, idle + g * WAYS + w]
            if leaves > 0:
                since = heads.head if w == AHEAD else heads.backward_head if w == BACK else heads.forward_head
                then, quiet = min(then, since + leaves + quiet), np.inf
                if then + (after_forward if w == AHEAD else before_backward if w == BACK else 0.0) > crossings.target:
                    then = np.inf
            if min(then, quiet) > crossings.target:
                return False
            label[begun + to * WAYS + w], label[idle + to * WAYS + w] = then, quiet
        for t in range(parts):
            label[SENT + to * parts + t] = table[r, SENT + g * parts + t]
    return True


# --- from a place with a stage there to a state ----------------------------------------------------------------------


@borrowing
def over_stages(guess: Guess, frontier: Frontier, layer: int, p: int, r: int) -> bool:
    """The plans of row r, up to place p, with each stage that begins there with layer l; whether one has all layers."""
    seconds, parameters, layers = guess.sums.seconds, guess.sums.parameters, guess.sums.cut.shape[0] - 1
    target, later, rings, place = guess.target, guess.later, guess.rings, place_step(guess.sums, guess.moves, p)
    states, s, begin = (
        guess.size.shape[0],
        guess.moves.next_state[p],
        max(layer + 1, guess.soonest[guess.moves.left[p]]),
    )
    table, label, heads = frontier.table, frontier.label, heads_at(frontier.table, r)
    for end in range(begin, layers + 1):
        step, tail = stage_step(seconds, parameters, place, layer, end), tail_at(later, s, end)
        starts = heads.forward_head + heads.spread
        if step.work + max(heads.own_head + heads.mean_spread, starts + step.reduce) > target:
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


@borrowing
def can_stay(heads: Heads, step: StageStep, tail: Tail, target: float) -> bool:
    """Whether plans keep what does not depend on islands, with a stage behind which `tail` is to come."""
    if step.ends + tail.seconds + ready(heads, step) > target:
        return False
    before, before_least = before_next(heads, step)
    return max(before + tail.seconds, before_least + tail.least) <= target


@borrowing
def ready(heads: Heads, step: StageStep) -> float:
    """What is before the first forward of the last replica and after its last backward."""
    return max(heads.head + heads.mean_spread, heads.forward_head + heads.spread + step.reduce)


@borrowing
def last_forward_end(heads: Heads, step: StageStep) -> float:
    """When the last forward of a stage ends at the earliest."""
    return max(heads.last_forward + step.forward, heads.forward_head + heads.spread + step.forwards)


@borrowing
def before_next(heads: Heads, step: StageStep) -> tuple[float, float]:
    """What there is to be done beside all that is to come behind a stage: for any, and for one late replica."""
    forwards_done = heads.forwards_done + heads.rounds * step.forward
    before = max(heads.before_tail, forwards_done, heads.backwards_done + heads.rounds * step.backward) + step.both
    before_least = max(heads.before_least + step.both, last_forward_end(heads, step) + step.backward + step.reduce)
    return max(before, step.ends + ready(heads, step)), before_least


@borrowing
def stayed(heads: Heads, step: StageStep) -> Heads:
    """With one more stage."""
    before_tail, before_least = before_next(heads, step)
    return Heads(
        head=max(heads.head, heads.forward_head + step.reduce) + step.both,
        forward_head=heads.forward_head + step.forward,
        last_forward=last_forward_end(heads, step),
        before_tail=before_tail,
        before_least=before_least,
        backward_head=max(heads.backward_head, heads.forward_head + step.reduce) + step.both,
        forwards_done=heads.forward_head + step.forwards + step.backward + step.reduce,
        backwards_done=heads.forward_head + step.forward + step.backwards + step.reduce,
        spread=step.forward,
        mean_spread=step.forward + step.backward,
        own_head=0.0,
        rounds=0.0,
    )


@borrowing
def islands_reduced(  # noqa: PLR0917 - the letters of a step
    table: Floats, r: int, label: Floats, heads: Heads, step: StageStep, tail: Tail, rings: Rings, p: int
) -> bool:  # fmt: skip
    """Add to the row what leaves islands with the all-reduce of a stage; whether no island is busy for too long."""
    parts, begun, idle = rings.columns
    starts, last = heads.forward_head + heads.spread, last_forward_end(heads, step)
    over = max(starts + step.work, starts + step.ends + tail.seconds, last + tail.least + step.backward)
    for t in range(parts):
        starts_late = step.weights > 0 and over >= rings.late[t] * rings.target
        rings.weights[t] = step.weights / (1 - rings.late[t]) if starts_late else 0.0
    for g in range(rings.to.shape[1]):
        to, load = rings.to[p, g], rings.load[p, g]
        for t in range(parts):
            sent = table[r, SENT + g * parts + t] + load * rings.weights[t]
            if sent > rings.target:
                return False
            label[SENT + to * parts + t] = sent
        for w in range(WAYS):
            then, quiet = table[r, begun + g * WAYS + w], table[r, idle + g * WAYS + w]
            if w == HERE and then + step.both + tail.least + step.reduce > rings.target:
                then = np.inf
            if w == ANY and load * step.weights > 0:
                then, quiet = min(then, heads.forward_head + quiet) + load * step.weights, np.inf
            if min(then, quiet) > rings.target:
                return False
            label[begun + to * WAYS + w], label[idle + to * WAYS + w] = then, quiet
    return True
