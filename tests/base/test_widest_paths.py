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


def drawn_graph(rng):
    """Arcs between a few vertices in columns, in some order; some vertices cannot be reached."""
    vertices = int(rng.integers(2, 14))
    pairs = [
        (a, b) for a in range(vertices) for b in range(vertices) if a != b and rng.random() < rng.choice([0.15, 0.4])
    ]
    source, head = (
        (np.array(column, np.int64) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0, np.int64),) * 2
    )
    first = np.searchsorted(source, np.arange(vertices + 1)).astype(np.int64)
    bandwidth = rng.choice([1.0, 2.0, 3.0], len(head))
    return widest_paths.ArcColumns(first, head, bandwidth, *widest_paths.reversed_arcs(first, head))


@pytest.mark.parametrize("kernel", [widest_paths.shortest_widest_paths, compiled(widest_paths.shortest_widest_paths)])
def test_paths_between_two_ends_are_those_of_the_tree(kernel):
    rng = np.random.default_rng(5)
    for _ in range(150):
        graph = drawn_graph(rng)
        vertices = len(graph[0]) - 1
        ends = np.array([(a, b) for a in range(vertices) for b in range(vertices)], np.int64)
        ends = rng.permutation(ends)[:40]
        starts, found = kernel(graph, *(np.ascontiguousarray(column) for column in ends.T))
        for n, (source, target) in enumerate(ends.tolist()):
            arcs, _ = widest_paths.shortest_widest_tree(*graph, target)
            expected, vertex = [], source
            while vertex != target and arcs[vertex] != widest_paths.NOWHERE:
                expected.append(int(arcs[vertex]))
                vertex = int(graph[1][arcs[vertex]])
            assert found[starts[n] : starts[n + 1]].tolist() == expected
