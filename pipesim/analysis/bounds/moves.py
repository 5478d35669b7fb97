"""Where stages can be, and what it costs to send a microbatch on: states, places, and the moves between them.

    state       devices used so far in each island, and where the last stage is
    place       devices used so far, and where the next stage will be
    move        from a state to a place: a channel between two stages

Here a stage is so many devices in each island, which is exact and only for few of them. Islands of equal size and
capacity are interchangeable, so only one of all their orders is kept. `forms` is coarser. B5 to B14 are inequalities of
docs/certificate.md.
"""

import functools
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.islands import IslandModel
from pipesim.base.arrays import Bools, Floats, Ints, row_codes
from pipesim.core.plan import Replicas


class ChannelColumns(NamedTuple):
    """Channels, one a row: seconds per byte of a cut."""

    forward: Floats  # B6: a microbatch, until each replica of the next stage has its part
    backward: Floats  # B6: a microbatch on its way back, until each replica of the stage before has its part
    forward_min: Floats  # B7: forward, what may be late alone: one replica's part, or all that an island gets
    backward_min: Floats  # B7: and backward
    round_trip: Floats  # B9: a microbatch both ways, for the replica of the next stage that has most before it
    delay: Floats  # B5: seconds before the first byte, for the replica that has the least
    load: Floats  # B8: all microbatches, one way, one after the other
    forward_load: Floats  # B10, B12: [row, island]: all microbatches' forwards, on what leaves the island
    backward_load: Floats  # [row, island]: and their backwards

    def columns(self) -> tuple[Floats, Floats]:
        """The same as columns `channel` and `loads` of `Moves`."""
        return np.column_stack(self[:7]), np.stack(self[7:], axis=2)


class Moves(NamedTuple):
    """Moves by state, then what is known of a place. Seconds per byte of a cut, or of parameters."""

    first: Ints  # [state]: its first move
    stop: Ints  # [state]: the move after its last
    shift: Ints  # [state]: what its moves' places are counted from
    place: Ints  # [move]
    channel: Floats  # [move, column]: forward to load of `ChannelColumns`
    loads: Floats  # [move, island, way]: forward_load and backward_load of `ChannelColumns`
    size: Ints  # [place]: devices of the stage
    can_be_first: Bools  # [place]: whether it can be the first stage's
    next_state: Ints  # [place]: the state when the stage is there
    left: Ints  # [place]: devices for all later stages; -1: there are not so many
    ring: Floats  # B13: [place]: the all-reduce
    ring_latency: Floats  # B13: [place]: its delays, in seconds
    ring_load: Floats  # B14: [place, island]: the all-reduce, on what leaves the island
    island_at_place: Ints  # [move, island]: the same island's number in the place
    island_at_state: Ints  # [place, island]: and in the state after the place


def by_island(islands: IslandModel, replicas: Replicas, microbatches: int) -> Moves:
    """Every way to have devices used, a stage on some of them, and a next stage on some of the others."""
    return in_blocks(islands, replicas, microbatches, 1)[0]


