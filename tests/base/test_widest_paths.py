"""Routes with the fewest hops, and among them the widest."""

import itertools

import numpy as np
import pytest

from pipesim.base import widest_paths
from pipesim.base.kernels import compiled
from pipesim.studies.loading import load_cluster

# 0 -> 1 -> 3 (bottleneck 2), 0 -> 2 -> 3 (bottleneck 4), and 3 -> 0
FIRST = np.array([0, 2, 3, 4, 5])
HEAD = np.array([1, 2, 3, 3, 0])
BANDWIDTH = np.array([9.0, 5.0, 2.0, 4.0, 7.0])


def test_reversed_arcs_are_the_sources_of_the_arcs_into_each_vertex():
    first, tail = widest_paths.reversed_arcs(FIRST, HEAD)
    into = [tail[start:stop].tolist() for start, stop in itertools.pairwise(first)]
    assert into == [[3], [0], [0], [1, 2]]


def test_of_two_routes_with_as_many_hops_the_wider_is_taken():
    arcs, width = widest_paths.tree(FIRST, HEAD, BANDWIDTH, *widest_paths.reversed_arcs(FIRST, HEAD), 3)
    assert arcs.tolist() == [1, 2, 3, widest_paths.NOWHERE]
    assert width.tolist() == [4.0, 2.0, 4.0, np.inf]


def test_a_vertex_without_a_route_has_neither_arc_nor_bandwidth():
    first, head = np.array([0, 1, 1, 2]), np.array([1, 1])  # 0 -> 1 <- 2
    arcs, width = widest_paths.tree(first, head, np.ones(2), *widest_paths.reversed_arcs(first, head), 0)
    assert set(arcs.tolist()) == {widest_paths.NOWHERE}
    assert width.tolist() == [np.inf, 0.0, 0.0]


@pytest.mark.parametrize("text", ["fat_tree(4)", "leaf_spine(4, 3, 4, '10GB/s', '40GB/s')", "dgx1_v100(2)"])
def test_trees_are_the_same_plain_and_compiled(text):
    cluster = load_cluster(text)
    arcs = cluster._arcs
    quick = compiled(widest_paths.shortest_widest_tree)
    for target in range(len(cluster.devices)):
        graph = arcs.first, arcs.head, arcs.bandwidth, arcs.first_in, arcs.tail, target
        for plain, same in zip(widest_paths.shortest_widest_tree(*graph), quick(*graph), strict=True):
            assert np.array_equal(plain, same)
