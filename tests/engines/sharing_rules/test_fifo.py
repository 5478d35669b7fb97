"""Links that serve transfers one at a time, in order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import ends_of

arrivals_on_a_link = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 10_000), st.just([0]), st.sampled_from([0, 7])),
    min_size=1,
    max_size=10,
)


def test_fifo_serves_in_order_of_arrival():
    assert ends_of([1.0], [(5, 100, [0]), (0, 100, [0])], "fifo") == [200, 100]


def test_fifo_settles_equal_arrivals_by_task_index():
    assert ends_of([1.0], [(0, 10, [0]), (0, 20, [0]), (0, 30, [0])], "fifo") == [10, 30, 60]


def test_a_fifo_transfer_holds_every_link_of_its_route_at_its_bottleneck():
    """Flow 0 takes both links at the speed of link 0; flow 1 waits for the fast link all that time."""
    assert ends_of([1.0, 10.0], [(0, 100, [0, 1]), (1, 100, [1])], "fifo") == [100, 110]


def test_none_overtakes_another_on_a_shared_link():
    """Flow 1 waits for link 0, and flow 2 behind it for link 1, although link 1 is idle until 100."""
    flows = [(0, 100, [0]), (1, 100, [0, 1]), (2, 10, [1])]
    assert ends_of([1.0, 1.0], flows, "fifo") == [100, 200, 210]


@settings(max_examples=60)
@given(arrivals_on_a_link)
def test_fifo_keeps_a_single_link_busy_without_a_gap(flows):
    """On one link the transfers follow each other: each starts when it is ready or when the one before has ended."""
    found = ends_of([1.0], flows, "fifo")
    free = 0
    for ready, index in sorted((flow[0], i) for i, flow in enumerate(flows)):
        free = max(free, ready) + flows[index][3] + flows[index][1]
        assert found[index] == free
