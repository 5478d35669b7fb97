"""Islands against every group and ring of devices, and every exchange of two."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import pipeline_trace
from helpers.strategies import clusters
from pipesim.analysis import metrics
from pipesim.analysis.bounds import islands, plan_bound
from pipesim.analysis.bounds.islands import Network, best_partitions, group_bandwidths, island_model, ring_bandwidths
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.engines.event import run
from pipesim.lowering import Setup, lower
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies.loading import load_cluster


def test_a_group_larger_than_a_server_has_the_network_inside():
    cluster = load_cluster('servers(2, 4, intra="25GB/s", inter="10Gb/s")')
    assert group_bandwidths(Network(cluster).bandwidth).tolist() == [np.inf, np.inf, *[25e9] * 3, *[1.25e9] * 4]


@settings(max_examples=40)
@given(clusters())
def test_no_group_exceeds_its_bandwidth(cluster):
    """Against every group of devices: the least bandwidth inside it."""
    matrix = Network(cluster).bandwidth
    found = group_bandwidths(matrix)
    for r in range(2, len(matrix) + 1):
        groups = itertools.combinations(range(len(matrix)), r)
        assert found[r] >= max(min(matrix[a, b] for a, b in itertools.combinations(group, 2)) for group in groups)


def widest_ring(matrix, r):
    """The widest over all orders of all r devices: of each the narrowest edge."""
    rings = itertools.permutations(range(len(matrix)), r)
    return max(min(matrix[a, b] for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)) for ring in rings)


@settings(max_examples=40)
@given(clusters())
def test_no_ring_exceeds_its_bandwidth_and_one_reaches_it(cluster):
    matrix = cluster.bandwidth_matrix[:6, :6]
    exact = [widest_ring(matrix, r) for r in range(2, len(matrix) + 1)]
    assert ring_bandwidths(matrix)[2:].tolist() == exact
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(islands, "EXACT_RINGS", 0)
        assert (ring_bandwidths(matrix)[2:] >= exact).all()


def test_the_widest_ring_may_go_round_one_way_only():
    matrix = np.array([[0, 5, 1], [1, 0, 6], [7, 1, 0]], float)
    assert ring_bandwidths(matrix).tolist() == [np.inf, np.inf, 1, 5]


def test_islands_are_servers_and_what_leaves_them_is_their_nic():
    network = Network(load_cluster('servers(2, 3, intra="25GB/s", inter="10Gb/s")'))
    (label,) = best_partitions(network)
    assert label.tolist() == [0, 0, 0, 1, 1, 1]
    assert network.island_capacity(label).tolist() == [1.25e9] * 2
    assert island_model(network, label).device_near == 25e9


def test_devices_are_alike_that_can_change_places():
    """Not so where one is of another kind, or has a slower or a measured link of its own, or links to some only."""
    cluster, label = load_cluster('servers(2, 3, intra="25GB/s", inter="10Gb/s")'), np.array([0, 0, 0, 1, 1, 1])
    other = (replace(device, kind="other") if n == 4 else device for n, device in enumerate(cluster.devices))
    slow = (
        replace(x, bandwidth=x.bandwidth / (4 if "node0.gpu1" in {x.source, x.target} else 1)) for x in cluster.links
    )
    nic = (replace(x, bandwidth=x.bandwidth / (4 if x.source == "node0.nic0" else 1)) for x in cluster.links)
    late = ((0.0, 1e-3), (1e9, 1.0))
    table = (replace(x, table=late) if "node1.gpu2" in {x.source, x.target} else x for x in cluster.links)
    for changed, expected in [
        (cluster, [True, True]),
        (replace(cluster, devices=tuple(other)), [True, False]),
        (replace(cluster, links=tuple(slow)), [False, True]),
        (replace(cluster, links=tuple(nic)), [True, True]),
        (replace(cluster, links=tuple(table)), [True, False]),
    ]:
        assert Network(changed).alike(label).tolist() == expected
    assert not Network(load_cluster("dgx1_v100")).alike(np.zeros(8, np.int64)).any()
    assert not island_model(Network(cluster), label, "fifo").together.any()


def test_islands_of_equal_capacity_are_not_equal_if_one_has_narrower_links():
    """Two servers with a NIC of 2 GB/s, one with two of 1 GB/s: taken for equal, they gave too high a bound."""
    devices = tuple(Device(f"{node}{i}", "any", node) for node in "abc" for i in range(2))
    links = [Link(f"{node}{i}", f"{node}sw", 50e9) for node in "ab" for i in range(2)]
    links += [
        link for node in "ab" for link in (Link(f"{node}sw", f"{node}nic", 50e9), Link(f"{node}nic", "core", 2e9))
    ]
    links += [
        Link("c0", "c1", 50e9),
        *(link for i in "01" for link in (Link(f"c{i}", f"cn{i}", 50e9), Link(f"cn{i}", "core", 1e9))),
    ]
    cluster = Cluster("uneven", devices, tuple(links))
    model = island_model(Network(cluster), np.array([0, 0, 1, 1, 2, 2]))
    assert (model.sizes.tolist(), model.capacity.tolist()) == ([2, 2, 2], [2e9] * 3)
    assert model.groups == [(2, 1), (2, 2)]
    costs = costs_of(pipeline_trace([10**6] * 3, [10**6] * 3, [4 * 10**6] * 2, 10**12))
    plan = Plan("pipeline", 3, 8, tuple(Stage(n, n + 1, (name,)) for n, name in enumerate(["a0", "a1", "b0"])))
    reached = metrics.iteration_time(run(lower(Setup(plan, one_f_one_b(plan, warm_up="3A"), costs, cluster))))
    assert reached >= plan_bound(costs, cluster, 8)


def test_islands_of_a_leaf_spine_are_its_leaves_though_all_pairs_are_equally_wide():
    network = Network(load_cluster('leaf_spine(2, 2, 4, bandwidth="10GB/s", uplink="5GB/s")'))
    (label,) = best_partitions(network)
    assert label.tolist() == [0] * 4 + [1] * 4
    assert network.island_capacity(label).tolist() == [10e9] * 2


def test_a_server_with_a_slow_nic_is_an_island_of_its_own_sort():
    cluster = load_cluster('servers(3, 2, intra="25GB/s", inter="1GB/s")')
    links = (replace(x, bandwidth=x.bandwidth / (4 if x.source == "node2.nic0" else 1)) for x in cluster.links)
    network = Network(replace(cluster, links=tuple(links)))
    found = [(label.tolist(), network.island_capacity(label).tolist()) for label in best_partitions(network)]
    assert ([0, 0, 1, 1, 2, 2], [1e9, 1e9, 0.25e9]) in found
    assert ([0, 0, 0, 0, 1, 1], [0.25e9] * 2) in found


def alike_by_all_routes(network, label):
    """Exchanges one device of an island with each other one, and looks at every route of the cluster."""
    cluster = network.cluster
    rate, kinds, count = cluster.media_bandwidth, [device.kind for device in cluster.devices], len(cluster.devices)
    found = []
    for one, *others in (np.flatnonzero(label == g).tolist() for g in range(int(label.max()) + 1)):
        same = True
        for other in others:
            swap, changed = {one: other, other: one}, {}
            for a, b in itertools.permutations(range(count), 2):
                before, after = network.routes.get((a, b)), network.routes.get((swap.get(a, a), swap.get(b, b)))
                if before is None or after is None:
                    same &= before is after
                    continue
                same &= len(before.media) == len(after.media) and before.delay == after.delay
                tables = [[cluster.links[link].table for link in route.links] for route in (before, after)]
                pairs = list(zip(before.media, after.media, strict=False))
                same &= all(changed.setdefault(x, y) == y and rate[x] == rate[y] for x, y in pairs)
                same &= tables[0] == tables[1]
            same &= kinds[one] == kinds[other] and len(set(changed.values())) == len(changed)
        found.append(bool(same))
    return found


@settings(max_examples=80)
@given(clusters(), st.data())
def test_only_routes_with_an_exchanged_device_at_an_end_decide_whether_devices_are_alike(cluster, data):
    count = len(cluster.devices)
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    label = np.unique(label, return_inverse=True)[1]
    network = Network(cluster)
    assert network.alike(label).tolist() == alike_by_all_routes(network, label)


def test_devices_that_each_have_a_link_which_others_route_over_are_not_alike():
    """In a ring of four, routes of others pass over the links of two neighbours; in a star none does."""
    ring, star = load_cluster('ring(4, bandwidth="5GB/s")'), load_cluster("flat(4, bandwidth=1e9)")
    label = np.zeros(4, np.int64)
    assert not Network(ring).alike(label).any()
    assert Network(star).alike(label).all()


def test_replicas_out_of_step_are_never_together():
    network, label = Network(load_cluster("servers(2, 2, intra=4e9, inter=1e9)")), np.repeat([0, 1], 2)
    fair, late, fifo = (
        island_model(network, label, sharing, in_step=in_step)
        for sharing, in_step in [("fair", True), ("fair", False), ("fifo", True)]
    )
    assert fair.together.all()
    assert not late.together.any()
    assert all(np.array_equal(x, y) for x, y in zip(late, fifo, strict=True))
