"""The search behind ZB-1p and ZB-2p keeps its limit, and is no worse than what it starts from."""

import numpy as np
import pytest

from helpers.splits import straight
from pipesim.base.errors import ScheduleError
from pipesim.core.schedule import RELEASED_BY_INPUT
from pipesim.schedulers import zero_bubble
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.greedy import greedy_order, rules
from pipesim.schedulers.zero_bubble import schedule_of, search, straight_pipeline
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times


@pytest.fixture
def pipeline():
    made = equal_stages.setup("one_f_one_b", 3, 6, Times.of(3.0, None, 2.0, 4.0, 1.0))
    return abstract_pipeline(made.plan, made.costs, made.cluster)


@pytest.mark.parametrize("limit", [3, 4.5, 6])
def test_the_best_rules_are_no_longer_than_the_simple_ones(pipeline, limit):
    best = greedy_order(pipeline, search(pipeline, limit, RELEASED_BY_INPUT, seed=0))
    simple = [greedy_order(pipeline, how) for how in zero_bubble._simple(pipeline, limit, RELEASED_BY_INPUT)]
    assert best.longest <= min(made.longest for made in simple if made.rows is not None)


def test_the_same_seed_gives_the_same_rules_and_a_larger_limit_is_no_worse(pipeline):
    one, same = (greedy_order(pipeline, search(pipeline, 3, 0.0, seed=1)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one.rows, same.rows, strict=True))
    assert greedy_order(pipeline, search(pipeline, 6, 0.0, seed=1)).longest <= one.longest


def test_small_changes_keep_every_field_within_its_range(pipeline):
    rng, how = np.random.default_rng(0), rules(pipeline, hold=np.array([1, 2, 3]), quota=np.zeros(3, np.int64))
    for _ in range(200):
        how = zero_bubble._changed(how, pipeline, rng)
        assert how.hold.min() >= 1
        assert min(how.warm.min(), how.quota.min()) >= 0
        assert max(how.hold.max(), how.warm.max(), how.quota.max()) <= pipeline.microbatches
        assert how.patience in zero_bubble.PATIENCE


def test_a_limit_that_no_order_keeps_is_an_error(pipeline):
    with pytest.raises(ScheduleError, match="it: no device can go on within the limit on memory; use a larger limit"):
        schedule_of(pipeline, rules(pipeline, limit=np.full(3, 0.5)), "it")


def test_plans_whose_replicas_take_whole_microbatches_are_refused():
    made = equal_stages.setup("one_f_one_b", 2, 4, Times())
    with pytest.raises(
        ScheduleError, match="gives whole microbatches to its replicas; it orders plans that split them"
    ):
        straight_pipeline(straight(2, 4, [2, 2], "whole"), made.costs, made.cluster, "it")
