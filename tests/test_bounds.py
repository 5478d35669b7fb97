"""No schedule beats the bound, and some reach it."""

import pytest
from hypothesis import given, settings

from networks import chain, pipeline, pipeline_trace
from pipesim import metrics
from pipesim.bounds import schedule_bound
from pipesim.costs import costs_of
from pipesim.engines.event import run
from pipesim.plan import Plan, Stage
from strategies import jobs


@settings(max_examples=300)
@given(jobs(calm=True, split_backwards=False))
def test_no_drawn_schedule_beats_the_bound(job):
    bound = schedule_bound(job.plan, job.costs, job.cluster)
    rounded = 1e-9 * len(job.program)
    if max(map(len, job.plan.chunks)) == 1:
        assert metrics.iteration_time(run(job.program)) >= bound - rounded


def test_equal_stages_reach_the_bound():
    plan = Plan("by hand", 4, 8, tuple(Stage(n, n + 1, (f"g{n}",)) for n in range(4)))
    bound = schedule_bound(plan, costs_of(pipeline_trace([1] * 4, [2] * 4)), chain(4))
    timeline = run(pipeline([1] * 4, [2] * 4, 8, "one_f_one_b"))
    assert bound == pytest.approx(metrics.iteration_time(timeline)) == pytest.approx(33e-9)


def test_whole_replicas_share_the_microbatches():
    """Five microbatches of 3 ns on two replicas: one has three of them."""
    plan = Plan("by hand", 1, 5, (Stage(0, 1, ("g0", "g1")),), "whole")
    assert schedule_bound(plan, costs_of(pipeline_trace([1], [2])), chain(2)) == pytest.approx(9e-9)
