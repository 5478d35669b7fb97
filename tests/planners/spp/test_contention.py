"""Channels and rings that share links: by hand, against the plain way, and never faster than alone."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters, even_trace, traces
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.errors import InputError
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.planners.spp import spp
from pipesim.planners.spp.contention import (
    busiest_channels,
    busiest_rings,
    contended,
    routes_of,
    shared_bandwidths,
    shared_pipeline,
)
from pipesim.planners.spp.prm import tables_of
from pipesim.studies import loading
from pipesim.studies.results import simulate


def test_pairs_that_share_a_nic_wait_for_each_other():
    """Four pairs of 1/4 of the bytes each over one NIC of 1.25 GB/s take what one pair with all would."""
    cluster = loading.load_cluster('servers(2, 2, intra="25GB/s", inter="10Gb/s")')
    costs, order = costs_of(even_trace(4)), [0, 1, 2, 3]
    plain = tables_of(costs, cluster, order, 1)
    shared = contended(plain, cluster, order)
    assert plain.channel[2, 2, 2] == pytest.approx(1 / (4 * 1.25e9))
    assert shared.channel[2, 2, 2] == pytest.approx(1 / 1.25e9)
    assert shared.channel[1, 1, 1] == pytest.approx(1 / 25e9), "inside a server one pair has its links alone"
    # A ring of 4 over two servers crosses each NIC once each way: it is as fast as its slowest edge.
    assert shared.reduce[0, 4] == pytest.approx(2 * 3 / 4 / 1.25e9)


@settings(max_examples=25)
@given(clusters(shapes=("star", "nodes", "chain")))
def test_contended_channels_are_never_faster_than_one_pair_alone_would_be(cluster):
    """Each pair's share over its own bottleneck is a floor, whatever the others do."""
    order = list(range(len(cluster.devices)))
    costs = costs_of(even_trace(4))
    shared = contended(tables_of(costs, cluster, order, 1), cluster, order)
    for b in range(1, len(order)):
        for r, k in itertools.product(range(1, b + 1), range(1, len(order) - b + 1)):
            least = min(cluster.bandwidth_matrix[x, y] for x in range(b - r, b) for y in range(b, b + k))
            assert shared.channel[b, r, k] >= 1 / (r * k * least) * (1 - 1e-9)


@settings(max_examples=40)
@given(clusters(), st.data())
def test_channels_and_rings_go_at_the_pace_of_their_busiest_link(cluster, data):
    """Against the plain way: every pair's part on every link of its route, in the direction that is slower."""
    order = data.draw(st.permutations(range(len(cluster.devices))))
    names, rate = [cluster.devices[i].name for i in order], cluster.media_bandwidth
    plain = tables_of(costs_of(even_trace(4)), cluster, order, 1)
    shared, count = contended(plain, cluster, order), len(order)

    def busiest(pairs, size):
        seconds = dict.fromkeys(range(len(rate)), 0.0)
        for a, b in pairs:
            for medium in cluster.route(names[a], names[b]).media:
                seconds[medium] += size / rate[medium]
        return max(seconds.values(), default=0.0)

    for b, r, k in itertools.product(range(1, count), range(1, count), range(1, count)):
        if r <= b and b + k <= count:
            ahead = list(itertools.product(range(b - r, b), range(b, b + k)))
            back = [pair[::-1] for pair in ahead]
            expected = max(busiest(ahead, 1 / (r * k)), busiest(back, 1 / (r * k)))
            assert shared.channel[b, r, k] == pytest.approx(expected)
    for i, r in itertools.product(range(count), range(2, count + 1)):
        if i + r <= count:
            ring = [(i + n, i + (n + 1) % r) for n in range(r)]
            assert shared.reduce[i, r] == pytest.approx(busiest(ring, 2 * (r - 1) / r))
    for name in plain._fields:
        assert name in {"channel", "floor", "reduce"} or getattr(plain, name) is getattr(shared, name)


@settings(max_examples=15)
@given(clusters())
def test_compiled_tables_are_the_plain_ones_to_the_last_bit(cluster):
    routes = routes_of(cluster)
    for kernel in (busiest_channels, busiest_rings):
        assert compiled(kernel)(routes).tobytes() == kernel(routes).tobytes()


def test_pairs_have_less_bandwidth_the_more_of_them_cross_a_link():
    """Of eight one-way pairs between two servers, four cross each NIC in each direction."""
    cluster = loading.load_cluster('servers(2, 2, intra="24GB/s", inter="8Gb/s")')
    found = shared_bandwidths(cluster)
    assert found[0, 2] == found[1, 3] == pytest.approx(0.25e9)
    assert found[0, 1] == pytest.approx(24e9), "what leaves a server does not pass its switch"


def test_pes_pipeline_is_as_slow_as_its_busiest_links():
    cluster = loading.load_cluster('servers(2, 2, intra="25GB/s", inter="10Gb/s", latency=0, network_latency=0)')
    costs = costs_of(even_trace(4, output_bytes=1_250_000, parameter_bytes=1_250_000))
    names = [device.name for device in cluster.devices]
    two = Plan("m", 4, 2, (Stage(0, 2, tuple(names[:2])), Stage(2, 4, tuple(names[2:]))))
    nominal, shared = pipeline_of(two, costs, cluster), shared_pipeline(two, costs, cluster)
    assert (nominal.ahead.tolist(), shared.ahead.tolist()) == ([250_000], [1_000_000])
    assert shared.back.tolist() == [1_000_000]
    assert shared.all_reduce.tolist() == nominal.all_reduce.tolist() == [100_000, 100_000]
    one = Plan("m", 4, 2, (Stage(0, 4, tuple(names)),))
    ring = shared_pipeline(one, costs, cluster)
    assert ring.all_reduce.tolist() == [6_000_000]  # 3/4 of 5 MB twice over one NIC, which the ring crosses once


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_no_channel_is_faster_where_links_are_shared(trace, cluster, microbatches):
    costs = costs_of(trace)
    plan = spp(costs.model, cluster, costs, microbatches)
    nominal, shared = pipeline_of(plan, costs, cluster), shared_pipeline(plan, costs, cluster)
    assert (shared.ahead >= nominal.ahead).all()
    assert (shared.back >= nominal.back).all()
    assert plan.planner == "spp"
    assert plan.objective_s == pytest.approx(execute(shared).time(shared) / 1e9)


def test_shared_links_are_worth_more_than_twice_the_speed_behind_one_nic():
    case = "inception-v3", 'servers(4, 4, intra="25GB/s", inter="10Gb/s")'
    nominal, shared = (
        simulate(architecture=case[0], cluster=case[1], planner=planner, scheduler="pe", efficiency=0.5)
        for planner in ('spp(bandwidth="nominal")', "spp")
    )
    assert shared.iteration_time * 2 < nominal.iteration_time


def test_another_bandwidth_is_refused_by_name():
    costs = costs_of(even_trace(4))
    with pytest.raises(InputError, match=r"bandwidth .*'best'.*nominal, shared"):
        spp(costs.model, loading.load_cluster('flat(2, bandwidth="1GB/s")'), costs, 2, bandwidth="best")
