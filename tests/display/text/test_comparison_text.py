"""Comparisons of planners and schedulers as text."""

import pytest

from helpers.strategies import even_trace
from pipesim.display import text
from pipesim.studies import comparison
from pipesim.studies.accuracy import SHARED, MeasuredInterval, RunKind

KIND = RunKind("computed", "a100", "", teams=False, gpus=2)
INTERVAL = MeasuredInterval(0.9, 1.2, 20, 2, SHARED[3], KIND).as_data(1.0)


def row(**given):
    return {
        "planner": "spp",
        "scheduler": "pe",
        "iteration_time_s": 1.0,
        "measured_interval": INTERVAL,
        "bound_s": 0.8,
        "iteration_time_by_scaling_s": None,
        "scaling": "recorded",
        "throughput_samples_per_s": 12.0,
        "bubble": {"idle_share": 0.25},
        "peak_memory_bytes": 2**30,
        "fits_memory": True,
    } | given


def test_failures_are_shown_with_their_reason_and_the_best_is_starred():
    rows = list(
        comparison.compare(even_trace(4), 'flat(2, bandwidth="1GB/s")', ["uniform(stages=3)", "balanced"], ["gpipe"])
    )
    data, best = [row.as_data() for row in rows], rows.index(comparison.best(rows))
    shown = text.comparison(data, best)
    assert "uniform(stages=3) + gpipe: planner 'uniform(stages=3)': stages = 3 found" in shown
    assert next(line for line in shown.splitlines() if "*" in line).startswith("balanced")


def test_the_gap_to_the_bound_is_a_share_of_the_bound():
    assert "+25.0 %" in text.gaps([row()]).splitlines()[2]


def test_the_bound_of_all_layouts_has_columns_of_its_own():
    assert text.gaps([row(layout_bound_s=0.5)]).splitlines()[2].split()[-3:] == ["ms", "+100.0", "%"]
    assert "shorter iteration than 500.0 ms; the best is 100.0 % above" in text.nearest_bound(row(layout_bound_s=0.5))


def test_the_best_of_a_planner_has_one_star_and_the_best_of_all_two():
    shown = text.comparison([row(starred=True), row(planner="gpipe", starred=True), row(planner="alpa")], 0)
    assert [line.count("*") for line in shown.splitlines()[2:5]] == [2, 1, 0]


@pytest.mark.parametrize(("fits", "legend"), [(True, "* fastest that fits"), (False, "none fits in memory")])
def test_the_legend_depends_on_whether_the_best_fits(fits, legend):
    assert legend in text.comparison([row(fits_memory=fits)], 0).splitlines()[-2]


def test_schedulers_with_the_same_error_share_a_line():
    failed = [{"planner": "spp", "scheduler": name, "error": "no plan"} for name in ("pe", "gpipe")]
    assert text.comparison(failed, None).splitlines()[-1] == "spp + pe, gpipe: no plan"


def test_times_under_the_other_scaling_have_a_column_where_they_differ():
    both = {"recorded": 1.0, "linear": 0.9}
    assert "if linear" in text.comparison([row(iteration_time_by_scaling_s=both)], None)
    assert "if linear" not in text.comparison([row(iteration_time_by_scaling_s=dict.fromkeys(both, 1.0))], None)


def test_a_failed_row_has_no_numbers_and_one_that_does_not_fit_is_red():
    rows = [row(), row(fits_memory=False), {"planner": "spp", "scheduler": "pe", "error": "no plan"}]
    lines = text.comparison(rows, 0, text.Terminal(colour=True)).splitlines()
    assert lines[2].startswith("\x1b[1m")
    assert lines[3].startswith("\x1b[31m")
    assert lines[4].split() == ["spp", "pe:", "failed"]


def test_what_is_below_the_table_fits_the_terminal():
    rows = [row(), {"planner": "spp", "scheduler": "pe", "error": "no plan " * 20}]
    lines = text.comparison(rows, 0, text.Terminal(60, colour=False)).splitlines()
    assert max(map(len, lines)) <= 60


def test_the_bound_of_the_best_is_shown_with_how_far_it_is_above():
    assert text.nearest_bound(row()).endswith("the best is 25.0 % above")
    assert "800.0 ms" in text.nearest_bound(row())
    assert text.nearest_bound(row(bound_s=0.0)) == "lower bound  -"


def test_measured_runs_of_this_kind_are_stated_beside_the_best():
    assert "** measured runs: 900.0 ms to 1.200 s by 20 measured runs" in text.comparison([row()], 0)
    assert "measured runs" not in text.comparison([row()], None)