def in_blocks(islands: IslandModel, replicas: Replicas, microbatches: int, block: int) -> tuple[Moves, Ints]:
    """The same with devices only taken in blocks of so many of an island; with the devices of [place, island]."""
    coarse = islands._replace(sizes=islands.sizes // block)
    ways = _ways(tuple(coarse.sizes.tolist()), tuple(coarse.group.tolist()))
    one_of_each = block * ways.last[ways.different], block * ways.following[ways.different]
    links = _of_rows(links_of(islands, *one_of_each, replicas, microbatches), ways.row)
    kept, links = in_order(links, ways.state, np.arange(len(ways.state)))
    chosen, states = block * ways.chosen, np.arange(ways.states)
    first, stop = (np.searchsorted(ways.state[kept], states, side=side).astype(np.int64) for side in ("left", "right"))
    moves = Moves(
        first,
        stop,
        np.zeros(ways.states, np.int64),
        ways.place[kept],
        *links.columns(),
        chosen.sum(axis=1),
        ways.can_be_first,
        ways.next_state,
        block * ways.left,
        *rings_of(islands, chosen),
        ways.island_at_place[kept],
        ways.island_at_state,
    )
    return moves, chosen


class _Ways(NamedTuple):
    """All moves between stages, and all places, whatever links there are."""

    state: Ints  # [move]: the number of the state that it is from
    place: Ints  # [move]: the number of the place that it is to
    last: Ints  # [move, island]: devices of the stage before
    following: Ints  # [move, island]: and of the stage after
    different: Ints  # moves that differ in these two
    row: Ints  # [move]: which of them it is like
    island_at_place: Ints  # [move, island]
    chosen: Ints  # [place, island]
    can_be_first: Bools  # [place]
    next_state: Ints  # [place]
    left: Ints  # [place]
    island_at_state: Ints  # [place, island]
    states: int


class _Sizes(NamedTuple):
    """Devices of each island, and which group of interchangeable islands it is of: they are beside each other."""

    sizes: Ints
    group: Ints

    @property
    def groups(self) -> list[tuple[int, int]]:
        """The size of the islands of each group, and how many they are."""
        _, first, count = np.unique(self.group, return_index=True, return_counts=True)
        return list(zip(self.sizes[first].tolist(), count.tolist(), strict=True))


@functools.lru_cache(maxsize=2)  # up to 50 MB each; the same for both kinds of replicas, for all models on a cluster
def _ways(sizes: tuple[int, ...], group: tuple[int, ...]) -> _Ways:
    """Between islands of these sizes and groups."""
    coarse = _Sizes(np.array(sizes, np.int64), np.array(group, np.int64))
    used, last, following = _triples(coarse).transpose(2, 0, 1)  # [row, island] each
    (used_next, chosen_next), island_at_place = _ordered(coarse, used, following)
    state, place = _code(coarse, used, last), _code(coarse, used_next, chosen_next)
    some = np.flatnonzero(following.any(axis=1))
    places, at = np.unique(place[some], return_index=True)
    before, chosen = used_next[some[at]], chosen_next[some[at]]
    (after, stage), island_at_state = _ordered(coarse, before + chosen, chosen)
    next_state = _code(coarse, after, stage)
    states = np.unique(next_state)
    keep = np.flatnonzero(last.any(axis=1) & following.any(axis=1) & np.isin(state, states))
    _, different, row = np.unique(row_codes(*last[keep].T, *following[keep].T), return_index=True, return_inverse=True)
    return _Ways(
        np.searchsorted(states, state[keep]),
        np.searchsorted(places, place[keep]).astype(np.int64),
        last[keep],
        following[keep],
        different,
        row,
        island_at_place[keep],
        chosen,
        before.sum(axis=1) == 0,
        np.searchsorted(states, next_state).astype(np.int64),
        coarse.sizes.sum() - after.sum(axis=1),
        island_at_state,
        len(states),
    )


def in_order(links: ChannelColumns, state: Ints, rows: Ints) -> tuple[Ints, ChannelColumns]:
    """Those that have a way, by their state and then by their load; what else there is of them, and the links."""
    order = np.lexsort((links.load, state))
    order = order[np.isfinite(links.load[order])]
    return rows[order], ChannelColumns(*(column[order] for column in links))


def _triples(islands: _Sizes) -> Ints:
    """[row, island, (used, of the last stage, of the next)]: one of all orders of interchangeable islands.

    Islands with as many devices used, and as many of the last stage, may have carried more or less: which of them the
    next stage takes makes a difference, unless they are all free.
    """
    found = np.zeros((1, 0, 3), np.int64)
    for size, many in islands.groups:
        one = np.array(
            [(u, a, b) for u in range(size + 1) for a in range(u + 1) for b in range(size - u + 1)], np.int64
        )
        pair = one[:, 0] * (size + 1) + one[:, 1]
        least = np.where(pair == 0, np.arange(len(one)), np.searchsorted(pair, pair))  # what the island after has
        chosen = np.arange(len(one))[:, None]
        for _ in range(many - 1):
            begin = least[chosen[:, -1]]
            counts = len(one) - begin
            after = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - begin, counts)
            chosen = np.column_stack([np.repeat(chosen, counts, axis=0), after])
        left, right = np.repeat(np.arange(len(found)), len(chosen)), np.tile(np.arange(len(chosen)), len(found))
        found = np.concatenate([found[left], one[chosen][right]], axis=1)
    return found


def _ordered(islands: _Sizes, used: Ints, chosen: Ints) -> tuple[tuple[Ints, Ints], Ints]:
    """The same with interchangeable islands in the order of (used, chosen), and where each of them went."""
    base = int(islands.sizes.max()) + 1
    key = (islands.group * base + used) * base + chosen
    order = np.argsort(key, axis=1, kind="stable")
    return (np.take_along_axis(used, order, 1), np.take_along_axis(chosen, order, 1)), np.argsort(order, axis=1)


def _code(islands: _Sizes, *columns: Ints) -> Ints:
    """One number for each row."""
    base = int(islands.sizes.max()) + 1
    found = np.zeros(len(columns[0]), np.int64)
    for column in np.concatenate(columns, axis=1).T:
        found = found * base + column
    return found


