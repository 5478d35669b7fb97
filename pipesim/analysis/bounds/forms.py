"""Moves for many islands, treated as equal, the largest and widest, with only the number of used devices counted.

`by_shape` knows how many devices of a stage are in each island, but not how many are used there. `by_form` only knows
whether a stage is in one island or in several. A stage in one island also has how many devices are free there: what
follows in the same island takes these. docs/certificate.md has the proofs (coarser moves; B5 to B14).
"""

import itertools
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.islands import TINY, IslandModel
from pipesim.analysis.bounds.moves import ChannelColumns, Moves, in_order, links_of_each, rings_of
from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import compiled
from pipesim.core.plan import Replicas

COLUMNS = 8  # of a channel: forward to load as in `ChannelColumns`, and what crosses, either way


class StageForm(NamedTuple):
    """Where a stage is: its devices, and those free in its island; free = -1 if it is in several."""

    size: int
    free: int

    @property
    def alone(self) -> bool:
        """Whether it is in one island."""
        return self.free >= 0


class StageForms(NamedTuple):
    """Forms of stages, one a row."""

    size: Ints  # devices
    free: Ints  # devices that others may have in its island; -1: it is in several
    ring: Floats  # as in `Moves`
    ring_latency: Floats
    ring_load: Floats


def by_shape(islands: IslandModel, replicas: Replicas, microbatches: int) -> Moves:
    """Stages of so many devices in each island, largest part first."""
    most, count, widest = int(islands.sizes.max()), len(islands.sizes), islands.widest()
    alone = _alone(most)
    parts = itertools.combinations_with_replacement(range(most, -1, -1), count)
    several = [part for part in parts if part[1] and sum(part) <= islands.sizes.sum()]
    shape = np.array([(k, *[0] * (count - 1)) for k, _ in alone] + several, np.int64)
    free = np.array([free for _, free in alone] + [-1] * len(several), np.int64)
    orders = [sorted(set(itertools.permutations(row))) for row in shape.tolist()]
    which, turned = np.repeat(np.arange(len(shape)), [len(rows) for rows in orders]), np.concatenate(orders)
    a, row = np.nonzero([_fits(islands, shape[n], free[n], turned, free[which]) for n in range(len(shape))])
    links = _links_of_equal(widest, shape[a], turned[row], replicas, microbatches)
    places = np.argsort(np.argsort(-turned, axis=1, kind="stable"), axis=1)
    stages = StageForms(shape.sum(axis=1), free, *rings_of(widest, shape))
    return _counted(islands, stages, a, which[row], links, places[row])


def _links_of_equal(islands: IslandModel, a: Ints, b: Ints, replicas: Replicas, microbatches: int) -> ChannelColumns:
    """As `links_of` where all islands are equal: computed once for all orders of them."""
    order = np.argsort(a * (int(islands.sizes.max()) + 1) + b, axis=1)
    sorted_a, sorted_b = np.take_along_axis(a, order, 1), np.take_along_axis(b, order, 1)
    links = links_of_each(islands, sorted_a, sorted_b, replicas, microbatches)
    back = np.argsort(order, axis=1)
    return links._replace(
        forward_load=np.take_along_axis(links.forward_load, back, 1),
        backward_load=np.take_along_axis(links.backward_load, back, 1),
    )


def _fits(islands: IslandModel, shape: Ints, free: int, turned: Ints, frees: Ints) -> Bools:
    """[row]: whether a stage with its islands turned like this can follow one of this shape."""
    room = np.where((free >= 0) & (shape > 0), free, islands.sizes.max() - shape) - turned
    kept = ((turned == 0) | ((room >= 0) & ((frees[:, None] < 0) | (frees[:, None] == room)))).all(axis=1)
    fits: Bools = kept & (turned.sum(axis=1) + shape.sum() <= islands.sizes.sum())
    return fits


def by_form(islands: IslandModel, replicas: Replicas, microbatches: int) -> Moves:
    """Stages of so many devices, in one island or in several."""
    alone, devices = _alone(int(islands.sizes.max())), int(islands.sizes.sum())
    several = range(2, devices + 1 if len(islands.sizes) > 1 else 0)
    size = np.array([k for k, _ in alone] + list(several), np.int64)
    free = np.array([free for _, free in alone] + [-1] * len(several), np.int64)
    forms = [StageForm(int(k), int(f)) for k, f in zip(size, free, strict=True)]
    crossings = dict[tuple[int, int], list[float]]()
    links = np.full((len(size), len(size), COLUMNS), np.inf)
    for i, j in zip(*np.nonzero(size[:, None] + size <= devices), strict=True):
        if replicas == "split":
            links[i, j] = _split(islands, forms[i], forms[j], microbatches, crossings)
        else:
            links[i, j] = _whole(islands, forms[i], forms[j], microbatches)
    a, b = np.nonzero(links[..., 0] < np.inf)
    columns = list(links[a, b].T.copy())
    crossing = columns.pop()[:, None]
    return _counted(
        islands,
        StageForms(size, free, *_rings(islands, size, free >= 0)),
        a,
        b,
        ChannelColumns._make([*columns, crossing, crossing]),
        np.zeros((len(a), 1), np.int64),
    )


