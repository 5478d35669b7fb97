"""Levels of a run's computing times are found where they are, and drawn steps have the same variance."""

import numpy as np
import pytest

from helpers import recorded_runs
from pipesim.analysis.run_variance import APART, SIGNIFICANT, ComputingTimes, RunVariance, StepDraws
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import BACKWARD, FORWARD, RunLayout

SHAPE = (24, 12, 8, 4)  # steps, replicas, microbatches, operations: forward and backward of two stages
AXES = {"step": 1, "rank": 2, "rank_in_step": 2, "microbatch": 3}


def times(seed=0, **deviations):
    """Times whose levels have these standard deviations, `rest` among them."""
    rng = np.random.default_rng(seed)
    factor = 1 + deviations.get("rest", 0.02) * rng.normal(size=SHAPE)
    for level, shape in {
        "step": (SHAPE[0], 1, 1, 1),
        "rank_in_step": (*SHAPE[:2], 1, 1),
        "microbatch": (*SHAPE[:3], 1),
    }.items():
        factor = factor + deviations.get(level, 0.0) * rng.normal(size=shape)
    factor = factor + deviations.get("rank", 0.0) * np.repeat(rng.normal(size=(1, SHAPE[1], 1, 2)), 2, axis=3)
    stage, kind = np.array([0, 0, 1, 1]), np.array([FORWARD, BACKWARD] * 2)
    return ComputingTimes(factor * [1e6, 2e6, 3e6, 6e6], stage, kind, np.arange(factor.size).reshape(SHAPE))


def shares(found):
    return {one.level: one.share for one in found.components}


@pytest.mark.parametrize("level", AXES)
def test_a_level_is_found_with_its_share_of_the_variance(level):
    found = RunVariance.of(times(seed=1, **{level: 0.1, "rest": 0.1}))
    assert [one.level for one in found.components if one.is_found] == [level]
    assert shares(found)[level] == pytest.approx(0.5, abs=0.2)
    assert sum(shares(found).values()) + found.rest == pytest.approx(1)
    assert found.as_data()["found"] == [level]


def test_levels_that_are_not_there_are_rarely_found():
    """A hundredth of these 160 tests is expected to find one."""
    found = [one.p for seed in range(40) for one in RunVariance.of(times(seed)).components]
    assert sum(p < SIGNIFICANT for p in found) <= 6
    assert sum(p < 0.5 for p in found) > 40, "a test that never finds anything is none"


@pytest.mark.parametrize("level", AXES)
def test_drawn_steps_vary_as_recorded_ones(level):
    recorded = times(**{level: 0.1, "rest": 0.02})
    draws, rng = StepDraws(recorded), np.random.default_rng(1)
    drawn = np.stack([draws.draw(rng) for _ in range(200)])
    assert drawn.mean(axis=(0, 1, 2)) == pytest.approx(recorded.mean, rel=0.02)
    found = ComputingTimes(drawn, recorded.stage, recorded.kind, np.zeros(drawn.shape, np.int64))
    assert shares(RunVariance.of(found))[level] == pytest.approx(shares(RunVariance.of(recorded))[level], abs=0.1)
    assert found.factor.std() == pytest.approx(recorded.factor.std(), rel=0.15)


def test_microbatches_of_a_rank_are_drawn_apart_only_where_nothing_speaks_for_what_they_share():
    """A share of 1 % is rarely found in 24 steps, and without it the slowest of many replicas would be too fast."""
    recorded = {name: times(0, microbatch=0.2, rank_in_step=shared) for name, shared in (("little", 0.02), ("none", 0))}
    found = {name: RunVariance.of(one) for name, one in recorded.items()}
    p = {name: {one.level: one.p for one in each.components}["rank_in_step"] for name, each in found.items()}
    assert SIGNIFICANT < p["little"] < APART < p["none"]
    assert {name: each.as_data()["together"] for name, each in found.items()} == {
        "little": "rank_in_step", "none": "microbatch",
    }  # fmt: skip
    drawn = StepDraws(recorded["little"]).draw(np.random.default_rng(1)) / recorded["little"].mean
    whole = recorded["little"].factor.reshape(-1, *SHAPE[2:])
    assert all(np.isclose(whole, one).all(axis=(1, 2)).any() for one in drawn), "all microbatches as in one step"
    assert RunVariance.of(times(1)).together == "independent"


def test_a_slow_rank_stays_slow():
    recorded = times(rank=0.1)
    draws, rng = StepDraws(recorded), np.random.default_rng(1)
    slow = np.stack([draws.draw(rng) for _ in range(50)]).mean(axis=(0, 2))
    assert np.corrcoef(slow.ravel(), recorded.ns.mean(axis=(0, 2)).ravel())[0, 1] > 0.99


def test_what_is_drawn_together_can_be_given():
    recorded = times(microbatch=0.2, rest=0.001)
    draws, rng = StepDraws(recorded), np.random.default_rng(1)
    drawn = {level: draws.draw(rng, level) / recorded.mean for level in ("step", "microbatch", "independent")}
    assert any(np.array_equal(drawn["step"], one) for one in recorded.factor)
    assert np.ptp(drawn["microbatch"], axis=2).max() < 0.02
    assert np.ptp(drawn["independent"], axis=2).max() > 0.2


def test_the_times_of_a_run_are_those_of_its_operations():
    run = recorded_runs.pipelined(RunLayout(2, 3), microbatches=4, steps=5)
    found = ComputingTimes.of(run)
    assert found.ns.shape == (5, 3, 4, 4)
    assert np.array_equal(found.ns, (run.end - run.start)[found.row])
    assert set(zip(found.stage.tolist(), found.kind.tolist(), strict=True)) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert np.array_equal(run.microbatch[found.row][2, 1, :, 0], np.arange(4))
    drawn = StepDraws(found).draw(np.random.default_rng(0))
    assert drawn.shape == (3, 4, 4)
    assert (drawn > 0).all()


def test_a_run_that_lacks_computations_is_refused():
    run = recorded_runs.pipelined(RunLayout(2, 1), microbatches=4, steps=2)
    lost = np.arange(len(run)) != np.flatnonzero(run.is_computation)[3]
    with pytest.raises(InputError, match="1 of 32 computations are missing"):
        ComputingTimes.of(run.select(lost))


def test_a_run_of_one_step_and_one_replica_has_times_that_vary_by_microbatch_only():
    one = times(microbatch=0.1)
    single = ComputingTimes(one.ns[:1, :1], one.stage, one.kind, one.row[:1, :1])
    found = RunVariance.of(single)
    assert [level.level for level in found.components if level.is_found] == ["microbatch"]
    assert StepDraws(single).draw(np.random.default_rng(0)).shape == (1, 8, 4)
