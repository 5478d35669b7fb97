"""Which device does what, where no two are alike: the stages of a plan keep their sizes, devices change places.

A stage wants a ring of wide links for its all-reduce, and wide links to its neighbours. How good a place is, is told by
the bound's inequalities on the links that the messages really take:

    T = max over stages n of  M (F_n + B_n) + max( head_n , forward part of head_n + A_n )
        and, over channels,   M cF_n + head_n + F_n+1 + B_n+1       and, over links, seconds of all they carry
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.tables import Tables
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import compiled
from pipesim.core.cluster import Cluster
from pipesim.core.plan import Stage

STARTS = 24  # orders that the search begins with: the plan's own, and drawn ones
KEPT = 3  # of the places it ends in
CLOSE = 0.03  # what all messages on all links count where the slowest are as slow


class Roads(NamedTuple):
    """The links that messages take."""

    media: Ints  # [from, to, hop]: which, -1 after the last
    pace: Floats  # [medium]: seconds per byte


def roads_of(cluster: Cluster) -> Roads:
    """The routes between all pairs of devices."""
    names = [device.name for device in cluster.devices]
    routes = {(a, b): cluster.route(x, y).media for a, x in enumerate(names) for b, y in enumerate(names) if a != b}
    media = np.full((len(names), len(names), max(map(len, routes.values()), default=1)), -1)
    for (a, b), route in routes.items():
        media[a, b, : len(route)] = route
    return Roads(media, 1 / np.array(cluster.media_bandwidth, dtype=float))


def settled(
    stages: Sequence[Stage], cluster: Cluster, roads: Roads, tables: Tables, seed: int = 0
) -> Iterator[tuple[Stage, ...]]:
    """The same stages with each on the devices that suit it, best first; devices that are idle may take part."""
    sizes = np.array([len(stage.devices) for stage in stages])
    own = [cluster.index[name] for stage in stages for name in stage.devices]
    idle = sorted(set(range(len(cluster.devices))) - set(own))
    begin, end = np.array([stage.start for stage in stages]), np.array([stage.stop for stage in stages])
    work = tables.busy[sizes, end] - tables.busy[sizes, begin]
    one = tables.passage[sizes, end] - tables.passage[sizes, begin]
    ring = 2 * (sizes - 1) / sizes * (tables.parameters[end] - tables.parameters[begin])
    rng = np.random.default_rng(seed)
    orders = [np.array([*own, *idle]), *(rng.permutation(len(cluster.devices)) for _ in range(STARTS - 1))]
    kernel, cut, microbatches = compiled(swapped), tables.cut[begin], float(tables.passing[1])
    tried = [
        (float(kernel(order, sizes, work, one, ring, cut, microbatches, *roads)), n) for n, order in enumerate(orders)
    ]
    first = np.cumsum(sizes) - sizes
    for _, n in sorted(tried)[:KEPT]:
        yield tuple(
            Stage(stage.start, stage.stop, tuple(cluster.devices[i].name for i in orders[n][at : at + size]))
            for stage, at, size in zip(stages, first.tolist(), sizes.tolist(), strict=True)
        )


def swapped(  # noqa: PLR0917, C901, PLR0912 - kernels take plain values, and call no others
    order: Ints, sizes: Ints, work: Floats, one: Floats, ring: Floats, cut: Floats, microbatches: float,
    media: Ints, pace: Floats,
) -> float:  # fmt: skip
    """Two devices change places, in `order` itself, as long as that helps; what the stages then cost."""
    stages, used, count, hops = len(sizes), sizes.sum(), len(order), media.shape[2]
    carried, total = np.zeros(len(pace)), np.zeros(len(pace))
    best, i, j, since = np.inf, 0, 0, 0
    while since <= count * used:
        order[i], order[j] = order[j], order[i]
        total[:] = 0.0
        cost, head, at = 0.0, 0.0, 0
        for n in range(stages):
            k = sizes[n]
            if n > 0:
                r = sizes[n - 1]
                for way in range(2):
                    carried[:] = 0.0
                    slowest = 0.0
                    for a in range(at - r, at):
                        for b in range(at, at + k):
                            x, y = (order[a], order[b]) if way == 0 else (order[b], order[a])
                            for hop in range(hops):
                                link = media[x, y, hop]
                                if link >= 0:
                                    carried[link] += cut[n] / (r * k) * pace[link]
                                    slowest = max(slowest, carried[link])
                    total += microbatches * carried
                    cost = max(cost, head + microbatches * slowest + one[n])
                    head += slowest
            reduce = 0.0
            if k > 1:
                carried[:] = 0.0
                for a in range(k):
                    x, y = order[at + a], order[at + (a + 1) % k]
                    for hop in range(hops):
                        link = media[x, y, hop]
                        if link >= 0:
                            carried[link] += ring[n] * pace[link]
                            reduce = max(reduce, carried[link])
                total += carried
            cost = max(cost, work[n] + max(head, head / 3 + reduce))
            head += one[n]
            at += k
        cost = max(cost, total.max()) + CLOSE * total.sum() / used
        if cost < best:
            best, since = cost, 0
        else:
            order[i], order[j] = order[j], order[i]
            since += 1
        j += 1
        if j == count:
            i = (i + 1) % used
            j = i + 1 if i + 1 < count else 0
    return best
