"""The lines of a ledger sum to the step, and each is what theory says where theory knows it."""

import dataclasses
import random

import numpy as np
import pytest

from fuzz import ledgers
from helpers import recorded_runs
from helpers.networks import chain, pipeline_trace
from helpers.places import DATA, needs_data
from pipesim.analysis.ledger import IDEAL, Ledger, Line, ledger, recorded_ledger
from pipesim.analysis.removed_causes import CAUSES
from pipesim.base.errors import InputError
from pipesim.core.program import FORWARD
from pipesim.core.recorded_run import RunLayout
from pipesim.core.scenario import Scenario, Slow
from pipesim.engines import compiled
from pipesim.importers.run_opening import open_run
from pipesim.lowering import lower
from pipesim.lowering.recorded_steps import recorded_step
from pipesim.studies import results


def makespan(program):
    return compiled.run(program).makespan


def lines_of(program):
    return {line.cause: line for line in ledger(program, makespan).lines}


def pipeline(stages=4, microbatches=8, **options):
    """Stages of 1 us forward and 2 us backward; transfers of a byte."""
    trace = pipeline_trace([1000] * stages, [2000] * stages, [1] * (stages - 1))
    return lower(results.make_setup(trace, chain(stages), "uniform", "gpipe", microbatches, sharing="none", **options))


def test_an_even_pipeline_fills_and_drains_for_one_microbatch_of_each_other_stage():
    found = lines_of(pipeline(stages=4, microbatches=8))
    assert found[IDEAL].ns == 8 * 3000
    assert found["fill_and_drain"].ns == 3 * 3000
    assert found["fill_and_drain"].without_ns < found[IDEAL].ns + 100
    assert found["imbalance"].ns == 0


def test_imbalance_is_what_the_busiest_stage_has_above_the_mean():
    trace = pipeline_trace([1000, 3000], [2000, 6000], [0])
    found = lines_of(lower(results.make_setup(trace, chain(2), "uniform", "gpipe", 5, sharing="none")))
    assert found[IDEAL].ns == 5 * 6000
    assert found["imbalance"].ns == 5 * 3000


def test_optimizer_steps_at_the_end_are_a_line_of_their_own():
    trace = pipeline_trace([1000, 1000], [2000, 2000], [0])
    layers = trace.layers | {"parameter_bytes": np.array([500, 500])}
    trace = dataclasses.replace(trace, layers=layers)
    program = lower(results.make_setup(trace, chain(2), "uniform", "gpipe", 3, optimizer_s_per_byte=1e-9))
    assert lines_of(program)["optimizer"].ns == 500


def test_a_slow_replica_is_waiting_for_it_and_a_straggler():
    slow = Scenario(slow=(Slow("gpu3", 2.0),))
    setup = results.make_setup(
        "bert-large", 'flat(4, bandwidth="100GB/s")', pipeline=2, data=2, microbatches=8, scenario=slow
    )
    program = lower(setup)
    found = ledger(program, makespan)
    lines = {line.cause: line for line in found.lines}
    calm = makespan(lower(dataclasses.replace(setup, scenario=Scenario())))
    assert lines["slow_devices"].without_ns == calm
    # One of two replicas is slow: the mean of both is half the way.
    assert lines["replicas"].ns == pytest.approx((found.step_ns - calm) / 2, rel=0.02)
    helping = found.stragglers[0]
    assert (helping.what, helping.without_ns) in {("replica", calm), ("stage", calm)}


def test_one_slow_microbatch_is_spread_over_all():
    program = pipeline(stages=2, microbatches=4)
    duration = program.duration.copy()
    duration[np.flatnonzero((program.kind == FORWARD) & (program.microbatch == 1))] += 4000
    found = ledger(dataclasses.replace(program, duration=duration), makespan)
    lines = {line.cause: line for line in found.lines}
    assert lines[IDEAL].ns == 4 * 3000 + 4000
    assert lines["forward"].ns > 0
    assert "backward" not in lines, "nothing varies there"


def test_lines_that_do_not_sum_to_the_step_are_refused():
    with pytest.raises(InputError, match="sum of 7 ns found; 8 ns"):
        Ledger(8, (Line("p2p", 3, 4), Line(IDEAL, 4, 4)))


def test_drawn_programs_sum_exactly_and_obey_the_rules_without_any_cause():
    """A thousand of them in `make fuzz`; the engines agree on what is left."""
    found = " ".join(ledgers.attempt(seed) for seed in range(12))
    assert sum(cause in found for cause in CAUSES) >= 10, found


def test_a_line_that_takes_too_much_would_be_found():
    """The campaign compares the sum with a step of its own, not with that of the ledger."""
    program = pipeline()
    with pytest.raises(AssertionError):
        ledgers.judge(program, lambda program: makespan(program) + 1, random.Random(0))


def test_the_ledger_of_a_recorded_step_sums_to_it_launch_gaps_included():
    run = recorded_runs.pipelined(RunLayout(2, 2), microbatches=3, steps=2)
    for position in range(2):
        found = recorded_ledger(recorded_step(run, position), makespan)
        assert found.step_ns == run.step_ns[position]
        assert sum(line.ns for line in found.lines) == found.step_ns
        assert found.lines[0].cause == "launch_gaps"
        assert {"optimizer", "gradients", "p2p", "fill_and_drain"} <= {line.cause for line in found.lines}


def test_ledgers_of_published_jobs_sum_to_their_steps():
    """The job with uneven sequences waits for the slowest of its replicas; all of its steps are in experiments/."""
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    run = open_run([needs_data(DATA / "measured" / "straggler" / "trace-SE.parquet")])
    found = recorded_ledger(recorded_step(run, 20), makespan)
    lines = {line.cause: line for line in found.lines}
    assert found.step_ns == pytest.approx(run.step_ns[20], rel=1e-4)
    assert sum(line.ns for line in found.lines) == found.step_ns
    assert lines["replicas"].ns > 0.1 * found.step_ns
    assert lines["replicas"].without_ns == pytest.approx(found.step_ns - lines["replicas"].ns, rel=0.1)
