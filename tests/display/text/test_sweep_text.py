"""Sweeps as text."""

import pytest

from pipesim.display import text
from pipesim.display.text import sweep_text

STATUS = {
    "experiment": "gpus",
    "points": 1200,
    "done": 1000,
    "left": 200,
    "failed": 0,
    "per_second": 12.345,
    "last_result_s": 62.0,
    "clock_ahead_s": 0.0,
}


def test_a_status_is_a_line_with_the_age_of_the_last_result():
    line = text.sweep_status([STATUS]).splitlines()[-1]
    assert line.split() == ["gpus", "1,200", "1,000", "200", "0", "12.3/s", "1:02", "ago"]


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"last_result_s": None}, "12.3/s            -"),
        ({"clock_ahead_s": 3723.0}, "dated 1:02:03 ahead of this clock"),
        ({"failed": 3}, "why points failed: pipesim rows FILE"),
    ],
)
def test_a_status_shows_missing_results_clocks_and_failures(changed, shown):
    assert shown in text.sweep_status([STATUS | changed])


@pytest.mark.parametrize(("seconds", "shown"), [(5.4, "0:05"), (65, "1:05"), (3600, "1:00:00")])
def test_a_clock_has_hours_only_if_there_are_any(seconds, shown):
    assert sweep_text.clock(seconds) == shown


def test_rows_have_a_column_of_errors_only_if_there_are_any():
    columns = ["gpus", "time", "error"]
    assert text.sweep_rows(columns, [[8, 0.123456, None]]).splitlines()[2] == "   8  0.12346"
    assert "error" in text.sweep_rows(columns, [[8, None, "no plan"]]).splitlines()[0]


def test_rows_left_out_are_counted():
    shown = text.sweep_rows(["gpus"], [[n] for n in range(60)])
    assert shown.endswith("... and 10 more rows; all of them with --csv FILE")


def test_points_follow_the_properties_of_the_experiment():
    shown = text.sweep_points([("experiment", "gpus")], {3: {"gpus": 8}})
    assert shown == "experiment  gpus\n\npoint 3\ngpus  8"
    assert text.sweep_points([("experiment", "gpus")], {3: {"gpus": 8}}, 2) == f"{shown}\n\n... and 2 more points"