def _alone(most: int) -> list[tuple[int, int]]:
    return [(k, free) for k in range(1, most + 1) for free in range(most - k + 1)]


NEVER = (np.inf,) * COLUMNS


def _near(a: StageForm, b: StageForm) -> bool:
    """Whether the second stage takes devices that are free in the island of the first."""
    return a.alone and b.alone and b.free == a.free - b.size


def _can_be_elsewhere(islands: IslandModel, b: StageForm) -> bool:
    return len(islands.sizes) > 1 and (not b.alone or b.free == int(islands.sizes.max()) - b.size)


def _inside(islands: IslandModel, a: StageForm, b: StageForm) -> int:
    """Devices of the stage that is in several islands which can be in the other one's; 0 if both are in one."""
    if a.alone and b.alone:
        return 0
    return min(a.free, b.size - 1) if a.alone else min(int(islands.sizes.max()) - b.size, a.size - 1)


def _split(
    islands: IslandModel, a: StageForm, b: StageForm, microbatches: int, crossings: dict[tuple[int, int], list[float]]
) -> tuple[float, ...]:
    """The columns for replicas that split each microbatch; `crossings` has what was found for two sizes before."""
    (r, k), rounds = (a.size, b.size), microbatches if islands.shared else 1
    near, inside = _near(a, b), _inside(islands, a, b)
    if near:
        forward, backward = _arrival(islands, a, b, inside, near=near), _arrival(islands, b, a, inside, near=near)
        whole = max(1 / (r * k * float(islands.near[r + k])), 1 / (min(r, k) * islands.device_near))
        forward_min, backward_min = _lone(islands, a, b, float(islands.near[2]), forward, backward)
        return (
            forward,
            backward,
            forward_min,
            backward_min,
            backward_min + whole,
            islands.delay_near,
            rounds * whole,
            0.0,
        )
    wide = min(float(islands.far[r + k]), float(islands.across.max()))
    if not wide or not _can_be_elsewhere(islands, b):
        return NEVER
    forward, backward = _arrival(islands, a, b, inside, near=near), _arrival(islands, b, a, inside, near=near)
    if a.alone or b.alone:
        out = 1.0 - inside / (k if a.alone else r)
        worst = out / float(islands.capacity.max())
    else:
        if (sizes := (min(r, k), max(r, k))) not in crossings:
            crossings[sizes] = compiled(least_crossing)(*sizes, islands.sizes, islands.capacity).tolist()
        worst, out = crossings[sizes]
    whole = max(1 / (r * k * wide), 1 / (min(r, k) * islands.device), worst)  # B8
    crossing = microbatches * out / float(islands.capacity.sum())  # B10
    parted = inside == 0 and (a.alone or b.alone)
    delay = islands.delay_across if parted else min(islands.delay_near, islands.delay_across)
    best = float(islands.across.max()) if a.alone and b.alone else float(islands.far[2])
    forward_min, backward_min = _lone(islands, a, b, best, forward, backward)
    return forward, backward, forward_min, backward_min, backward_min + whole, delay, rounds * whole, crossing


def _lone(  # noqa: PLR0917 - columns
    islands: IslandModel, a: StageForm, b: StageForm, wide: float, forward: float, backward: float
) -> tuple[float, float]:
    """What may be late alone (B7), forward and backward, as in `moves`: one part between the widest pair, or all."""
    part = 1 / (a.size * b.size * wide)
    as_one = [stage.size == 1 or (stage.alone and bool(islands.together.all())) for stage in (a, b)]
    return forward if as_one[0] else part, backward if as_one[1] else part


def _arrival(islands: IslandModel, a: StageForm, b: StageForm, inside: int, *, near: bool) -> float:
    """Until each replica of b has its parts of a microbatch (B6), as in `moves`: in the island where that is first.

    `inside`: devices of the one that is in several islands which can be in the other one's.
    """
    r, k = a.size, b.size
    device = islands.device_near if near else islands.device
    if near:
        limits = [1 / (r * k * float(islands.near[2])), 1 / (k * device)]
        return max(*limits[: 1 + islands.in_step], 1 / (r * device) if islands.together.all() else 0.0)
    share = 1.0 if b.alone else 1 / k  # of b, in the island where that is first
    apart = 1 - inside / r if b.alone else float(a.alone and inside == 0)  # of a, elsewhere
    wide = min(float(islands.far[2]), float(islands.across.max())) if apart else float(islands.far[2])
    limits = [1 / (r * k * wide) if wide else np.inf, 1 / (k * device)]
    return max(
        *limits[: 1 + islands.in_step],
        max(share * apart / float(islands.capacity.max()), share / (r * device)) if islands.together.all() else 0.0,
    )


