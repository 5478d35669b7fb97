"""Live pipelines: PyTorch's own schedules in two processes, on a small model, with no gate."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; make test-torch runs these tests")

from pipesim.recorders.live_pipelines import measured, run_live
from pipesim.studies.live_validation import cases

MODEL = "pipesim.recorders.live_pipelines:gpt(blocks=6, width=64, sequence=8, vocabulary=32)"


def test_every_schedule_runs_and_every_iteration_is_timed_on_both_ranks():
    chosen = {case.schedule: case for case in cases(8)}.values()
    found = run_live(list(chosen), MODEL, 1, iterations=3, gated=False)
    assert len(found) == 2 * 3 * len(chosen)
    assert all(one.end > one.start and one.cpu > 0 for one in found)
    times = measured(found, gated=False)
    assert sorted(times) == sorted(case.name for case in chosen)
    assert measured(found) == {}  # too short to be counted
