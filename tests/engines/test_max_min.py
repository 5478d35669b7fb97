"""The allocator of max-min fair rates, by its definition and by linear programs; compiled: compiled/test_filling.py."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.linear_solver import pywraplp

from pipesim.engines.max_min import max_min

CAPACITIES = st.one_of(st.sampled_from([1.0, 2.0, 3.0]), st.floats(0.1, 10))
LIMITS = st.one_of(st.just(math.inf), st.floats(0.05, 2))


@st.composite
def networks(draw, most_links, most_flows):
    """Capacities of links; routes and limits of flows."""
    capacity = draw(st.lists(CAPACITIES, min_size=1, max_size=most_links))
    route = st.lists(st.integers(0, len(capacity) - 1), min_size=1, max_size=len(capacity), unique=True)
    flows = draw(st.lists(st.tuples(route, LIMITS), min_size=1, max_size=most_flows))
    return capacity, [route for route, _ in flows], [limit for _, limit in flows]


def rates_of(capacity, routes, limit):
    first = list(itertools.accumulate((len(route) for route in routes), initial=0))
    return max_min(first, list(itertools.chain(*routes)), [], capacity, limit)


@settings(max_examples=300)
@given(networks(7, 19))
def test_no_link_is_over_capacity_and_each_flow_has_a_bottleneck(drawn):
    """A rate is max-min fair if on some full link of its route none is higher, or the flow is at its own limit."""
    capacity, routes, limit = drawn
    rate, flows = rates_of(*drawn), range(len(routes))
    load = [math.fsum(rate[i] for i in flows if m in routes[i]) for m in range(len(capacity))]
    assert all(used <= most * (1 + 1e-9) for used, most in zip(load, capacity, strict=True))
    assert min(rate) > 0
    for i, route in enumerate(routes):
        full = [m for m in route if load[m] >= capacity[m] * (1 - 1e-9)]
        most_there = [max(rate[j] for j in flows if m in routes[j]) for m in full]
        assert rate[i] == limit[i] or any(rate[i] >= most * (1 - 1e-9) for most in most_there)


def filled_by_linear_programs(routes, capacity, limit):
    """Max-min rates from their definition, by linear programs: no filling, no order in which links become full.

    The least rate is made as large as can be; flows that cannot have more than that are settled at it; again.
    """
    settled, flows = {}, range(len(routes))
    while len(settled) < len(routes):
        solver = pywraplp.Solver.CreateSolver("GLOP")
        least = solver.NumVar(0, solver.infinity(), "least")
        rate = [solver.NumVar(0, min(limit[i], solver.infinity()), f"rate{i}") for i in flows]
        for i in flows:
            solver.Add(rate[i] == settled[i] if i in settled else rate[i] >= least)
        for m, most in enumerate(capacity):
            solver.Add(sum((rate[i] for i in flows if m in routes[i]), solver.Sum([])) <= most)
        solver.Maximize(least)
        assert solver.Solve() == pywraplp.Solver.OPTIMAL
        share = least.solution_value()
        least.SetBounds(share * (1 - 1e-9), solver.infinity())
        for i in sorted(set(flows) - set(settled)):
            solver.Maximize(rate[i])
            assert solver.Solve() == pywraplp.Solver.OPTIMAL
            if rate[i].solution_value() <= share * (1 + 1e-6):
                settled[i] = share
    return [settled[i] for i in flows]


@settings(max_examples=60)
@given(networks(5, 9))
def test_rates_are_those_that_linear_programs_find(drawn):
    capacity, routes, limit = drawn
    assert rates_of(*drawn) == pytest.approx(filled_by_linear_programs(routes, capacity, limit), rel=1e-5)


@st.composite
def alike(draw):
    """Capacities and numbers of links that are alike; limit, number and route of flows that are alike.

    A flow's number is a multiple of that of each link on its route: its copies are spread evenly over the link's.
    """
    links = draw(st.lists(st.tuples(CAPACITIES, st.sampled_from([1, 2, 3])), min_size=1, max_size=5))
    route = st.lists(st.integers(0, len(links) - 1), min_size=1, max_size=3, unique=True)
    flows = draw(st.lists(st.tuples(LIMITS, st.sampled_from([6, 12]), route), min_size=1, max_size=6))
    return links, flows


@settings(max_examples=200)
@given(alike())
def test_flows_that_are_alike_have_the_rate_of_one_that_stands_for_them_to_the_last_bit(drawn):
    links, flows = drawn
    routes, limits = [route for _, _, route in flows], [limit for limit, _, _ in flows]
    first = list(itertools.accumulate((len(route) for route in routes), initial=0))
    weight = [number // links[m][1] for _, number, route in flows for m in route]
    folded = max_min(first, list(itertools.chain(*routes)), weight, [capacity for capacity, _ in links], limits)

    begin = list(itertools.accumulate((copies for _, copies in links), initial=0))
    each = [(f, [begin[m] + n % links[m][1] for m in route]) for f, (_, k, route) in enumerate(flows) for n in range(k)]
    capacity = [capacity for capacity, copies in links for _ in range(copies)]
    whole = rates_of(capacity, [route for _, route in each], [limits[f] for f, _ in each])
    assert whole == [folded[f] for f, _ in each]
