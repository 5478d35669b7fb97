"""Profiles of PyTorch's own Schedule1F1B, which names no actions, recorded here and read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; make test-torch runs these tests")

from pipesim.importers.kineto.pipelined import profiled
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

RANKS, MICROBATCHES, ITERATIONS = 2, 4, 2  # as profiled_process.py has them


def recorded(folder, name):
    folder.mkdir()
    script = Path(__file__).with_name("profiled_process.py")
    started = [
        subprocess.Popen([sys.executable, str(script), str(rank), str(RANKS), str(folder), name])
        for rank in range(RANKS)
    ]
    assert [process.wait(timeout=120) for process in started] == [0] * RANKS
    (folder / "meeting").unlink(missing_ok=True)
    return folder


def actions(found):
    """Per rank and iteration, its actions in order."""
    return [
        [[(int(one.kind[row]), int(one.microbatch[row])) for row in one.of(n)] for n in range(ITERATIONS)]
        for one in found.actions
    ]


def test_the_actions_of_pytorchs_1f1b_are_those_of_the_schedule(tmp_path):
    found = profiled(recorded(tmp_path / "run", "Schedule1F1B"))
    order = equal_stages.setup("one_f_one_b", RANKS, MICROBATCHES, Times()).schedule
    expected = [[(kind, microbatch) for _, kind, microbatch, _ in order.part(rank)] for rank in range(RANKS)]
    assert actions(found) == [[row] * ITERATIONS for row in expected]
    run = found.run()
    assert len(run.steps) == ITERATIONS


def test_gpipe_without_its_ranges_has_the_same_actions(tmp_path):
    folder = recorded(tmp_path / "run", "ScheduleGPipe")
    named = profiled(folder)
    for path in folder.glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        data["traceEvents"] = [
            event for event in data["traceEvents"] if not str(event.get("name")).startswith(("Forward ", "Backward "))
        ]
        path.write_text(json.dumps(data), encoding="utf-8")
    assert actions(profiled(folder)) == actions(named)
