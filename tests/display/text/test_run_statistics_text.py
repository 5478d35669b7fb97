"""Stragglers of a recorded run, and steps drawn from it, as text."""

from helpers import recorded_runs
from pipesim.analysis.straggler_metrics import straggler_metrics
from pipesim.core.recorded_run import RunLayout
from pipesim.display import text
from pipesim.engines.compiled import makespans
from pipesim.studies.run_prediction import RunModel, predicted

RUN = recorded_runs.pipelined(RunLayout(2, 2), microbatches=3, steps=4)


def test_stragglers_are_shown_by_replica_stage_and_operation():
    data = straggler_metrics(RUN, makespans).as_data()
    shown = text.stragglers(data)
    assert shown.startswith("slowdown by stragglers")
    assert "the worst rank, " in shown
    assert all(f"\n{name}" in shown for name in ("replica 0", "replica 1", "stage 0", "stage 1", "forward messages"))
    assert "replica 1" not in text.stragglers(data | {"by_replica": {"0": 1.5}})


def test_drawn_steps_are_shown_with_what_computing_times_share():
    data = predicted(RunModel.of(RUN), 5).as_data()
    shown = text.prediction(data)
    assert shown.startswith("steps drawn from the run\niterations")
    assert "90 % of steps" in shown
    assert "of the step: the others wait for it" in shown
    assert "< 0.001" in shown, "steps differ by a tenth"
    assert "left out" not in shown
    assert "left out" in text.prediction(data | {"unusual_steps": [3], "slowest_replica_share": None})
