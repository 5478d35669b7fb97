"""Greedy list scheduling keeps its limits and priorities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import jobs
from pipesim.core import legality
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.abstract_time import makespan
from pipesim.schedulers.greedy import greedy_order, positions, rules
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times


def pipeline_of(stages, microbatches, times=None):
    made = equal_stages.setup("one_f_one_b", stages, microbatches, times or Times())
    return abstract_pipeline(made.plan, made.costs, made.cluster)


def text(row):
    return " ".join(f"{'FBIW'[kind]}{m}" for _, kind, m in row.tolist())


@given(job=jobs(), split=st.booleans(), priority=st.sampled_from(sorted(PRIORITIES)))
def test_without_limits_every_order_is_complete_and_legal_and_its_makespan_is_that_of_the_schedule(
    job, split, priority
):
    pipeline = abstract_pipeline(job.plan, job.costs, job.cluster)
    forward, backward = PRIORITIES[priority](pipeline)
    how = rules(pipeline, forward_key=forward, backward_key=backward, split=split, strict=False)
    made = greedy_order(pipeline, how)
    schedule = pipeline.schedule(made.rows)
    legality.check(schedule, job.plan)
    assert made.makespan == makespan(pipeline, schedule)
    assert made.longest <= made.makespan


@given(stages=st.integers(1, 5), microbatches=st.integers(1, 8), limit=st.integers(1, 6), split=st.booleans())
def test_no_lane_keeps_more_microbatches_than_its_limit(stages, microbatches, limit, split):
    pipeline = pipeline_of(stages, microbatches)
    made = greedy_order(pipeline, rules(pipeline, limit=np.full(stages, float(limit)), split=split))
    for row in made.rows:
        change = np.select([row[:, 1] == FORWARD, np.isin(row[:, 1], [BACKWARD, WEIGHT])], [1, -1], 0)
        assert change.cumsum().max() <= limit


def test_one_microbatch_in_flight_per_later_stage_is_1f1b():
    pipeline = pipeline_of(3, 5)
    made = greedy_order(pipeline, rules(pipeline, hold=np.array([3, 2, 1])))
    assert [text(row) for row in made.rows] == [
        "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4",
    ]


def test_a_limit_that_no_order_keeps_gives_none():
    pipeline = pipeline_of(2, 4)
    assert greedy_order(pipeline, rules(pipeline, limit=np.full(2, 0.5))).rows is None


@pytest.mark.parametrize(("quota", "expected"), [(0, "F0 I0 W0 F1 I1 W1"), (4, "F0 I0 F1 I1 W0 W1")])
def test_weights_gradients_wait_until_there_are_more_than_the_quota(quota, expected):
    pipeline = pipeline_of(1, 2)
    made = greedy_order(pipeline, rules(pipeline, split=True, quota=np.array([quota])))
    assert text(made.rows[0]) == expected
    assert set(made.rows[0][:, 1]) == {FORWARD, INPUT, WEIGHT}


def test_positions_number_the_forwards_of_a_lane_by_their_keys():
    made = equal_stages.setup("interleaved(chunks=2)", 2, 2, Times())
    pipeline = abstract_pipeline(made.plan, made.costs, made.cluster)
    keys = np.array([[0, 1], [0, 1], [2, 3], [2, 3]])
    assert positions(pipeline, keys).tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]
