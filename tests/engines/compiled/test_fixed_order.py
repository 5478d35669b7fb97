"""Programs in which the order on every link is known before time starts."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers import strategies
from pipesim.engines import event
from pipesim.engines.compiled import fixed_order
from pipesim.lowering import Options, lower
from pipesim.studies import equal_stages, results


@settings(max_examples=40)
@given(program=st.one_of(strategies.programs, strategies.even_programs))
def test_a_fixed_order_gives_the_reference_s_times(program):
    order = fixed_order.order_of(program)
    assume(order is not None and (program.duration[program.is_compute] > 0).all())
    start, end = fixed_order.times(order, program.duration)
    reference = event.run(program)
    assert np.array_equal(start, reference.start)
    assert np.array_equal(end, reference.end)


@pytest.mark.parametrize(
    ("sharing", "cluster", "is_fixed"),
    [("none", "flat", True), ("fifo", "flat", False), ("fair", "ring", False), ("fifo", "ring", True)],
)
def test_an_order_is_fixed_where_no_link_has_two_senders(sharing, cluster, is_fixed):
    """On a flat cluster the stages before and after send to the same port; on a ring every link has one sender."""
    if cluster == "ring":
        made = equal_stages.setup("one_f_one_b", 4, 8, equal_stages.Times.of(1, 2, hop=0.5), None, Options(sharing))
    else:
        made = results.make_setup(
            "bert-large", 'flat(4, bandwidth="1GB/s")', "balanced", "one_f_one_b", 8, options=Options(sharing)
        )
    assert (fixed_order.order_of(lower(made)) is not None) == is_fixed


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=10, max_size=10))
def test_tasks_come_after_what_they_wait_for(needs):
    """Task t waits for tasks before it; of a circle none is returned."""
    rows = [[need for need in row if need < task] for task, row in enumerate(needs)]
    first = np.cumsum([0, *map(len, rows)])
    before = np.array([need for row in rows for need in row], np.int64)
    place = np.empty(10, np.int64)
    place[fixed_order.sorted_tasks(first, before, 10)] = np.arange(10)
    assert all(place[need] < place[task] for task, row in enumerate(rows) for need in row)
    circle = fixed_order.sorted_tasks(np.array([0, 1, 2, 2]), np.array([1, 0]), 3)
    assert circle.tolist() == [2]


@pytest.mark.parametrize("sets", [1, fixed_order.BLOCK, fixed_order.BLOCK + 3])
def test_a_block_of_sets_ends_as_each_alone(sets):
    program = lower(
        equal_stages.setup("one_f_one_b", 4, 8, equal_stages.Times.of(1, 2, hop=0.5), None, Options("fifo"))
    )
    order = fixed_order.order_of(program)
    durations = np.random.default_rng(sets).integers(1, 1000, (len(program), sets))
    found = fixed_order.ends(order, np.arange(len(program)), durations)
    assert found.tolist() == [fixed_order.times(order, durations[:, n])[1].max() for n in range(sets)]
