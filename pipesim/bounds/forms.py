"""Moves for many islands: taken for equal, the largest and widest, with only the number of used devices counted.

`by_shape` knows how many devices of a stage are in each island, but not which islands those are: two stages that
follow each other lie upon one another as suits them best. `by_form` only knows whether a stage is in one island or in
several. A stage in one island also says how many devices are free there: what follows in the same island takes these.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.bounds.islands import Sea
from pipesim.bounds.moves import Links, Moves, links_of
from pipesim.kernels import compiled
from pipesim.plan import Replicas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Part(NamedTuple):
    """Where a stage is: its devices, and those free in its island; free = -1 if it is in several."""

    size: int
    free: int

    @property
    def alone(self) -> bool:
        """Whether it is in one island."""
        return self.free >= 0


class Stages(NamedTuple):
    """What a stage can be like, one a row."""

    size: Ints  # devices
    free: Ints  # devices that others may have in its island; -1: it is in several
    touched: Ints  # islands


def by_shape(sea: Sea, replicas: Replicas, microbatches: int) -> Moves:
    """Stages of so many devices in each island, largest part first."""
    most, islands = int(sea.sizes.max()), len(sea.sizes)
    alone = _alone(most)
    parts = itertools.combinations_with_replacement(range(most, -1, -1), islands)
    several = [part for part in parts if part[1] and sum(part) <= sea.sizes.sum()]
    shape = np.array([(k, *[0] * (islands - 1)) for k, _ in alone] + several, np.int64)
    free = np.array([free for _, free in alone] + [-1] * len(several), np.int64)
    links = np.full((len(shape), len(shape), 4), np.inf)
    widest = sea.widest()
    for order in itertools.permutations(range(islands)):
        a, b = compiled(fitting)(shape, shape[:, order], free, most, int(sea.sizes.sum()))
        found = links_of(widest, shape[a], shape[b][:, order], replicas, microbatches)
        crossing = found.ahead.sum(axis=1) * float(sea.capacity.max() / sea.capacity.sum())  # as many go back
        columns = found.through, found.start, found.load, crossing
        links[a, b] = np.minimum(links[a, b], np.stack(columns, axis=1))
    stages = Stages(shape.sum(axis=1), free, (shape > 0).sum(axis=1))
    return _counted(sea, stages, links)


def fitting(shape: Ints, turned: Ints, free: Ints, most: int, devices: int) -> tuple[Ints, Ints]:
    """Which stage can follow which, when the second one's islands are turned like this."""
    first, second = [], []
    for i in range(len(shape)):
        for j in range(len(shape)):
            fits = shape[i].sum() + turned[j].sum() <= devices
            for g in range(shape.shape[1]):
                a, b = shape[i, g], turned[j, g]
                room = most - a - b
                if free[i] >= 0 and a > 0:
                    room = free[i] - b
                fits = fits and (b == 0 or room >= 0) and (b == 0 or free[j] < 0 or free[j] == room)
            if fits:
                first.append(i)
                second.append(j)
    return np.array(first), np.array(second)