def links_of_each(islands: IslandModel, a: Ints, b: Ints, replicas: Replicas, microbatches: int) -> ChannelColumns:
    """As `links_of`, computed once for rows that are equal: what is used or free beside them makes no difference."""
    _, first, row = np.unique(row_codes(*a.T, *b.T), return_index=True, return_inverse=True)
    return _of_rows(links_of(islands, a[first], b[first], replicas, microbatches), row)


def _of_rows(links: ChannelColumns, row: Ints) -> ChannelColumns:
    return ChannelColumns(*(column[row] for column in links))


def links_of(islands: IslandModel, a: Ints, b: Ints, replicas: Replicas, microbatches: int) -> ChannelColumns:
    """From stages a to stages b, [row, island] devices each."""
    near = ((a > 0) | (b > 0)).sum(axis=1) == 1
    return (_links_split if replicas == "split" else _links_whole)(islands, a, b, near, microbatches)


def _links_split(islands: IslandModel, a: Ints, b: Ints, near: Bools, microbatches: int) -> ChannelColumns:
    """Each replica of a sends a part to each of b: what is produced outside an island and used inside enters it."""
    r, k = a.sum(axis=1), b.sum(axis=1)
    made, needed = a / r[:, None], b / k[:, None]
    out, into = made * (1 - needed), needed * (1 - made)
    wide = np.where(near, islands.near[r + k], np.minimum(islands.far[r + k], islands.across_of(a, b)))
    device = np.minimum(r, k) * np.where(near, islands.device_near, islands.device)
    with np.errstate(divide="ignore"):
        pair = np.maximum(1 / (r * k * wide), 1 / device)
    whole = np.maximum(pair, _over(np.maximum(out, into), islands.capacity).max(axis=1))  # B8
    ends = _arrivals(islands, a, b, near)
    forward, backward = ends.min(axis=1), _arrivals(islands, b, a, near).min(axis=1)  # B6
    two = min(2, len(islands.far) - 1)
    parted = ~((a > 0) & (b > 0)).any(axis=1)
    widest = np.where(near, islands.near[two], np.where(parted, islands.across_of(a, b), islands.far[two]))
    with np.errstate(divide="ignore"):
        part = 1 / (r * k * widest)
    forward_min = np.where(_as_one(islands, a), forward, part)  # B7
    backward_min = np.where(_as_one(islands, b), backward, part)
    round_trip = np.maximum(2 * np.where(b > 0, ends, 0.0).max(axis=1), backward_min + whole)  # B9
    nearest = min(islands.delay_near, islands.delay_across)
    delay = np.where(near, islands.delay_near, np.where(parted, islands.delay_across, nearest))  # B5
    load = whole * (microbatches if islands.shared else 1)  # B8
    out, into = (microbatches * _over(share, islands.capacity) for share in (out, into))  # B10
    return ChannelColumns(forward, backward, forward_min, backward_min, round_trip, delay, load, out, into)


