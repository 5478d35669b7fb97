"""Channels and rings that share links: by hand, against the plain way, and never faster than alone."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters, even_trace
from pipesim.core.costs import costs_of
from pipesim.planners.spp.prm import tables_of
from pipesim.planners.spp_plus.contention import contended
from pipesim.studies import loading


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
        assert name in {"channel", "reduce"} or getattr(plain, name) is getattr(shared, name)
