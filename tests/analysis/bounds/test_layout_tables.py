"""What bounds over layouts read: the limits of a cluster, and least seconds of units."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from helpers.strategies import clusters, even_trace
from pipesim.analysis.bounds.layout_tables import Same, cluster_limits, layout_tables
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.lowering import Options
from pipesim.topologies.flat import flat
from pipesim.topologies.servers import servers


@given(clusters())
def test_no_route_of_a_drawn_cluster_exceeds_its_limits(cluster):
    limits = cluster_limits(Same(cluster))
    for one, other in itertools.permutations(cluster.devices, 2):
        try:
            route = cluster.route(one.name, other.name)
        except InputError:
            continue
        fastest = min(cluster.links[link].fastest for link in route.links)
        assert fastest <= limits.widest
        assert fastest <= limits.crossing or one.node == other.node
        assert route.delay >= limits.delay * (1 - 1e-12)
        assert fastest <= limits.leaving


def test_rings_over_several_nodes_go_at_the_pace_between_them():
    found = cluster_limits(Same(servers(2, 4, intra="300GB/s", inter="25GB/s")))
    assert (found.widest, found.crossing, found.most_in_node) == (300e9, 25e9, 4)


def test_recomputation_adds_the_forward_to_the_backward():
    costs, cluster = costs_of(even_trace(4)), Same(flat(2, bandwidth="1GB/s"))
    for how, back in (("none", 2e-3), ("full", 3e-3)):
        found = layout_tables(costs, cluster, Options(recompute=how)).seconds(1.0, splits=False)
        assert found.back.tolist() == pytest.approx([back] * 4)
        assert found.work.tolist() == pytest.approx([1e-3 + back] * 4)


def test_a_half_of_a_backward_is_quicker_than_all_of_it():
    tables = layout_tables(costs_of(even_trace(4)), Same(flat(2, bandwidth="1GB/s")), Options())
    split, whole = (tables.seconds(1.0, splits=splits) for splits in (True, False))
    assert (split.back < whole.back).all()
    assert np.allclose(split.work, whole.work)
