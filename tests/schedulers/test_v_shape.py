"""Schedules on a V of chunks, from a block and a limit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies  # noqa: F401 - its profile for Hypothesis
from helpers.splits import straight
from pipesim.analysis import metrics
from pipesim.base.errors import ScheduleError
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.schedulers import v_half, v_min
from pipesim.schedulers.v_shape import v_schedule
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times
from pipesim.studies.ordering import schedule_with


@given(st.lists(st.tuples(*[st.integers(1, 9)] * 3), min_size=12, max_size=12), st.integers(1, 6), st.integers(1, 9))
def test_schedules_on_a_v_have_no_deadlock_for_any_costs(times, p, m):
    """And they keep their limits, in chunks."""
    made = equal_stages.setup("zb_v", p, m, Times())
    for name, most in (("v_half", p + 2), ("v_min", v_min.limit_of(p))):
        forward, input_grad, weight_grad = np.array(times[: 2 * p], float).T
        samples = made.costs.samples | {
            "forward": forward,
            "backward_input": input_grad,
            "backward_weight": weight_grad,
        }
        schedule = schedule_with(name, made.plan, replace(made.costs, samples=samples), made.cluster)
        timeline = by_name.run(lower(replace(made, schedule=schedule)))
        assert metrics.in_flight(timeline).max() <= most
        timeline.verify()


def test_a_limit_below_that_of_the_block_is_an_error():
    made = equal_stages.setup("v_half", 4, 8, Times())
    with pytest.raises(ScheduleError, match="v_test: no device can go on within the limit on memory"):
        v_schedule(made.plan, made.costs, made.cluster, v_half.block_of(4), 1, "v_test")


def test_plans_without_two_chunks_are_refused():
    made = equal_stages.setup("v_half", 4, 8, Times())
    with pytest.raises(ScheduleError, match="v_test orders plans in which stages go down the devices and up again"):
        v_schedule(straight(4, 8), made.costs, made.cluster, v_half.block_of(4), 6, "v_test")
