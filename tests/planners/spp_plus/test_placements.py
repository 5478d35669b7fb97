"""Which devices suit the stages of a plan: costs by hand, no swap left that helps, against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters, even_trace
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.base.kernels import compiled
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Stage
from pipesim.planners.spp.contention import routes_of
from pipesim.planners.spp_plus.placements import (
    CLOSE,
    StageLoads,
    best_placements,
    improve_by_swaps,
    improve_each,
    loads_of,
    placement_cost,
)
from pipesim.studies import loading


@settings(max_examples=30)
@given(clusters(), st.data())
def test_the_compiled_swaps_are_their_plain_twin_and_leave_no_swap_that_helps(cluster, data):
    count = len(cluster.devices)
    assume(count > 1 and (cluster.bandwidth_matrix > 0).all())
    sizes = np.array(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda s: sum(s) <= count)))
    work, one, ring, cut = (
        np.array(data.draw(st.lists(st.integers(0, 1000), min_size=len(sizes), max_size=len(sizes))), float)
        for _ in range(4)
    )
    first = np.array(data.draw(st.permutations(range(count))))
    plain, fast = first.copy(), first.copy()
    asked = StageLoads(sizes, work, one, ring * 1e6, cut * 1e6), routes_of(cluster), 4.0
    least = improve_by_swaps.py_func(plain, *asked)
    assert improve_by_swaps(fast, *asked) == least
    assert plain.tolist() == fast.tolist()
    assert sorted(plain.tolist()) == list(range(count))
    assert least == cost_of(plain, *asked) <= cost_of(first, *asked)
    for i, j in itertools.combinations(range(count), 2):
        if i < sizes.sum():
            other = plain.copy()
            other[[i, j]] = other[[j, i]]
            assert cost_of(other, *asked) >= least


def cost_of(order, loads, routes, microbatches):
    return placement_cost(order, loads, routes, microbatches, np.zeros((2, len(routes.pace))))


def plain_cost(order, loads, cluster, microbatches):
    """The same from the cluster's routes, message after message."""
    names, pace = [device.name for device in cluster.devices], 1 / np.array(cluster.media_bandwidth)

    def busy(messages):
        seconds = np.zeros(len(pace))
        for x, y, size in messages:
            for medium in cluster.route(names[x], names[y]).media:
                seconds[medium] += size * pace[medium]
        return seconds

    ends = np.cumsum(loads.size)
    groups = [order[end - size : end].tolist() for end, size in zip(ends, loads.size, strict=True)]
    total, head, worst = np.zeros(len(pace)), 0.0, 0.0
    for n, group in enumerate(groups):
        for way in (1, -1) if n else ():
            part = loads.cut[n] / (len(groups[n - 1]) * len(group))
            one = busy((*(a, b)[::way], part) for a in groups[n - 1] for b in group)
            worst = max(worst, head + microbatches * one.max(initial=0) + loads.one[n])
            head += one.max(initial=0)
            total += microbatches * one
        ring = busy((a, b, loads.ring[n]) for a, b in zip(group, group[1:] + group[:1], strict=True) if a != b)
        worst = max(worst, loads.work[n] + max(head, head / 3 + ring.max(initial=0)))
        total += ring
        head += loads.one[n]
    return max(worst, total.max(initial=0)) + CLOSE * total.sum() / ends[-1]


@settings(max_examples=25)
@given(clusters(), st.data())
def test_the_cost_of_a_placement_is_that_of_its_messages_over_their_routes(cluster, data):
    count = len(cluster.devices)
    assume(count > 1 and (cluster.bandwidth_matrix > 0).all())
    sizes = np.array(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda s: sum(s) <= count)))
    numbers = st.lists(st.floats(0, 1000), min_size=len(sizes), max_size=len(sizes))
    work, one, ring, cut = (np.array(data.draw(numbers)) for _ in range(4))
    loads = StageLoads(sizes, work, one, ring * 1e6, cut * 1e6)
    order = np.array(data.draw(st.permutations(range(count))))
    assert cost_of(order, loads, routes_of(cluster), 4.0) == pytest.approx(plain_cost(order, loads, cluster, 4.0))


def test_each_row_of_orders_is_improved_alone():
    cluster, rng = loading.load_cluster("dgx1_v100"), np.random.default_rng(0)
    loads = StageLoads(np.array([2, 4]), *(rng.uniform(0, 1, 2) * times for times in (1, 0.1, 1e9, 1e8)))
    orders = np.array([rng.permutation(8) for _ in range(4)])
    alone = [row.copy() for row in orders]
    costs = compiled(improve_each)(orders, loads, routes_of(cluster), 3.0)
    assert costs.tolist() == [improve_by_swaps(row, loads, routes_of(cluster), 3.0) for row in alone]
    assert np.array_equal(orders, alone)


def test_the_best_placement_of_two_stages_is_found_among_all():
    """A chain of four devices with one narrow link: brute force over all orders finds nothing better."""
    widths = (4e9, 0.5e9, 4e9)
    ends = tuple(Link(f"g{i}", f"g{i + 1}", width) for i, width in enumerate(widths))
    cluster = Cluster("chain", tuple(Device(f"g{i}", "any") for i in range(4)), ends)
    costs = costs_of(even_trace(4, output_bytes=50_000_000, parameter_bytes=100_000_000))
    sums = layer_sums(costs, cluster, 4, "split")
    stages = (Stage(0, 2, ("g0", "g2")), Stage(2, 4, ("g1", "g3")))
    loads, routes = loads_of(stages, sums), routes_of(cluster)
    found, *_ = best_placements(stages, cluster, routes, sums)
    order = np.array([cluster.index[name] for stage in found for name in stage.devices])
    least = min(cost_of(np.array(other), loads, routes, 4.0) for other in itertools.permutations(range(4)))
    assert cost_of(order, loads, routes, 4.0) == pytest.approx(least)


def test_what_stages_compute_and_send_is_that_of_their_layers():
    costs = costs_of(even_trace(4, 1e-3, 2e-3, output_bytes=1000, parameter_bytes=3000))
    sums = layer_sums(costs, loading.load_cluster('flat(3, bandwidth="1GB/s")'), 5, "split")
    loads = loads_of((Stage(0, 1, ("gpu0",)), Stage(1, 4, ("gpu1", "gpu2"))), sums)
    assert loads.size.tolist() == [1, 2]
    assert loads.work == pytest.approx([5 * 3e-3, 5 * 3 * 3e-3 / 2])
    assert loads.one == pytest.approx([3e-3, 3 * 3e-3 / 2])
    assert loads.ring.tolist() == [0, 2 * 1 / 2 * 3 * 3000]
    assert loads.cut.tolist() == [0, 1000]


def test_a_stage_settles_where_its_ring_is_wide():
    """Four of the eight devices have a ring of double links: 0 3 2 1 is none, 0 3 4 7 is."""
    cluster = loading.load_cluster("dgx1_v100")
    costs = costs_of(even_trace(4, output_bytes=1000, parameter_bytes=50_000_000))
    names = [device.name for device in cluster.devices]
    stages = (Stage(0, 4, tuple(names[:4])),)
    (best, *others) = best_placements(stages, cluster, routes_of(cluster), layer_sums(costs, cluster, 4, "split"))
    ring = [cluster.index[name] for name in best[0].devices]
    assert min(cluster.bandwidth_matrix[a, b] for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)) == 50e9
    assert all(len(found[0].devices) == 4 for found in others)