def _over(share: Floats, capacity: Floats) -> Floats:
    """Seconds per byte: 0 where there are no bytes, infinite where there are some and no way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(share > 0, share / capacity, 0.0)
    return found


def _as_one(islands: IslandModel, stage: Ints) -> Bools:
    """[row]: whether all replicas do everything at the same time, so that none is late alone."""
    one: Bools = (stage.sum(axis=1) == 1) | ((stage > 0) <= islands.together).all(axis=1) & (
        (stage > 0).sum(axis=1) == 1
    )
    return one


def _arrivals(islands: IslandModel, a: Ints, b: Ints, near: Bools) -> Floats:
    """[row, island]: until the replicas of b there have their parts of a microbatch that those of a begin to send.

    Infinite where there are none (B6). A replica waits for one part from each of a. Where the devices of an island can
    change places they have theirs at the same time, so each of them waits for what all of them get.
    """
    r, k = a.sum(axis=1)[:, None], b.sum(axis=1)[:, None]
    made, needed = a / r, b / k
    two = min(2, len(islands.far) - 1)
    beside = np.where((a > 0)[:, None, :] & ~np.eye(len(islands.sizes), dtype=bool), islands.across, np.inf).min(axis=2)
    with np.errstate(divide="ignore"):
        part = 1 / (r * k * np.where(a < r, np.minimum(islands.across, beside), islands.near[two]))
    device = np.where(near, islands.device_near, islands.device)[:, None]
    found = np.maximum(part, 1 / (k * device)) if islands.in_step else part
    if islands.together.any():
        narrow = np.minimum(islands.capacity[:, None], islands.capacity[None, :])
        between = _over(made[:, :, None], np.where(np.eye(len(islands.sizes), dtype=bool), np.inf, narrow))
        most = np.maximum(between.max(axis=1), _over(1 - made, islands.capacity))
        with np.errstate(invalid="ignore"):  # where b is not, it needs nothing
            every = needed * np.maximum(most, 1 / (r * device))
        found = np.where(islands.together, np.maximum(found, every), found)
    return np.where(b > 0, found, np.inf)


def _links_whole(islands: IslandModel, a: Ints, b: Ints, near: Bools, microbatches: int) -> ChannelColumns:
    """Microbatch m goes from replica m mod r to m mod k, which may be in the same island unless there is none."""
    (least_a, most_a), (least_b, most_b) = _microbatches(a, microbatches), _microbatches(b, microbatches)
    inside = np.minimum(np.minimum(most_a, most_b), _inside(a, b, microbatches))  # B12
    out, into = np.maximum(0, least_a - inside), np.maximum(0, least_b - inside)
    parted = ~((a > 0) & (b > 0)).any(axis=1)
    two = min(2, len(islands.far) - 1)
    wide = np.where(near, islands.near[two], np.where(parted, islands.across_of(a, b), islands.far[two]))
    nearest = min(islands.delay_near, islands.delay_across)
    delay = np.where(near, islands.delay_near, np.where(parted, islands.delay_across, nearest))  # B5
    rounds = np.maximum(-(-microbatches // a.sum(axis=1)), -(-microbatches // b.sum(axis=1)))
    with np.errstate(divide="ignore"):
        through = 1 / wide
    load = np.maximum(rounds / np.where(near, islands.device_near, islands.device), through)  # B11
    load = np.maximum(load, _over(np.maximum(out, into), islands.capacity).max(axis=1))  # B11, B12
    out, into = (_over(count, islands.capacity) for count in (out, into))  # B12
    return ChannelColumns(through, through, through, through, 2 * through, delay, load, out, into)  # B11


def _microbatches(stage: Ints, microbatches: int) -> tuple[Ints, Ints]:
    """[row, island]: how many microbatches its part of a stage takes at least, and at most, if it takes them whole."""
    k = stage.sum(axis=1)[:, None]
    low, high = microbatches // k, -(-microbatches // k)
    return (
        np.maximum(stage * low, microbatches - (k - stage) * high),
        np.minimum(stage * high, microbatches - (k - stage) * low),
    )


def _inside(a: Ints, b: Ints, microbatches: int) -> Ints:
    """[row, island]: how many microbatches both stages take there at most.

    Replicas i and j share those that are i mod r and j mod k. Only pairs that agree modulo the greatest common divisor
    do, all as many but for one; most are inside where replicas of one class are together.
    """
    r, k = a.sum(axis=1)[:, None], b.sum(axis=1)[:, None]
    classes = np.gcd(r, k)
    (full_a, some_a), (full_b, some_b) = np.divmod(a, r // classes), np.divmod(b, k // classes)
    pairs = np.minimum(full_a, full_b) * (r // classes) * (k // classes)
    pairs += np.where(full_a < full_b, some_a * (k // classes), 0) + np.where(
        full_b < full_a, some_b * (r // classes), 0
    )
    pairs += np.where(full_a == full_b, some_a * some_b, 0)
    found: Ints = pairs * -(-microbatches // (r * k // classes))
    return found


def rings_of(islands: IslandModel, stage: Ints) -> tuple[Floats, Floats, Floats]:
    """Seconds per byte of parameters of an all-reduce, its delays, and what the islands carry."""
    k = stage.sum(axis=1)
    touched = stage > 0
    near = touched.sum(axis=1) == 1
    narrow = np.where(touched, np.minimum(islands.capacity, islands.across), np.inf).min(axis=1)
    wide = np.where(near, islands.ring_near[k], np.minimum(islands.ring_far[k], narrow))  # B13
    part = 2 * (k - 1) / k
    with np.errstate(divide="ignore", invalid="ignore"):
        ring = np.where(k > 1, part / wide, 0.0)
    nearest = min(islands.delay_near, islands.delay_across)
    far = np.where(narrow <= islands.ring_far[k], islands.delay_across, nearest)  # of the edge that is the narrowest
    delay = np.where(near, islands.delay_near, far)
    latency = 2 * (k - 1) * np.where(k > 1, delay, 0.0)
    crossing = np.where(touched & ~near[:, None], part[:, None], 0.0)  # B14; without a way there is no ring
    return ring, latency, np.where(islands.capacity > 0, _over(crossing, islands.capacity), 0.0)
