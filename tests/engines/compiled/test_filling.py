"""Shares of a group of flows in the compiled engine: the bits of the allocator of the SimPy engine, levels included."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.base.kernels import compiled
from pipesim.engines.compiled import filling
from pipesim.engines.compiled.simulation_state import RouteArrays
from pipesim.engines.max_min import max_min

LINKS = 6
routes_of_flows = st.lists(
    st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=4, unique=True), min_size=1, max_size=20
)
capacities = st.lists(st.one_of(st.sampled_from([1.0, 2.0, 3.0]), st.floats(0.1, 10)), min_size=LINKS, max_size=LINKS)
limits = st.lists(st.one_of(st.just(float("inf")), st.sampled_from([0.5, 1.0]), st.floats(0.01, 5)), min_size=20)
weights = st.one_of(st.just([]), st.lists(st.integers(1, 4), min_size=80, max_size=80))


def routes_and_search(routes, limit, weight, media):
    """The flows as the engine has them, and all of them found as one group."""
    first = np.cumsum([0, *map(len, routes)]).astype(np.int32)
    crossed = np.array(list(itertools.chain(*routes)), np.int32)
    search = filling.initial_search(len(routes), LINKS)
    search.found[:], search.media[: len(media)] = np.arange(len(routes)), media
    search.group_flows[0], search.group_media[0] = len(routes), len(media)
    found = RouteArrays(first, crossed, np.array(weight[: len(crossed)], np.int32), np.array(limit[: len(routes)]))
    return found, search


@settings(max_examples=200, deadline=None)
@given(routes_of_flows, capacities, limits, weights)
def test_rates_are_those_of_the_allocator_to_the_last_bit(routes, capacity, limit, weight):
    every = list(range(LINKS))
    arrays, search = routes_and_search(routes, limit, weight, every)
    level = np.zeros(LINKS)
    compiled(filling.fair_rates)(arrays, np.array(capacity), search, level, 0, 0)
    expected = max_min(
        arrays.first.tolist(), arrays.medium.tolist(), arrays.weight.tolist(), capacity, arrays.limit.tolist()
    )
    assert search.rates.tolist() == expected
    assert sorted(search.found.tolist()) == list(range(len(routes)))
    assert sorted(search.media.tolist()) == every
    assert not search.taken.any()
    for i, route in enumerate(routes):
        assert expected[i] == min(arrays.limit[i], *(level[m] for m in route))


def test_a_group_leaves_flows_and_links_of_other_groups_alone():
    """Flow 0 on link 0 is another group, before flows 1 and 2 on links 1 and 2."""
    arrays, search = routes_and_search([[0], [1], [1, 2]], [np.inf] * 3, [], [0, 1, 2])
    search.group_flows[:2], search.group_media[:2] = [1, 3], [1, 3]
    search.rates[:], level = -1.0, np.full(LINKS, -1.0)
    filling.fair_rates(arrays, np.array([5.0, 4.0, 1.0, 9.0, 9.0, 9.0]), search, level, 1, 1)
    assert search.rates.tolist() == [-1.0, 3.0, 1.0]
    assert level.tolist() == [-1.0, 3.0, 1.0, -1.0, -1.0, -1.0]
