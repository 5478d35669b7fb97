"""Max-min fair sharing of links over time: by hand, and against plain simulations."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import ends_of
from pipesim.engines.max_min import max_min

BYTE_SIZES = st.integers(1, 10_000)


def test_a_flow_alone_has_the_link_for_itself():
    assert ends_of([1.0], [(0, 100, [0])], "fair") == [100]


def test_two_equal_flows_on_one_link_take_twice_as_long():
    assert ends_of([1.0], [(0, 100, [0]), (0, 100, [0])], "fair") == [200, 200]


def test_a_flow_that_arrives_at_half_time_shares_from_then_on():
    """50 bytes alone, then 50 each at half speed until 150; the last 50 alone."""
    assert ends_of([1.0], [(0, 100, [0]), (50, 100, [0])], "fair") == [150, 200]


def test_three_flows_over_two_links():
    """Flow 1 crosses both links: it gets 1/2 of link 0 and leaves 3/2 of link 1's 2 to flow 2."""
    assert ends_of([1.0, 2.0], [(0, 100, [0]), (0, 100, [0, 1]), (0, 150, [1])], "fair") == [200, 200, 100]


def test_what_one_flow_leaves_goes_to_the_others():
    """A flow that cannot exceed 1/4 leaves 3/4 to the other."""
    assert ends_of([1.0], [(0, 100, [0]), (0, 300, [0])], "fair", [0.25, np.inf]) == [400, 400]


def test_the_delay_uses_no_bandwidth():
    assert ends_of([1.0], [(0, 100, [0]), (0, 100, [0], 100)], "fair") == [100, 200]


def test_a_completion_is_rounded_up_to_the_next_nanosecond():
    assert ends_of([3.0], [(0, 100, [0])], "fair") == [34]


@settings(max_examples=150)
@given(st.lists(BYTE_SIZES, min_size=1, max_size=8))
def test_flows_that_start_together_on_one_link_end_as_processor_sharing_says(flow_sizes):
    """Flow i ends when each flow j has sent min(size_j, size_i); twice the bytes take exactly twice the time."""
    expected = [sum(min(other, own) for other in flow_sizes) for own in flow_sizes]
    assert ends_of([1.0], [(0, own, [0]) for own in flow_sizes], "fair") == expected
    assert ends_of([1.0], [(0, 2 * own, [0]) for own in flow_sizes], "fair") == [2 * end for end in expected]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 20_000), BYTE_SIZES), min_size=1, max_size=12))
def test_flows_that_arrive_at_any_time_end_as_processor_sharing_says(arrivals):
    """On one link there is a clock that runs at 1 / (number of flows): a flow ends when it has gone on by its bytes.

    In fractions; each flow that ends is rounded up to a nanosecond, which can only make the others later.
    """
    arrivals = sorted(arrivals)
    found = ends_of([1.0], [(time, size, [0]) for time, size in arrivals], "fair")
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


@settings(max_examples=150)
@given(flows_over_links)
def test_rating_only_what_changed_gives_what_rating_everything_gives(flows):
    """Against a plain simulation that rates all flows at every change, in exact fractions of time."""
    capacity = [1.0, 2.0, 0.5, 3.0]
    found = ends_of(capacity, flows, "fair")
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
        rate = max_min(first, [m for i in active for m in flows[i][2]], [], capacity, [np.inf] * len(active))
        nexts = [begins[i] - now for i in range(len(flows)) if begins[i] > now]
        nexts += [left[i] / r for i, r in zip(active, rate, strict=True)]
        step = min(nexts)
        now += step
        for i, r in zip(active, rate, strict=True):
            left[i] -= r * step
            if left[i] <= 1e-7:
                end[i] = now
    return np.array(end)
