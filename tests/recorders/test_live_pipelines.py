"""Which iterations of live pipelines count. The pipelines themselves: tests/with_torch/test_live_runs.py."""

import json
from dataclasses import asdict, replace

import pytest

from pipesim.recorders import live_pipelines, pinning
from pipesim.recorders.live_pipelines import LiveCase, LiveIteration, load, machine_seconds, measured, medians

SECONDS = 1.0


def pair(number, *, foreign=0.0, stolen=0.0, seconds=SECONDS, later=0.1):
    """Both ranks of an iteration: the second starts and ends later; each worked for 0.7 s."""
    one = LiveIteration("case", 0, number, 10.0, 10.0 + seconds - later, 0.7, 1.4 + foreign, stolen)
    return [one, replace(one, rank=1, start=10.0 + later, end=10.0 + seconds, busy=None, stolen=None)]


def iterations(*pairs):
    return [one for both in pairs for one in both]


def test_an_iteration_is_from_the_first_start_to_the_last_end():
    found = measured(iterations(*(pair(n, seconds=1 + n / 10) for n in range(3))))
    assert found["case"] == pytest.approx([1.0, 1.1, 1.2])
    assert medians(found) == pytest.approx({"case": 1.1})


@pytest.mark.parametrize("disturbed", [{"foreign": 0.09}, {"stolen": 0.03}])
def test_disturbed_iterations_do_not_count(disturbed):
    quiet = [pair(n) for n in range(3)]
    assert len(measured(iterations(*quiet, pair(3, **disturbed)))["case"]) == 3
    assert measured(iterations(*quiet[:2], pair(3, **disturbed))) == {}
    assert len(measured(iterations(*quiet[:2], pair(3, **disturbed)), gated=False)["case"]) == 3


def test_iterations_that_are_too_short_to_be_counted_are_not_measured():
    assert measured(iterations(*(pair(n, seconds=0.3) for n in range(5)))) == {}
    assert len(measured(iterations(*(pair(n, seconds=0.32) for n in range(5))))["case"]) == 5


def test_what_the_system_does_not_count_is_not_measured():
    unknown = [replace(one, busy=None, stolen=None) for one in iterations(*(pair(n) for n in range(5)))]
    assert measured(unknown) == {}


def test_an_iteration_of_one_rank_alone_does_not_count():
    assert measured([one for one in iterations(*(pair(n) for n in range(5))) if one.rank == 0], gated=False) == {}


def test_ranks_hold_stages_in_turn_and_in_a_v():
    assert LiveCase("1F1B", (3,), 4).ranks_of_stages == [0, 1]
    assert LiveCase("Interleaved1F1B", (1, 2, 3), 4).ranks_of_stages == [0, 1, 0, 1]
    assert LiveCase("ZBVZeroBubble", (1, 2, 3), 4).ranks_of_stages == [0, 1, 1, 0]
    assert LiveCase("GPipe", (1, 2, 3), 4).name == "GPipe-1-2-3-m4"


def test_what_a_rank_wrote_is_read_back(tmp_path):
    rows = iterations(pair(0), pair(1))
    (tmp_path / "0.json").write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    assert load(tmp_path / "0.json") == rows


def test_seconds_of_the_machine_are_those_of_its_cores(tmp_path, monkeypatch):
    path = tmp_path / "stat"
    path.write_text("cpu  100 20 30 9999 5 6 7 50 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n", encoding="ascii")
    monkeypatch.setattr(live_pipelines, "_STAT", path)
    monkeypatch.setattr(live_pipelines.os, "sysconf", lambda _: 100)
    assert machine_seconds() == pytest.approx((1.63, 0.5))
    monkeypatch.setattr(live_pipelines, "_STAT", tmp_path / "none")
    assert machine_seconds() is None


def test_one_core_is_not_enough(monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(pinning, "allowed_cores", lambda: [0])
    with pytest.raises(live_pipelines.RefusedError, match="may use 1 cores; 2 were expected"):
        live_pipelines.run_live([], "x:y", 1)
