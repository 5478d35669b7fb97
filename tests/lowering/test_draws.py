"""Times drawn from samples: what tasks share of a draw, and that nothing else is shared."""

import numpy as np
import pytest

from helpers.networks import chain, pipeline_trace
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import BACKWARD, FORWARD
from pipesim.core.trace import Trace
from pipesim.lowering import DRAWS, Setup, lower, redraw
from pipesim.schedulers.gpipe import gpipe


def test_a_draw_takes_only_recorded_samples_and_depends_on_the_seed_alone():
    layers = pipeline_trace([1], [1]).layers
    repeated = {name: np.repeat(values, 3) for name, values in layers.items()} | {
        "sample": np.arange(3),
        "forward_s": np.array([10e-9, 20e-9, 70e-9]),
    }
    costs = costs_of(Trace("m", "test", 1, repeated))
    plan = Plan("m", 1, 50, (Stage(0, 1, ("g0",)),))
    cluster = chain(1)
    program = lower(Setup(plan, gpipe(plan), costs, cluster))
    assert set(program.duration[program.kind == FORWARD]) == {20}, "the median"
    drawn = redraw(program, Setup(plan, gpipe(plan), costs, cluster), rng=np.random.default_rng(1))
    assert set(drawn.duration[drawn.kind == FORWARD]) == {10, 20, 70}
    again = redraw(program, Setup(plan, gpipe(plan), costs, cluster), rng=np.random.default_rng(1))
    assert np.array_equal(drawn.duration, again.duration)


def test_jitter_keeps_the_mean_and_has_the_stated_variation():
    costs = costs_of(pipeline_trace([1_000_000], [1_000_000]))
    plan = Plan("by hand", 1, 20_000, (Stage(0, 1, ("g0",)),))
    program = lower(Setup(plan, gpipe(plan), costs, chain(1)))
    drawn = redraw(program, Setup(plan, gpipe(plan), costs, chain(1)), rng=np.random.default_rng(0), jitter=0.2)
    drawn = drawn.duration / 1e6
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.std() == pytest.approx(0.2, abs=0.01)


def joint_setup(microbatches=6, samples=40):
    """Two stages; sample s of both layers takes 100 (s + 1) forward and 200 (s + 1) backward."""
    layers = pipeline_trace([1, 1], [1, 1], [0]).layers
    repeated = {name: np.repeat(values, samples) for name, values in layers.items()}
    length = np.tile(np.arange(samples) + 1.0, 2)
    columns = {"sample": np.tile(np.arange(samples), 2), "forward_s": length * 100e-9, "backward_s": length * 200e-9}
    trace = Trace("joint", "test", 1, repeated | columns, samples="microbatch")
    plan = Plan("by hand", 2, microbatches, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    return Setup(plan, gpipe(plan), costs_of(trace), chain(2))


def lengths(draw, jitter=0.0):
    """The drawn samples, [stage and direction, microbatch]."""
    setup = joint_setup()
    program = lower(setup)
    drawn = redraw(program, setup, rng=np.random.default_rng(5), jitter=jitter, draw=draw)
    found = np.zeros((4, 6))
    for stage in (0, 1):
        for kind, unit in ((FORWARD, 100), (BACKWARD, 200)):
            rows = np.flatnonzero((program.stage == stage) & (program.kind == kind))
            found[2 * stage + (kind == BACKWARD), program.microbatch[rows]] = drawn.duration[rows] / unit
    return found


def test_a_microbatch_has_one_sample_in_all_stages_and_both_directions():
    found = lengths("microbatch")
    assert (found == found[0]).all()
    assert len(set(found[0])) > 1


def test_a_step_has_one_sample():
    assert len(np.unique(lengths("step"))) == 1


def test_a_layer_has_one_sample_of_a_microbatch_in_both_directions():
    found = lengths("layer")
    assert (found[0] == found[1]).all()
    assert (found[2] == found[3]).all()
    assert (found[0] != found[2]).any()


def test_independent_tasks_share_nothing():
    found = lengths("independent")
    assert all((found[n] != found[0]).any() for n in (1, 2, 3))


@pytest.mark.parametrize("draw", DRAWS)
def test_jitter_is_shared_as_samples_are(draw):
    factor = lengths(draw, jitter=0.3) / lengths(draw)
    per_microbatch = np.ptp(factor, axis=0).max() < 0.01
    assert per_microbatch == (draw in {"microbatch", "step"})
    assert (np.ptp(factor) < 0.01) == (draw == "step")


def test_every_draw_has_the_mean_of_the_samples():
    setup = joint_setup(microbatches=2000)
    program = lower(setup)
    for draw in ("microbatch", "layer", "independent"):
        drawn = redraw(program, setup, rng=np.random.default_rng(0), draw=draw)
        assert drawn.duration[program.kind == FORWARD].mean() == pytest.approx(100 * 20.5, rel=0.04)
