"""Coarser moves allow no less than exact ones."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters
from pipesim.analysis.bounds.forms import _links_of_equal, by_form, by_shape, least_crossing
from pipesim.analysis.bounds.islands import Network, island_model
from pipesim.analysis.bounds.moves import by_island, links_of
from pipesim.studies.loading import load_cluster


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (2, 2, 2)])
def test_the_least_crossing_is_that_of_the_best_of_all_ways_to_place_two_stages(sizes):
    capacity = np.arange(1.0, len(sizes) + 1)
    ways = list(itertools.product(*(range(size + 1) for size in sizes)))
    for r, k in itertools.product(range(2, sum(sizes) - 1), repeat=2):
        shares = [
            [(x / r * (1 - y / k), y / k * (1 - x / r)) for x, y in zip(a, b, strict=True)]
            for a, b in itertools.product(ways, ways)
            if sum(a) == r > max(a)
            and sum(b) == k > max(b)
            and all(x + y <= n for x, y, n in zip(a, b, sizes, strict=True))
        ]
        worst = min((max(max(two) / c for two, c in zip(way, capacity, strict=True)) for way in shares), default=np.inf)
        out = min((sum(two[0] for two in way) for way in shares), default=np.inf)
        assert least_crossing(r, k, np.array(sizes), capacity) == pytest.approx([worst, out])
        assert (
            least_crossing(r, k, np.array(sizes), capacity) == least_crossing(k, r, np.array(sizes), capacity)
        ).all()


@pytest.mark.parametrize("replicas", ["split", "whole"])
def test_channels_of_equal_islands_are_those_of_any_order_of_them(replicas):
    cluster = load_cluster('servers(3, 3, intra="4GB/s", inter="1GB/s")')
    islands = island_model(Network(cluster), np.repeat(np.arange(3), 3)).widest()
    ways = np.array(list(itertools.product(range(4), repeat=3)))
    a, b = (ways[index] for index in np.nonzero((ways[:, None] + ways <= 3).all(axis=2)))
    some = a.any(axis=1) & b.any(axis=1)
    found, expected = (by(islands, a[some], b[some], replicas, 5) for by in (_links_of_equal, links_of))
    assert all(map(np.array_equal, found, expected))


@settings(max_examples=25)
@given(clusters(shapes=("nodes", "star")), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.data())
def test_the_channels_of_coarser_moves_are_never_slower_than_the_fastest_exact_one(cluster, replicas, count, data):
    """Over all exact channels between stages of r and k devices none takes less than the best coarse one."""
    devices = len(cluster.devices)
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=devices, max_size=devices)))
    assume(len(set(label.tolist())) == 2)
    model = island_model(Network(cluster), label)
    exact, *coarse = (best_channels(build(model, replicas, count)) for build in (by_island, by_shape, by_form))
    for found in coarse:
        assert found.keys() >= exact.keys()
        assert all((found[sizes] <= least * (1 + 1e-12)).all() for sizes, least in exact.items())


def best_channels(moves):
    """(devices of the stage before, of the next) -> the least of every column over all moves."""
    size, found = np.zeros(len(moves.first), np.int64), {}
    size[moves.next_state[moves.left >= 0]] = moves.size[moves.left >= 0]
    for s, r in enumerate(size.tolist()):
        for m in range(moves.first[s], moves.stop[s]):
            p = moves.shift[s] + moves.place[m]
            if r and moves.left[p] >= 0:
                key = r, int(moves.size[p])
                found[key] = np.minimum(found.get(key, np.inf), moves.channel[m])
    return found