def _whole(islands: IslandModel, a: StageForm, b: StageForm, microbatches: int) -> tuple[float, ...]:
    """The same for replicas that take whole microbatches in turn."""
    rounds = max(-(-microbatches // a.size), -(-microbatches // b.size))
    if _near(a, b):
        through = 1 / float(islands.near[2])
        load = max(through, rounds / islands.device_near)
        return through, through, through, through, 2 * through, islands.delay_near, load, 0.0  # B11
    parted = a.alone and b.alone
    wide = float(islands.across.max() if parted else islands.far[2])
    if not wide or not _can_be_elsewhere(islands, b):
        return NEVER
    through, crossing = 1 / wide, 0.0
    if a.alone or b.alone:
        most = -(-microbatches // (b.size if a.alone else a.size))
        crossing = max(0, microbatches - _inside(islands, a, b) * most)
    least, crossing = (crossing / max(float(of), TINY) for of in (islands.capacity.max(), islands.capacity.sum()))
    load = max(through, rounds / islands.device, least)
    delay = islands.delay_across if parted else min(islands.delay_near, islands.delay_across)
    return through, through, through, through, 2 * through, delay, load, crossing  # B11, B12


def least_crossing(r: int, k: int, sizes: Ints, capacity: Floats) -> Floats:
    """Two stages of r and k devices, both in several islands: the least load of the worst island, the least crossing.

    What leaves (enters) an island is the part of each microbatch that is made (used) inside and used (made) elsewhere.
    The same for k and r: what leaves an island then enters it.
    """
    worst, stays = np.full((r + 1, k + 1), np.inf), np.full((r + 1, k + 1), -np.inf)
    worst[0, 0] = stays[0, 0] = 0.0
    later = sizes.sum()  # devices of the islands that are still to come
    for g in range(len(sizes)):
        later -= sizes[g]
        least, most = np.full((r + 1, k + 1), np.inf), np.full((r + 1, k + 1), -np.inf)
        for a in range(min(r - 1, sizes[g]) + 1):
            for b in range(min(k - 1, sizes[g] - a) + 1):
                share, inside = max(a / r * (1 - b / k), b / k * (1 - a / r)), a * b / (r * k)
                share = share / capacity[g] if capacity[g] > 0 else np.inf if share > 0 else 0.0
                for x in range(max(a, r - later), r + 1):
                    low, before = max(b, r + k - later - x), x - a  # so that the islands to come can have the rest
                    for y in range(low, k + 1):  # without branches, so that several are computed at once
                        other, kept = max(worst[before, y - b], share), stays[before, y - b] + inside
                        least[x, y], most[x, y] = min(least[x, y], other), max(most[x, y], kept)
        worst, stays = least, most
    return np.array([worst[r, k], 1 - stays[r, k]])


def _counted(  # noqa: PLR0917 - columns
    islands: IslandModel, stages: StageForms, a: Ints, b: Ints, links: ChannelColumns, turn: Ints
) -> Moves:
    """Moves of how many devices are used, and what the last stage is like, from channels between two stages."""
    devices, count, size = int(islands.sizes.sum()), len(stages.size), stages.size
    order, links = in_order(links, a, np.arange(len(a)))
    ends = np.searchsorted(a[order], np.arange(count + 1))
    used, stage = np.divmod(np.arange((devices + 1) * count), count)
    after = used + size[stage]
    fits = after <= devices
    return Moves(
        ends[stage].astype(np.int64),
        np.where(size[stage] <= used, ends[stage + 1], ends[stage]).astype(np.int64),
        used * count,
        b[order],
        *links.columns(),
        size[stage],
        (used == 0) & ((stages.free < 0) | (stages.free == islands.sizes.max() - size))[stage],
        np.where(fits, after * count + stage, 0),
        np.where(fits, devices - after, -1),
        stages.ring[stage],
        stages.ring_latency[stage],
        stages.ring_load[stage],
        turn[order],
        np.tile(np.arange(turn.shape[1]), (len(used), 1)),
    )


def _rings(islands: IslandModel, k: Ints, near: Bools) -> tuple[Floats, Floats, Floats]:
    """Seconds per byte of parameters of an all-reduce, its delays, and what the islands carry together."""
    part = 2 * (k - 1) / k
    narrow, nearest = min(islands.capacity.max(), islands.across.max()), min(islands.delay_near, islands.delay_across)
    wide = np.where(near, islands.ring_near[k], np.minimum(islands.ring_far[k], narrow))  # B13
    far = np.where(narrow <= islands.ring_far[k], islands.delay_across, nearest)  # of the edge that is the narrowest
    with np.errstate(divide="ignore", invalid="ignore"):
        ring = np.where(k > 1, part / wide, 0.0)
    delay: Floats = np.where(k > 1, np.where(near, islands.delay_near, far), 0.0)
    latency: Floats = delay * (2 * (k - 1))
    touched = np.maximum(2, -(-k // int(islands.sizes.max())))  # B14
    ring_load: Floats = np.where(near, 0.0, touched * part / max(float(islands.capacity.sum()), TINY))[:, None]
    return ring, latency, ring_load
