"""Programs without a cause of their time are what they would be if it was not there."""

import dataclasses

import numpy as np
import pytest

from helpers import recorded_runs, small_programs
from helpers.networks import chain, pipeline_trace
from pipesim.analysis.removed_causes import RecordedRemoval, Removal
from pipesim.core.program import BACKWARD, FORWARD, WEIGHT
from pipesim.core.recorded_run import RECEIVE_ACTIVATION, RECEIVES, RunLayout
from pipesim.engines import compiled, event
from pipesim.lowering import lower
from pipesim.lowering.recorded_steps import recorded_step
from pipesim.studies import results


def makespan(program):
    return compiled.run(program).makespan


@pytest.mark.parametrize("transfers", ["rendezvous", "blocking"])
def test_without_posting_a_program_is_as_it_is_lowered_with_eager_transfers(transfers):
    posted, eager = (small_programs.replicated(transfers=how, sharing="fair") for how in (transfers, "eager"))
    ((found, weight),) = Removal(posted).without(["posting"])
    assert weight == 1
    assert found.needs != posted.needs
    assert makespan(found) == makespan(eager)
    assert np.array_equal(compiled.run(found).end, compiled.run(eager).end)


def test_pairs_that_are_sent_in_one_exchange_are_sent_apart_without_posting():
    found, posted = (
        lower(results.make_setup("bert-large", 'flat(4, bandwidth="1GB/s")', "uniform", microbatches=6, transfers=how))
        for how in ("eager", "paired")
    )
    ((apart, _),) = Removal(posted).without(["posting"])
    assert np.array_equal(compiled.run(apart).end, compiled.run(found).end)


def test_the_first_backward_may_have_a_time_of_its_own_without_being_a_straggler():
    trace = pipeline_trace([1000] * 2, [2000] * 2, [1])
    program = lower(results.make_setup(trace, chain(2), "uniform", "gpipe", 4, sharing="none"))
    duration = program.duration.copy()
    backwards = np.flatnonzero(program.kind == BACKWARD)
    duration[backwards[program.microbatch[backwards] == 0]] += 500
    causes = Removal(dataclasses.replace(program, duration=duration)).causes
    assert "backward" not in causes


def test_with_everything_removed_every_device_has_the_same_work():
    program = small_programs.replicated(microbatches=6, transfers="blocking")
    removal = Removal(program)
    for found, _ in removal.without(removal.causes):
        timeline = compiled.run(found)
        timeline.verify()
        work = np.where(found.is_compute & (found.kind <= WEIGHT), found.duration, 0)
        busy = np.bincount(found.lane[found.is_compute], work[found.is_compute])
        assert timeline.makespan == busy.max()
        assert np.ptp(busy) <= len(found), "but for rounding"


def test_without_posting_a_recorded_computation_waits_for_what_it_receives_only():
    run = recorded_runs.pipelined(RunLayout(3, 2), microbatches=4, steps=1)
    removal = RecordedRemoval(recorded_step(run, 0))
    assert "posting" in removal.causes
    ((left, _),) = removal.without(["posting"])
    timeline = compiled.run(left)
    timeline.verify()
    assert timeline.same_as(event.run(left))
    assert timeline.makespan <= makespan(removal.program)
    end = timeline.end
    for row in np.flatnonzero(np.isin(run.kind, RECEIVES)).tolist():
        same = (run.rank == run.rank[row]) & (run.stage == run.stage[row]) & (run.microbatch == run.microbatch[row])
        kind = FORWARD if run.kind[row] == RECEIVE_ACTIVATION else BACKWARD
        (reader,) = np.flatnonzero(same & (run.kind == kind))
        assert timeline.start[reader] >= end[row]


def test_messages_whose_computations_are_not_known_are_left_as_they_are():
    run = recorded_runs.pipelined(RunLayout(2, 1), microbatches=2, steps=1)
    unknown = np.where(np.isin(run.kind, RECEIVES), -1, run.microbatch)
    removal = RecordedRemoval(recorded_step(dataclasses.replace(run, microbatch=unknown), 0))
    assert "posting" not in removal.causes