def by_form(sea: Sea, replicas: Replicas, microbatches: int) -> Moves:
    """Stages of so many devices, in one island or in several."""
    alone, devices = _alone(int(sea.sizes.max())), int(sea.sizes.sum())
    several = range(2, devices + 1 if len(sea.sizes) > 1 else 0)
    size = np.array([k for k, _ in alone] + list(several), np.int64)
    free = np.array([free for _, free in alone] + [-1] * len(several), np.int64)
    touched = np.where(free >= 0, 1, np.maximum(2, -(-size // int(sea.sizes.max()))))
    pair = _split if replicas == "split" else _whole
    links = np.full((len(size), len(size), 4), np.inf)
    for i, j in zip(*np.nonzero(size[:, None] + size <= devices), strict=True):
        links[i, j] = pair(sea, Part(int(size[i]), int(free[i])), Part(int(size[j]), int(free[j])), microbatches)
    return _counted(sea, Stages(size, free, touched), links)


def _alone(most: int) -> list[tuple[int, int]]:
    return [(k, free) for k in range(1, most + 1) for free in range(most - k + 1)]


NEVER = (np.inf, np.inf, np.inf, np.inf)


def _near(a: Part, b: Part) -> bool:
    """Whether the second stage takes devices that are free in the island of the first."""
    return a.alone and b.alone and b.free == a.free - b.size


def _can_be_elsewhere(sea: Sea, b: Part) -> bool:
    return len(sea.sizes) > 1 and (not b.alone or b.free == int(sea.sizes.max()) - b.size)


def _inside(sea: Sea, a: Part, b: Part) -> int:
    """Devices of the stage that is in several islands which can be in the other one's; 0 if both are in one."""
    if a.alone and b.alone:
        return 0
    return min(a.free, b.size - 1) if a.alone else min(int(sea.sizes.max()) - b.size, a.size - 1)


def _split(sea: Sea, a: Part, b: Part, microbatches: int) -> tuple[float, ...]:
    """through, start, load and what crosses, ahead or back, for replicas that split each microbatch."""
    (r, k), turns = (a.size, b.size), microbatches if sea.shared else 1
    if _near(a, b):
        through = max(1 / (r * k * float(sea.near[r + k])), 1 / (min(r, k) * sea.device_near))
        one = through if sea.together else 1 / (r * k * float(sea.near[2]))
        return one, sea.delay_near, turns * through, 0.0
    wide = min(float(sea.far[r + k]), float(sea.across.max()))
    if not wide or not _can_be_elsewhere(sea, b):
        return NEVER
    if a.alone or b.alone:
        out = 1.0 - _inside(sea, a, b) / (k if a.alone else r)
        worst = out / float(sea.capacity.max())
    else:
        worst, out = compiled(least_crossing)(r, k, sea.sizes, sea.capacity).tolist()
    through = max(1 / (r * k * wide), 1 / (min(r, k) * sea.device), worst)
    one = through if sea.together else 1 / (r * k * float(sea.far[2]))
    return one, sea.delay_across, turns * through, microbatches * out / float(sea.capacity.sum())


def _whole(sea: Sea, a: Part, b: Part, microbatches: int) -> tuple[float, ...]:
    """The same for replicas that take whole microbatches in turn."""
    turns = max(-(-microbatches // a.size), -(-microbatches // b.size))
    if _near(a, b):
        through = 1 / float(sea.near[2])
        return through, sea.delay_near, max(through, turns / sea.device_near), 0.0
    parted = a.alone and b.alone
    wide = float(sea.across.max() if parted else sea.far[2])
    if not wide or not _can_be_elsewhere(sea, b):
        return NEVER
    through, crossing = 1 / wide, 0
    if a.alone or b.alone:
        most = -(-microbatches // (b.size if a.alone else a.size))
        crossing = max(0, microbatches - _inside(sea, a, b) * most)
    load = max(through, turns / sea.device, crossing / float(sea.capacity.max()))
    delay = sea.delay_across if parted else min(sea.delay_near, sea.delay_across)
    return through, delay, load, crossing / float(sea.capacity.sum())


def least_crossing(r: int, k: int, sizes: Ints, capacity: Floats) -> Floats:
    """Two stages of r and k devices, both in several islands: the least load of the worst island, the least crossing.

    What leaves (enters) an island is the part of each microbatch that is made (used) inside and used (made) elsewhere.
    """
    worst, stays = np.full((r + 1, k + 1), np.inf), np.full((r + 1, k + 1), -np.inf)
    worst[0, 0] = stays[0, 0] = 0.0
    for g in range(len(sizes)):
        for x in range(r, -1, -1):
            for y in range(k, -1, -1):
                least, most = np.inf, -np.inf
                for a in range(min(r - 1, sizes[g], x) + 1):
                    for b in range(min(k - 1, sizes[g] - a, y) + 1):
                        share = max(a / r * (1 - b / k), b / k * (1 - a / r)) / capacity[g]
                        least = min(least, max(worst[x - a, y - b], share))
                        most = max(most, stays[x - a, y - b] + a * b / (r * k))
                worst[x, y], stays[x, y] = least, most
    return np.array([worst[r, k], 1 - stays[r, k]])


def _counted(sea: Sea, stages: Stages, links: Floats) -> Moves:
    """Moves of how many devices are used, and what the last stage is like. What islands carry is added up over all."""
    devices, count, size = int(sea.sizes.sum()), len(stages.size), stages.size
    u, a, b = np.nonzero(
        (size[:, None] <= np.arange(devices + 1)[:, None, None])
        & (size + np.arange(devices + 1)[:, None, None] <= devices)
        & (links[..., 0] < np.inf)
    )
    order = np.lexsort((links[a, b, 2], u * count + a))
    u, a, b = (axis[order] for axis in (u, a, b))
    used, stage = np.divmod(np.arange((devices + 1) * count), count)
    after = used + size[stage]
    fits = after <= devices
    fresh = (stages.free < 0) | (stages.free == sea.sizes.max() - size)
    through, start, load, crossing = links[a, b].T.copy()
    ring, turns, circle = (column[stage] for column in _rings(sea, stages))
    return Moves(
        np.searchsorted(u * count + a, np.arange((devices + 1) * count + 1)).astype(np.int64),
        u * count + b,
        *Links(through, start, load, crossing[:, None], crossing[:, None]),
        size[stage],
        (used == 0) & fresh[stage],
        np.where(fits, after * count + stage, 0),
        np.where(fits, devices - after, 0),
        ring,
        turns,
        circle[:, None],
        np.zeros((len(u), 1), np.int64),
        np.zeros((len(used), 1), np.int64),
    )


def _rings(sea: Sea, stages: Stages) -> tuple[Any, ...]:
    """Seconds per byte of parameters of an all-reduce, its delays, and what the islands carry."""
    k, near = stages.size, stages.free >= 0
    part = 2 * (k - 1) / k
    wide = np.where(near, sea.near[k], np.minimum(sea.far[k], min(sea.capacity.max(), sea.across.max())))
    with np.errstate(divide="ignore", invalid="ignore"):
        ring = np.where(k > 1, part / wide, 0.0)
    turns = 2 * (k - 1) * np.where(k > 1, np.where(near, sea.delay_near, sea.delay_across), 0.0)
    return ring, turns, np.where(near, 0.0, stages.touched * part / float(sea.capacity.sum()))
