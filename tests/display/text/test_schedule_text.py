"""Schedules as text."""

from pipesim.display import text

BUBBLE = {"idle_share": 0.25, "longest_stage": 0.2, "actual_over_ideal": 0.3}


def test_an_exploration_shows_the_activations_of_each_device():
    data = {"makespan": 2.0, "longest_stage": 1.5, "bubble": BUBBLE, "peak_in_flight": {"g0": 4, "g1": 1}}
    lines = text.exploration(data).splitlines()
    assert lines[0].split() == ["makespan", "2.000", "s"]
    assert "25.0 % of the devices' time is idle" in lines[2]
    assert "4 1 (" in lines[3]


def test_rows_are_numbered_and_cut_off():
    assert text.schedule_rows(["0F0,0B0", "1F0"]) == "0: 0F0 0B0\n1: 1F0"
    assert text.schedule_rows(["0F0,0F1,0F2,0B0"], columns=14) == "0: 0F0 0F1 ..."


def test_the_gallery_has_a_line_per_scheduler_and_the_reason_of_each_failure():
    row = {"makespan": 2.0, "longest_stage": 1.5, "bubble": BUBBLE, "peak_memory": 1.5, "transfers": 12}
    shown = text.gallery([row | {"scheduler": "gpipe"}, {"scheduler": "chimera", "error": "stages = 3 found"}])
    lines = shown.splitlines()
    assert lines[2].split()[0] == "gpipe"
    assert lines[-1] == "chimera: stages = 3 found"
    assert text.gallery([{"scheduler": "chimera", "error": "no"}]) == "chimera: no"
