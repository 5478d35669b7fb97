"""Properties of groups of devices that planners use."""

import numpy as np
import pytest

from helpers.strategies import even_trace
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.planners import groups

TWO_NODES = Cluster(
    "two nodes",
    tuple(Device(f"g{n}", "a100-40gb" if n < 3 else "v100-16gb", f"node{n % 2}") for n in range(4)),
    (Link("g0", "g1", 4e9), Link("g1", "g2", 2e9), Link("g2", "g3", 1e9)),
)


def test_nodes_are_in_the_order_of_their_first_device():
    assert groups.by_node(TWO_NODES) == [[0, 2], [1, 3]]


def test_bandwidths_are_those_of_the_narrowest_link_of_the_route():
    between = groups.bandwidths(TWO_NODES)
    assert between[0].tolist() == [0, 4e9, 2e9, 1e9]
    assert np.array_equal(between, between.T)
    assert groups.worst_bandwidths(TWO_NODES)[0, 0] == np.inf


def test_devices_without_a_route_are_an_error():
    apart = Cluster("apart", (Device("g0", "any"), Device("g1", "any"), Device("g2", "any")), (Link("g0", "g1", 1e9),))
    with pytest.raises(InputError, match="no route between 'g0' and 'g2'"):
        groups.bandwidths(apart)


def test_a_ring_of_k_devices_sends_2_k_minus_1_kths_at_its_worst_pair():
    between = groups.worst_bandwidths(TWO_NODES)
    assert groups.ring(between, [0]) == 0
    assert groups.ring(between, [0, 1]) == 2 * 1 / 2 / 4e9
    assert groups.ring(between, [0, 1, 3]) == 2 * 2 / 3 / 1e9


def test_kinds_are_listed_once():
    assert groups.kinds_of(TWO_NODES, [3, 0, 1]) == ["v100-16gb", "a100-40gb"]


def test_seconds_of_ranges_are_sums_at_the_slowest_kind_and_cuts_have_bytes_inside_the_model_only():
    costs = costs_of(even_trace(4))
    seconds = groups.layer_seconds(costs, ["a100-40gb"], 1.0)
    each = costs.forward("a100-40gb") + costs.backward("a100-40gb")
    assert seconds[1, 3] == pytest.approx(each[1:3].sum())
    assert np.isinf(seconds[np.tri(5, dtype=bool)]).all()
    assert groups.cut_bytes(costs).tolist() == [0, *costs.model.cut_bytes]
    assert groups.prefix(np.array([1.0, 2.0])).tolist() == [0, 1, 3]
