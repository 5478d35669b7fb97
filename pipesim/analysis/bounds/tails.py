"""What is still to come, at the least: the way of one microbatch through all later stages and back."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.layer_sums import LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.analysis.bounds.transition import channel_step, enough_from, place_step, stage_step
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing, compiled

Kernel = Callable[[LayerSums, Moves, "Tails", float, Ints, Ints, Floats], None]


class Tail(NamedTuple):
    """What is still to come from a place or a state, behind some layers; infinite where no plan with T goes on so."""

    seconds: float  # one microbatch, both ways: from a place through a stage there, from a state through a channel
    least: float  # the same for a microbatch that one replica alone may have so late
    room: float  # what there may be before, at most: HEAD in `reach`


class Tails(NamedTuple):
    """The columns of `Tail` for each number of layers."""

    place: Floats  # [l, p, column]
    state: Floats  # [l, s, column]


@borrowing
def tail_at(tails: Floats, layer: int, x: int) -> Tail:
    """One row of `Tails`."""
    return Tail(tails[layer, x, 0], tails[layer, x, 1], tails[layer, x, 2])


def tails_of(sums: LayerSums, moves: Moves, target: float, kernel: Kernel | None = None) -> Tails:
    """From the last layer back to the first; `kernel` is `backwards`, compiled by default."""
    (layers, devices), places, states = np.array(sums.rest.shape[::-1]) - 1, len(moves.size), len(moves.first)
    found = Tails(np.full((layers, places, 3), np.inf), np.full((layers + 1, states, 3), np.inf))
    found.place[:, :, 2], found.state[:, :, 2] = -np.inf, -np.inf
    found.state[layers] = 0.0, 0.0, target
    there, used = moves.left >= 0, np.zeros(states, np.int64)
    used[moves.next_state[there]] = devices - moves.left[there]
    run = kernel or compiled(backwards)
    run(sums, moves, found, target, enough_from(sums, target), used, np.empty(devices + 1))
    return found


@borrowing
def backwards(  # noqa: PLR0917 - the letters of a step
    sums: LayerSums, moves: Moves, found: Tails, target: float, soonest: Ints, used: Ints, widest: Floats
) -> None:
    """Layer after layer; `widest` has the most room anywhere with so many devices used."""
    layers, devices = sums.cut.shape[0] - 1, sums.rest.shape[0] - 1
    for layer in range(layers - 1, -1, -1):
        head = max(0.0, sums.rest[devices, 0] - sums.rest[devices, layer])
        widest[:] = -np.inf
        for p in range(moves.size.shape[0]):
            before = devices - moves.left[p] - moves.size[p]
            if (
                moves.left[p] >= 0 and sums.area[0] - sums.area[layer] <= before * target
            ):  # devices for what comes before
                through_stages(sums, moves, found, target, head, layer, p, max(layer + 1, soonest[moves.left[p]]))
                widest[before] = max(widest[before], found.place[layer, p, 2])
        for s in range(moves.first.shape[0] if layer > 0 else 0):
            if widest[used[s]] >= head:
                through_channels(sums, moves, found, target, head, layer, s)


@borrowing
def through_stages(  # noqa: PLR0917 - the letters of a step
    sums: LayerSums, moves: Moves, found: Tails, target: float, head: float, layer: int, p: int, begin: int
) -> None:  # fmt: skip
    """What is to come at place p, over all last layers of a stage there; `head` is the least way before layer l."""
    s, place, early = moves.next_state[p], place_step(sums, moves, p), sums.forward_part * head
    seconds, parameters = sums.seconds, sums.parameters
    tail, least, room = np.inf, np.inf, -np.inf
    for end in range(begin, sums.cut.shape[0]):
        step = stage_step(seconds, parameters, place, layer, end)
        ready = max(head, early + step.reduce)  # B16
        if step.work + ready > target:  # B23, B24
            break  # more layers only make it worse
        after = tail_at(found.state, end, s)
        work = max(step.work, step.ends + after.seconds)  # B25
        limit = min(target - work, after.room - step.both)  # B36
        if work + ready <= target and limit >= head:
            tail, least = min(tail, step.both + after.seconds), min(least, step.both + after.least)  # B21, B22
            room = max(room, limit)
    found.place[layer, p, 0], found.place[layer, p, 1], found.place[layer, p, 2] = tail, least, room


@borrowing
def through_channels(  # noqa: PLR0917 - the letters of a step
    sums: LayerSums,
    moves: Moves,
    found: Tails,
    target: float,
    head: float,
    layer: int,
    s: int,
) -> None:
    """What is to come in state s, over all channels from there."""
    cut, shift, at, channel = sums.cut[layer], moves.shift[s], moves.place, moves.channel
    tail, least, room = np.inf, np.inf, -np.inf
    for m in range(moves.first[s], moves.stop[s]):
        step = channel_step(channel, m, cut)
        if head + step.load > target:  # B28
            break  # a state's moves are in the order of their load
        after = tail_at(found.place, layer, shift + at[m])
        one = step.delay + step.forward
        over = step.delay + step.load + step.delay + step.backward_min + after.least  # B28
        limit = min(target - over, after.room - 2 * one)  # B36
        if limit >= head:
            tail = min(tail, one + step.delay + step.backward + after.seconds)  # B21
            least = min(least, step.delay + step.forward_min + step.delay + step.backward + after.seconds)  # B22
            room = max(room, limit)
    found.state[layer, s, 0], found.state[layer, s, 1], found.state[layer, s, 2] = tail, least, room
