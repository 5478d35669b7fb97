"""On which devices the stages of a plan are best, where no two devices are alike: devices change places in pairs.

A stage wants a ring of wide links for its all-reduce, and wide links to its neighbours. Placements are compared by the
inequalities of the bound, on the links that the messages really take:

    T = max over stages n of  M (F_n + B_n) + max( head_n , forward part of head_n + A_n )
        and, over channels,   M cF_n + head_n + F_n+1 + B_n+1       and, over links, seconds of all they carry
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.layer_sums import LayerSums
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import compiled
from pipesim.core.cluster import Cluster
from pipesim.core.plan import Stage
from pipesim.planners.spp.contention import Routes

STARTS = 24  # orders of devices that the search begins with: the plan's own, and drawn ones
KEPT = 3  # of the orders it ends with
CLOSE = 0.03  # weight of the mean load of links: of placements with nearly the same T, the one that loads links less


class StageLoads(NamedTuple):
    """What stages compute and send, one a row."""

    size: Ints  # devices
    work: Floats  # seconds of all microbatches, both ways
    one: Floats  # seconds of one microbatch, both ways
    ring: Floats  # bytes that each edge of the all-reduce carries
    cut: Floats  # bytes of one microbatch from the stage before, one way


def best_placements(
    stages: Sequence[Stage], cluster: Cluster, routes: Routes, sums: LayerSums, seed: int = 0
) -> Iterator[tuple[Stage, ...]]:
    """The same stages with each on the devices that suit it, best first; devices that are idle may take part."""
    loads, microbatches = loads_of(stages, sums), float(sums.most[1])
    own = [cluster.index[name] for stage in stages for name in stage.devices]
    idle = sorted(set(range(len(cluster.devices))) - set(own))
    rng = np.random.default_rng(seed)
    starts = [np.array([*own, *idle]), *(rng.permutation(len(cluster.devices)) for _ in range(STARTS - 1))]
    orders = np.stack(starts)
    costs = compiled(improve_each)(orders, loads, routes, microbatches)
    first = np.cumsum(loads.size) - loads.size
    for n in np.argsort(costs, kind="stable")[:KEPT].tolist():
        yield tuple(
            Stage(stage.start, stage.stop, tuple(cluster.devices[i].name for i in orders[n][at : at + size]))
            for stage, at, size in zip(stages, first.tolist(), loads.size.tolist(), strict=True)
        )


def loads_of(stages: Sequence[Stage], sums: LayerSums) -> StageLoads:
    """What these stages compute and send."""
    size = np.array([len(stage.devices) for stage in stages])
    begin, end = np.array([stage.start for stage in stages]), np.array([stage.stop for stage in stages])
    return StageLoads(
        size,
        sums.work[size, end] - sums.work[size, begin],
        sums.both[size, end] - sums.both[size, begin],
        2 * (size - 1) / size * (sums.parameters[end] - sums.parameters[begin]),
        sums.cut[begin],
    )


def improve_each(orders: Ints, loads: StageLoads, routes: Routes, microbatches: float) -> Floats:
    """The cost of each row of `orders`, after `improve_by_swaps`."""
    costs = np.zeros(len(orders))
    for n in range(len(orders)):
        costs[n] = improve_by_swaps(orders[n], loads, routes, microbatches)
    return costs


@compiled
def improve_by_swaps(order: Ints, loads: StageLoads, routes: Routes, microbatches: float) -> float:
    """Two devices change places, in `order` itself, as long as that helps; what the stages then cost."""
    used, count = 0, len(order)
    for size in loads.size:
        used += size
    busy = np.zeros((2, len(routes.pace)))
    best, i, j, since = np.inf, 0, 0, 0
    while since <= count * used:
        order[i], order[j] = order[j], order[i]
        cost = placement_cost(order, loads, routes, microbatches, busy)
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


@compiled
def placement_cost(order: Ints, loads: StageLoads, routes: Routes, microbatches: float, busy: Floats) -> float:
    """T of the inequalities above with the stages on these devices, one after the other; and a little for all links.

    carried    seconds for which one microbatch, or one all-reduce, keeps each link busy; kept in busy[0]
    total      the same for all messages; kept in busy[1]
    """
    carried, total = busy[0], busy[1]
    total.fill(0.0)
    cost, head, at = 0.0, 0.0, 0
    for n in range(len(loads.size)):
        k = loads.size[n]
        if n > 0:
            r = loads.size[n - 1]
            for way in range(2):
                carried.fill(0.0)
                slowest, part = 0.0, loads.cut[n] / (r * k)
                for a in range(at - r, at):
                    for b in range(at, at + k):
                        x, y = (order[a], order[b]) if way == 0 else (order[b], order[a])
                        slowest = max(slowest, send(x, y, part, routes, carried))
                add(total, carried, microbatches)
                cost = max(cost, head + microbatches * slowest + loads.one[n])
                head += slowest
        reduce = 0.0
        if k > 1:
            carried.fill(0.0)
            for a in range(k):
                x, y = order[at + a], order[at + (a + 1) % k]
                reduce = max(reduce, send(x, y, loads.ring[n], routes, carried))
            add(total, carried, 1.0)
        cost = max(cost, loads.work[n] + max(head, head / 3 + reduce))
        head += loads.one[n]
        at += k
    seconds = 0.0
    for link in range(len(total)):
        cost = max(cost, total[link])
        seconds += total[link]
    return cost + CLOSE * seconds / at


@compiled
def add(total: Floats, carried: Floats, times: float) -> None:
    """Add as many times what links have carried."""
    for link in range(len(total)):
        total[link] += times * carried[link]


@compiled
def send(x: int, y: int, size: float, routes: Routes, carried: Floats) -> float:
    """Add the seconds for which so many bytes from device x to y keep links busy; the most of any link they take."""
    most = 0.0
    for hop in range(routes.media.shape[2]):
        link = routes.media[x, y, hop]
        if link >= 0:
            carried[link] += size * routes.pace[link]
            most = max(most, carried[link])
    return most
