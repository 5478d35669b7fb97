"""Where stages can be, and what it costs to hand a microbatch on: states, places, and the moves between them.

    state       devices used so far in each island, and where the last stage is
    place       devices used so far, and where the next stage will be
    move        from a state to a place: a channel between two stages

Here a stage is so many devices in each island, which is exact and only for few of them. Islands of equal size and
capacity are interchangeable, so only one of all their orders is looked at. `forms` does with less.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.bounds.islands import Sea
from pipesim.plan import Replicas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Links(NamedTuple):
    """Channels, one a row: as the columns of `Moves` that are so called."""

    through: Floats
    start: Floats
    load: Floats
    ahead: Floats
    back: Floats


class Moves(NamedTuple):
    """Moves by state, then what there is to know of a place. Seconds per byte of a cut, or of parameters."""

    first: Ints  # [state]: its first move
    place: Ints  # [move]
    through: Floats  # [move]: one microbatch, one way
    start: Floats  # [move]: the delay, in seconds
    load: Floats  # [move]: all microbatches, one way, one after the other
    ahead: Floats  # [move, island]: all microbatches' forwards, on what leaves the island
    back: Floats  # [move, island]: and their backwards
    size: Ints  # [place]: devices of the stage
    opens: Bools  # [place]: whether it can be the first stage's
    becomes: Ints  # [place]: the state when the stage is there
    left: Ints  # [place]: devices for all later stages
    ring: Floats  # [place]: the all-reduce
    turns: Floats  # [place]: its delays, in seconds
    circle: Floats  # [place, island]: the all-reduce, on what leaves the island
    turn_place: Ints  # [move, island]: the same island's number in the place
    turn_state: Ints  # [place, island]: and in the state that the place becomes


def by_island(sea: Sea, replicas: Replicas, microbatches: int) -> Moves:
    """Every way to have devices used, a stage on some of them, and a next stage on some of the others."""
    return in_blocks(sea, replicas, microbatches, 1)[0]


def in_blocks(sea: Sea, replicas: Replicas, microbatches: int, block: int) -> tuple[Moves, Ints]:
    """The same with devices only taken in blocks of so many of an island; with the devices of [place, island]."""
    coarse = sea._replace(sizes=sea.sizes // block)
    used, last, following = _triples(coarse).transpose(2, 0, 1)  # [row, island] each
    (used_next, chosen_next), turn_place = _ordered(coarse, used, following)
    state, place = _code(coarse, used, last), _code(coarse, used_next, chosen_next)
    some = np.flatnonzero(following.any(axis=1))
    places, at = np.unique(place[some], return_index=True)
    before, chosen = used_next[some[at]], chosen_next[some[at]]
    (after, stage), turn_state = _ordered(coarse, before + chosen, chosen)
    becomes = _code(coarse, after, stage)
    states = np.unique(becomes)
    keep = np.flatnonzero(last.any(axis=1) & following.any(axis=1) & np.isin(state, states))
    links = links_of(sea, block * last[keep], block * following[keep], replicas, microbatches)
    order = np.lexsort((links.load, state[keep]))
    keep, links = keep[order], Links(*(column[order] for column in links))
    chosen, left = block * chosen, block * (coarse.sizes.sum() - after.sum(axis=1))
    moves = Moves(
        np.searchsorted(state[keep], np.append(states, states[-1] + 1)).astype(np.int64),
        np.searchsorted(places, place[keep]).astype(np.int64),
        *links,
        chosen.sum(axis=1),
        before.sum(axis=1) == 0,
        np.searchsorted(states, becomes).astype(np.int64),
        left,
        *_rings(sea, chosen),
        turn_place[keep],
        turn_state,
    )
    return moves, chosen


def _triples(sea: Sea) -> Ints:
    """[row, island, (used, of the last stage, of the next)]: one of all orders of interchangeable islands."""
    blocks = []
    for size, many in sea.groups:
        one = np.array(
            [(u, a, b) for u in range(size + 1) for a in range(u + 1) for b in range(size - u + 1)], np.int64
        )
        chosen = np.array(list(itertools.combinations_with_replacement(range(len(one)), many)))
        blocks.append(one[chosen])
    found: Ints = blocks[0]
    for block in blocks[1:]:
        left, right = np.repeat(np.arange(len(found)), len(block)), np.tile(np.arange(len(block)), len(found))
        found = np.concatenate([found[left], block[right]], axis=1)
    return found


def _ordered(sea: Sea, used: Ints, chosen: Ints) -> tuple[tuple[Ints, Ints], Ints]:
    """The same with interchangeable islands in the order of (used, chosen), and where each of them went."""
    base = int(sea.sizes.max()) + 1
    key = (sea.group * base + used) * base + chosen
    order = np.argsort(key, axis=1, kind="stable")
    return (np.take_along_axis(used, order, 1), np.take_along_axis(chosen, order, 1)), np.argsort(order, axis=1)


def _code(sea: Sea, *columns: Ints) -> Ints:
    """One number for each row."""
    base = int(sea.sizes.max()) + 1
    found = np.zeros(len(columns[0]), np.int64)
    for column in np.concatenate(columns, axis=1).T:
        found = found * base + column
    return found


def links_of(sea: Sea, a: Ints, b: Ints, replicas: Replicas, microbatches: int) -> Links:
    """From stages a to stages b, [row, island] devices each."""
    near = ((a > 0) | (b > 0)).sum(axis=1) == 1
    return (_links_split if replicas == "split" else _links_whole)(sea, a, b, near, microbatches)


def _links_split(sea: Sea, a: Ints, b: Ints, near: Bools, microbatches: int) -> Links:
    """Each replica of a sends a part to each of b: what is made outside of an island and used inside enters it."""
    r, k = a.sum(axis=1), b.sum(axis=1)
    made, needed = a / r[:, None], b / k[:, None]
    out, into = made * (1 - needed), needed * (1 - made)
    wide = np.where(near, sea.near[r + k], np.minimum(sea.far[r + k], sea.across_of(a, b)))
    device = np.minimum(r, k) * np.where(near, sea.device_near, sea.device)
    with np.errstate(divide="ignore"):
        pair = np.maximum(1 / (r * k * wide), 1 / device)
    through = np.maximum(pair, (np.maximum(out, into) / sea.capacity).max(axis=1))
    delay = np.where(near, sea.delay_near, sea.delay_across)
    load = through * (microbatches if sea.shared else 1)
    if not sea.together:  # a part may be the first one there, and the last one back
        two = min(2, len(sea.far) - 1)
        through = 1 / (r * k * np.where(near, sea.near[two], sea.far[two]))
    return Links(through, delay, load, microbatches * out / sea.capacity, microbatches * into / sea.capacity)


def _links_whole(sea: Sea, a: Ints, b: Ints, near: Bools, microbatches: int) -> Links:
    """Microbatch m goes from replica m mod r to m mod k, which may be in the same island unless there is none."""
    (least_a, most_a), (least_b, most_b) = _microbatches(a, microbatches), _microbatches(b, microbatches)
    out, into = np.maximum(0, least_a - most_b), np.maximum(0, least_b - most_a)
    parted = ~((a > 0) & (b > 0)).any(axis=1)
    two = min(2, len(sea.far) - 1)
    wide = np.where(near, sea.near[two], np.where(parted, sea.across_of(a, b), sea.far[two]))
    nearest = min(sea.delay_near, sea.delay_across)
    delay = np.where(near, sea.delay_near, np.where(parted, sea.delay_across, nearest))
    turns = np.maximum(-(-microbatches // a.sum(axis=1)), -(-microbatches // b.sum(axis=1)))
    with np.errstate(divide="ignore"):
        through = 1 / wide
    load = np.maximum(turns / np.where(near, sea.device_near, sea.device), through)
    load = np.maximum(load, (np.maximum(out, into) / sea.capacity).max(axis=1))
    return Links(through, delay, load, out / sea.capacity, into / sea.capacity)


def _microbatches(stage: Ints, microbatches: int) -> tuple[Ints, Ints]:
    """[row, island]: how many microbatches its part of a stage takes at least, and at most, if it takes them whole."""
    k = stage.sum(axis=1)[:, None]
    low, high = microbatches // k, -(-microbatches // k)
    return (
        np.maximum(stage * low, microbatches - (k - stage) * high),
        np.minimum(stage * high, microbatches - (k - stage) * low),
    )


def _rings(sea: Sea, stage: Ints) -> tuple[Floats, Floats, Floats]:
    """Seconds per byte of parameters of an all-reduce, its delays, and what the islands carry."""
    k = stage.sum(axis=1)
    touched = stage > 0
    near = touched.sum(axis=1) == 1
    narrow = np.where(touched, np.minimum(sea.capacity, sea.across), np.inf).min(axis=1)
    wide = np.where(near, sea.near[np.minimum(k, len(sea.near) - 1)], np.minimum(sea.far[k], narrow))
    part = 2 * (k - 1) / k
    with np.errstate(divide="ignore", invalid="ignore"):
        ring = np.where(k > 1, part / wide, 0.0)
    delay = np.where(near, sea.delay_near, sea.delay_across)
    turns = 2 * (k - 1) * np.where(k > 1, delay, 0.0)
    return ring, turns, np.where(touched & ~near[:, None], part[:, None] / sea.capacity, 0.0)
