"""Bandwidths between devices without the matrix of all pairs: of the first devices, and extremes of all or of groups.

What is alike in a cluster is there twice in what is searched (`base.interchangeable`): 16,384 GPUs on a fat tree are
64 there.
"""

from collections.abc import Sequence

import numpy as np

from pipesim.base import interchangeable, widest_paths
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import suited
from pipesim.core.cluster import Cluster

_MANY_STEPS = 2_000_000  # arcs of all trees above which searching them is compiled


def among_first(cluster: Cluster, count: int) -> Floats:
    """The part of `bandwidth_matrix` for the first devices."""
    count = min(count, len(cluster.devices))
    matrix = np.array([cluster.bandwidths_to(target)[:count] for target in range(count)]).T
    np.fill_diagonal(matrix, np.inf)
    return matrix


def least_and_most(cluster: Cluster) -> tuple[float, float] | None:
    """The least and the greatest bytes/s from a device to another (0: no route); None for a single device."""
    if len(cluster.devices) == 1:
        return None
    ((least, most),) = _extremes(cluster, [range(len(cluster.devices))])
    return least, most


def least_within(cluster: Cluster, groups: Sequence[Sequence[int]]) -> list[float]:
    """For each of several groups without common devices, the least bytes/s from a member to another.

    Infinite where there is only one.
    """
    return [least for least, _ in _extremes(cluster, groups)]


def _extremes(cluster: Cluster, groups: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    label = np.full(len(cluster.vertices), -1, np.int64)
    for n, group in enumerate(groups):
        label[np.array(group, np.int64)] = n
    first, head, bandwidth, label = _reduced(cluster, label)
    first_in, tail = widest_paths.reversed_arcs(first, head)
    tree = suited(widest_paths.shortest_widest_tree, large=int((label >= 0).sum()) * len(head) > _MANY_STEPS)
    found = []
    for n in range(len(groups)):
        members = np.flatnonzero(label == n)
        least, most = np.inf, 0.0
        for target in members.tolist() if len(members) > 1 else ():
            _, width = tree(first, head, bandwidth, first_in, tail, target)
            others = width[members[members != target]]
            least, most = min(least, float(others.min())), max(most, float(others.max()))
        found.append((least, most))
    return found


def _reduced(cluster: Cluster, label: Ints) -> tuple[Ints, Ints, Floats, Ints]:
    """The graph of what is kept: where the arcs of each vertex begin, their heads and bandwidths; the labels."""
    arcs = cluster.arc_columns
    source = np.repeat(np.arange(len(label)), np.diff(arcs.first))
    kept = interchangeable.kept(interchangeable.Arcs(source, arcs.head, arcs.bandwidth), label)
    number = np.cumsum(kept) - 1
    both = kept[source] & kept[arcs.head]
    first = np.searchsorted(number[source[both]], np.arange(int(kept.sum()) + 1)).astype(np.int64)
    return first, number[arcs.head[both]], np.ascontiguousarray(arcs.bandwidth[both]), label[kept]
