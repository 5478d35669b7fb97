"""Orders of devices in which neighbours are well connected: recursive minimum cuts, and clustering.

    rdo(X): if |X| = 1: X
            (P, Q) = global minimum cut of the bandwidth graph on X (Stoer-Wagner), smaller side first
            rdo(P) + rdo(Q)

Smaller side first (ties: the side with the lowest device index) is our choice: it keeps the devices of one server
together although minimum cuts often separate single ones.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats
from pipesim.base.errors import UnknownNameError, shown
from pipesim.base.kernels import compiled
from pipesim.core.cluster import Cluster
from pipesim.planners.groups import bandwidths

LITERAL = 256  # devices up to which recursive minimum cuts take about a second; above, clustering is used instead


def rdo(cluster: Cluster) -> list[int]:
    """Recursive device ordering by exact minimum cuts, at any size."""
    return by_minimum_cuts(bandwidths(cluster))


def by_minimum_cuts(weights: Floats) -> list[int]:
    """The order of devices with this bandwidth between them."""
    return _recursive(weights, compiled(minimum_cut) if len(weights) > 16 else minimum_cut)


def hierarchical(cluster: Cluster) -> list[int]:
    """Average-linkage clustering: repeatedly, the two groups with the greatest mean bandwidth are merged."""
    weights = bandwidths(cluster)
    groups: dict[int, list[int]] = {i: [i] for i in range(len(weights))}
    between = weights.copy()
    np.fill_diagonal(between, -1.0)
    for _ in range(len(weights) - 1):
        a, b = divmod(int(np.argmax(between)), len(weights))  # the first of equal ones: the lowest indices
        sizes = len(groups[a]), len(groups[b])
        joined = (sizes[0] * between[a] + sizes[1] * between[b]) / sum(sizes)
        joined[(between[a] < 0) | (between[b] < 0)] = -1.0
        between[a], between[:, a] = joined, joined
        between[b], between[:, b] = -1.0, -1.0
        groups[a] = _joined(groups[a], groups.pop(b))
    return next(iter(groups.values()))


def given(cluster: Cluster) -> list[int]:
    """The cluster's own order."""
    return list(range(len(cluster.devices)))


def random(cluster: Cluster, seed: int = 0) -> list[int]:
    """A random order, from the seed."""
    return np.random.default_rng(seed).permutation(len(cluster.devices)).tolist()  # type: ignore[no-any-return]  # a list of int


ORDERS: dict[str, Callable[[Cluster], list[int]]] = {
    "rdo": rdo,
    "hierarchical": hierarchical,
    "given": given,
    "random": random,
}


def ordered(cluster: Cluster, order: str, weights: Floats | None = None) -> tuple[list[int], str]:
    """Devices in the named order, and the name of the order: `auto` is rdo, or hierarchical above 256 devices.

    `weights` are bandwidths that rdo cuts, in place of the nominal ones.
    """
    name = ("rdo" if len(cluster.devices) <= LITERAL else "hierarchical") if order == "auto" else order
    if name not in ORDERS:
        raise UnknownNameError(f"no order is named {shown(order)}; known are auto, {', '.join(ORDERS)}")
    if name == "rdo" and weights is not None:
        return by_minimum_cuts(weights), name
    return ORDERS[name](cluster), name


def _joined(a: list[int], b: list[int]) -> list[int]:
    """The smaller side first, among equals the one with the lowest index."""
    return a + b if (len(a), min(a)) < (len(b), min(b)) else b + a


def _recursive(weights: Floats, cut: Callable[[Floats], NDArray[np.bool_]]) -> list[int]:
    """Cuts from all devices down to single ones; with a stack, since recursion may be as deep as there are devices."""
    order: list[int] = []
    stack = [list(range(len(weights)))]
    while stack:
        group = stack.pop()
        if len(group) == 1:
            order.append(group[0])
            continue
        side = cut(weights[np.ix_(group, group)])
        parts = [[d for d, inside in zip(group, side, strict=True) if inside == which] for which in (True, False)]
        parts.sort(key=lambda part: (len(part), part[0]))
        stack += parts[::-1]
    return order


def minimum_cut(weights: Floats) -> NDArray[np.bool_]:  # noqa: C901 - loops, which compile faster than slices
    """One side of a global minimum cut (Stoer-Wagner); of equal vertices and equal cuts the first is taken."""
    count = len(weights)
    left, merged = np.zeros((count, count)), np.zeros((count, count), np.bool_)  # merged[v]: vertices merged into v
    for v in range(count):
        merged[v, v] = True
        for w in range(count):
            left[v, w] = weights[v, w]
    is_gone, added, side = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    best, tightness = np.inf, np.zeros(count)
    for phase in range(count - 1):
        for v in range(count):
            tightness[v], added[v] = 0.0, is_gone[v]
        last = before = -1
        for _ in range(count - phase):
            chosen = -1
            for v in range(count):
                if not added[v] and (chosen < 0 or tightness[v] > tightness[chosen]):
                    chosen = v
            added[chosen] = True
            before, last = last, chosen
            for v in range(count):
                tightness[v] += left[chosen, v] if not added[v] else 0.0
        is_better = tightness[last] < best
        best = min(best, tightness[last])
        for v in range(count):  # the last two of a phase become one
            if is_better:
                side[v] = merged[last, v]
            merged[before, v] |= merged[last, v]
            left[before, v] += left[last, v]
            left[v, before] = left[before, v]
        left[before, before] = 0.0
        is_gone[last] = True
    return side
