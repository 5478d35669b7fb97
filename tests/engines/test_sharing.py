"""Fair and first-come sharing of links: by hand, against the definition, and over time."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.linear_solver import pywraplp

from helpers.networks import network
from pipesim.engines.event import run
from pipesim.engines.sharing import max_min

BYTE_SIZES = st.integers(1, 10_000)


def ends(capacity, flows, sharing, limits=None):
    """When each flow of `network` ends."""
    timeline = run(network(capacity, flows, sharing, limits))
    timeline.verify()
    return timeline.end[len(flows) :].tolist()


# --- fair, by hand ---------------------------------------------------------------------------------------------------


def test_a_flow_alone_has_the_link_for_itself():
    assert ends([1.0], [(0, 100, [0])], "fair") == [100]


def test_two_equal_flows_on_one_link_take_twice_as_long():
    assert ends([1.0], [(0, 100, [0]), (0, 100, [0])], "fair") == [200, 200]


def test_a_flow_that_arrives_at_half_time_shares_from_then_on():
    """50 bytes alone, then 50 each at half speed until 150; the last 50 alone."""
    assert ends([1.0], [(0, 100, [0]), (50, 100, [0])], "fair") == [150, 200]


def test_three_flows_over_two_links():
    """Flow 1 crosses both links: it gets 1/2 of link 0 and leaves 3/2 of link 1's 2 to flow 2."""
    assert ends([1.0, 2.0], [(0, 100, [0]), (0, 100, [0, 1]), (0, 150, [1])], "fair") == [200, 200, 100]


def test_what_one_flow_leaves_goes_to_the_others():
    """A flow that cannot exceed 1/4 leaves 3/4 to the other."""
    assert ends([1.0], [(0, 100, [0]), (0, 300, [0])], "fair", [0.25, np.inf]) == [400, 400]


def test_the_delay_uses_no_bandwidth():
    assert ends([1.0], [(0, 100, [0]), (0, 100, [0], 100)], "fair") == [100, 200]


def test_a_completion_is_rounded_up_to_the_next_nanosecond():
    assert ends([3.0], [(0, 100, [0])], "fair") == [34]


@settings(max_examples=300)
@given(st.lists(BYTE_SIZES, min_size=1, max_size=8))
def test_flows_that_start_together_on_one_link_end_as_processor_sharing_says(flow_sizes):
    """Flow i ends when each flow j has sent min(size_j, size_i); twice the bytes take exactly twice the time."""
    expected = [sum(min(other, own) for other in flow_sizes) for own in flow_sizes]
    assert ends([1.0], [(0, own, [0]) for own in flow_sizes], "fair") == expected
    assert ends([1.0], [(0, 2 * own, [0]) for own in flow_sizes], "fair") == [2 * end for end in expected]


# --- fair, against the definition ------------------------------------------------------------------------------------


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
    return max_min(first, list(itertools.chain(*routes)), capacity, limit)


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


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 20_000), BYTE_SIZES), min_size=1, max_size=12))
def test_flows_that_arrive_at_any_time_end_as_processor_sharing_says(arrivals):
    """On one link there is a clock that runs at 1 / (number of flows): a flow ends when it has gone on by its bytes.

    In fractions; each flow that ends is rounded up to a nanosecond, which can only make the others later.
    """
    arrivals = sorted(arrivals)
    found = ends([1.0], [(time, size, [0]) for time, size in arrivals], "fair")
    now, clock, waiting, here, expected = Fraction(0), Fraction(0), list(enumerate(arrivals)), {}, {}
    while waiting or here:
        ends_at = now + (min(here.values()) - clock) * len(here) if here else None
        if waiting and (ends_at is None or waiting[0][1][0] <= ends_at):
            i, (time, size) = waiting.pop(0)
            clock += (time - now) / Fraction(len(here)) if here else 0
            now, here[i] = Fraction(time), clock + size
        else:
            first = min(here, key=here.get)
            now, clock = ends_at, here.pop(first)
            expected[first] = now
    for i, end in enumerate(found):
        assert expected[i] <= end <= expected[i] + len(arrivals)


flows_over_links = st.lists(
    st.tuples(
        st.integers(0, 500),
        BYTE_SIZES,
        st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True),
        st.sampled_from([0, 7]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=300)
@given(flows_over_links)
def test_rating_only_what_changed_gives_what_rating_everything_gives(flows):
    """Against a plain simulation that rates all flows anew at every change, in exact fractions of time."""
    capacity = [1.0, 2.0, 0.5, 3.0]
    found = ends(capacity, flows, "fair")
    expected = _naive(capacity, flows)
    assert np.abs(np.array(found) - expected).max() <= len(flows) * 2, "at most the nanoseconds that are rounded up"


def _naive(capacity, flows):
    left = [float(size) for _, size, _, _ in flows]
    begins = [ready + delay for ready, _, _, delay in flows]
    end = [None] * len(flows)
    now = 0.0
    while any(e is None for e in end):
        active = [i for i in range(len(flows)) if end[i] is None and begins[i] <= now]
        first = [0, *np.cumsum([len(flows[i][2]) for i in active]).tolist()]
        rate = max_min(first, [m for i in active for m in flows[i][2]], capacity, [np.inf] * len(active))
        nexts = [begins[i] - now for i in range(len(flows)) if begins[i] > now]
        nexts += [left[i] / r for i, r in zip(active, rate, strict=True)]
        step = min(nexts)
        now += step
        for i, r in zip(active, rate, strict=True):
            left[i] -= r * step
            if left[i] <= 1e-7:
                end[i] = now
    return np.array(end)


# --- first come, first served ----------------------------------------------------------------------------------------


def test_fifo_serves_in_order_of_arrival():
    assert ends([1.0], [(5, 100, [0]), (0, 100, [0])], "fifo") == [200, 100]


def test_fifo_settles_equal_arrivals_by_task_index():
    assert ends([1.0], [(0, 10, [0]), (0, 20, [0]), (0, 30, [0])], "fifo") == [10, 30, 60]


def test_a_fifo_transfer_holds_every_link_of_its_route_at_its_bottleneck():
    """Flow 0 takes both links at the speed of link 0; flow 1 waits for the fast link all that time."""
    assert ends([1.0, 10.0], [(0, 100, [0, 1]), (1, 100, [1])], "fifo") == [100, 110]


def test_none_overtakes_another_on_a_shared_link():
    """Flow 1 waits for link 0, and flow 2 behind it for link 1, although link 1 is idle until 100."""
    flows = [(0, 100, [0]), (1, 100, [0, 1]), (2, 10, [1])]
    assert ends([1.0, 1.0], flows, "fifo") == [100, 200, 210]


def test_without_sharing_everybody_has_the_link_alone():
    assert ends([1.0], [(0, 100, [0]), (0, 100, [0])], "none") == [100, 100]


@settings(max_examples=300)
@given(flows_over_links)
def test_fifo_keeps_a_single_link_busy_without_a_gap(flows):
    """On one link the transfers follow each other: each starts when it is ready or when the one before has ended."""
    flows = [(ready, size, [0], delay) for ready, size, _, delay in flows]
    found = ends([1.0], flows, "fifo")
    free = 0
    for ready, index in sorted((flow[0], i) for i, flow in enumerate(flows)):
        free = max(free, ready) + flows[index][3] + flows[index][1]
        assert found[index] == free
