"""Orders of devices: cuts against networkx, who stands beside whom, and what is refused."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.base.kernels import compiled
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.planners.groups import bandwidths
from pipesim.planners.spp.rdo import LITERAL, by_minimum_cuts, hierarchical, minimum_cut, ordered, rdo
from pipesim.studies import loading


@st.composite
def weights(draw):
    """A complete graph with few different weights, so that ties are common."""
    count = draw(st.integers(2, 9))
    upper = draw(st.lists(st.integers(1, 4), min_size=count * count, max_size=count * count))
    half = np.triu(np.array(upper, float).reshape(count, count), 1)
    return half + half.T


@settings(max_examples=120)
@given(weights())
def test_a_minimum_cut_is_as_small_as_networkx_finds_it(matrix):
    side = minimum_cut(matrix)
    assert 0 < side.sum() < len(matrix)
    graph = nx.Graph((a, b, {"weight": matrix[a, b]}) for a, b in itertools.combinations(range(len(matrix)), 2))
    assert matrix[np.ix_(side, ~side)].sum() == nx.stoer_wagner(graph)[0]
    assert np.array_equal(compiled(minimum_cut)(matrix), side), "the compiled kernel is its plain twin"


@settings(max_examples=40)
@given(weights())
def test_an_order_begins_with_the_smaller_side_of_a_minimum_cut_and_each_side_is_ordered_alike(matrix):
    order = by_minimum_cuts(matrix)
    assert sorted(order) == list(range(len(matrix)))
    graph = nx.Graph((a, b, {"weight": matrix[a, b]}) for a, b in itertools.combinations(range(len(matrix)), 2))
    least = nx.stoer_wagner(graph)[0]
    heads = [order[:n] for n in range(1, len(order) // 2 + 1)]
    cuts = [head for head in heads if matrix[np.ix_(head, [d for d in order if d not in head])].sum() == least]
    assert any(
        [side[i] for i in by_minimum_cuts(matrix[np.ix_(side, side)])] == part
        for head in cuts
        for part, side in [(head, sorted(head))]
    )


def contiguous(order, nodes):
    """Whether the devices of each node stand together in an order."""
    return len(list(itertools.groupby(order, key=lambda device: nodes[device]))) == len(set(nodes))


@pytest.mark.parametrize("name", ["rdo", "hierarchical"])
@pytest.mark.parametrize(("nodes", "per_node", "ratio", "jitter"), [(4, 4, 4, 0.0), (4, 4, 4, 0.5), (4, 8, 8, 0.3)])
def test_each_servers_devices_stay_together_however_they_are_labelled(name, nodes, per_node, ratio, jitter):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        node = rng.permutation(np.repeat(np.arange(nodes), per_node))
        matrix = np.where(node[:, None] == node, float(ratio), 1.0) * (1 + jitter * rng.random((len(node), len(node))))
        matrix = np.minimum(matrix, matrix.T)
        devices = tuple(Device(f"g{i}", "any") for i in range(len(node)))
        links = tuple(Link(f"g{a}", f"g{b}", matrix[a, b]) for a, b in itertools.combinations(range(len(node)), 2))
        order, _ = ordered(Cluster("labelled", devices, links), name)
        assert contiguous(order, node.tolist()), f"seed {seed}"


@settings(max_examples=40)
@given(clusters())
def test_every_order_has_every_device_once(cluster):
    for name in ("auto", "rdo", "hierarchical", "given", "random"):
        order, _ = ordered(cluster, name)
        assert sorted(order) == list(range(len(cluster.devices)))


def test_the_smaller_side_of_a_cut_comes_first():
    """Devices 1 and 3 hang on by less than any other two: they are cut off first, and stand first."""
    matrix = np.full((5, 5), 10.0)
    for a, b in itertools.product((1, 3), (0, 2, 4)):
        matrix[a, b] = matrix[b, a] = 1.0
    np.fill_diagonal(matrix, 0)
    assert sorted(by_minimum_cuts(matrix)[:2]) == [1, 3]


def test_above_256_devices_clustering_stands_in_and_is_named():
    cluster = loading.load_cluster(f'servers({LITERAL // 8 + 1}, 8, intra="25GB/s", inter="1GB/s")')
    order, name = ordered(cluster, "auto")
    assert name == "hierarchical"
    assert order == hierarchical(cluster)
    assert ordered(loading.load_cluster('flat(4, bandwidth="1GB/s")'), "auto")[1] == "rdo"


def test_an_unknown_order_and_separated_devices_are_refused():
    flat = loading.load_cluster('flat(2, bandwidth="1GB/s")')
    with pytest.raises(UnknownNameError, match="no order is named 'rod'; known are auto, rdo"):
        ordered(flat, "rod")
    with pytest.raises(InputError, match="no route between 'a' and 'b'"):
        rdo(Cluster("apart", (Device("a", "any"), Device("b", "any"))))


def test_weights_are_the_lesser_of_both_directions():
    one_way = (Link("a", "b", 3.0, duplex="one_way"), Link("b", "a", 2.0, duplex="one_way"))
    assert bandwidths(Cluster("asymmetric", (Device("a", "any"), Device("b", "any")), one_way)).tolist() == [
        [0, 2],
        [2, 0],
    ]
