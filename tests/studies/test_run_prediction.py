"""Steps drawn from a recorded run: with recorded times they are the recorded steps; drawn ones vary as those."""

import dataclasses

import numpy as np
import pytest

from helpers import recorded_runs
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import COLLECTIVE, RunLayout
from pipesim.studies.run_prediction import RunModel, predicted


@pytest.fixture(scope="module")
def model():
    """Ten steps of 2 stages and 2 replicas, each step a tenth longer than the one before."""
    return RunModel.of(recorded_runs.pipelined(RunLayout(2, 2), microbatches=3, steps=10))


def test_a_step_with_its_own_times_takes_as_long_as_recorded(model):
    for position in range(len(model.steps)):
        assert model.step_ns(position, model.times.ns[position]) == model.run.step_ns[position]


def test_draws_depend_on_the_seed_and_on_nothing_else(model):
    five = predicted(model, 5, seed=3).seconds
    assert np.array_equal(five[:3], predicted(model, 3, seed=3).seconds)
    assert not np.array_equal(five, predicted(model, 5, seed=4).seconds)


def test_steps_that_share_everything_are_drawn_so(model):
    assert "step" in model.variance.found
    found, apart = (predicted(model, 60, level=level, slowest_of=0) for level in ("found", "independent"))
    assert found.seconds.std() > 1.5 * apart.seconds.std(), "what steps share does not average out"
    assert found.seconds.mean() == pytest.approx(model.run.step_ns.mean() / 1e9, rel=0.1)
    low, high = found.interval
    assert low < found.seconds.mean() < high


def test_a_step_with_a_slow_collective_is_not_what_others_are_like():
    run = recorded_runs.pipelined(RunLayout(2, 2), microbatches=3, steps=10)
    slow = (run.step == 4) & ((run.kind > COLLECTIVE) | (run.kind == COLLECTIVE))
    later = np.where(slow, 400_000_000, 0)
    begins = np.where(slow & (run.kind != COLLECTIVE), later, 0)
    run = dataclasses.replace(run, start=run.start + begins, end=run.end + later)
    found = predicted(RunModel.of(run), 4)
    assert found.unusual == (run.steps[4],)
    assert found.as_data()["unusual_steps"] == [run.steps[4]]


def test_replicas_that_differ_wait_for_the_slowest():
    run = recorded_runs.pipelined(RunLayout(2, 2), microbatches=3, steps=6)
    calm = predicted(RunModel.of(run), 6, level="step")
    assert calm.slowest_share == pytest.approx(0, abs=1e-6)
    one = predicted(RunModel.of(recorded_runs.pipelined(RunLayout(2, 1), microbatches=3, steps=6)), 2)
    assert one.slowest_share is None


def test_what_cannot_be_drawn_is_refused(model):
    with pytest.raises(InputError, match="level"):
        predicted(model, 3, level="rank")
    with pytest.raises(InputError, match="iterations = 0 found"):
        predicted(model, 0)
