"""Iteration times side by side."""

import pytest
from matplotlib.colors import to_hex

from helpers.pictures import in_legend, numbers
from pipesim.base.errors import InputError
from pipesim.display import figures


def bars(figure):
    """(x of the middle, height) of each bar."""
    return [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in figure.axes[0].patches]


def test_bars_are_in_groups_of_planners_with_their_time_on_them():
    rows = [
        {"planner": p, "scheduler": s, "iteration_time_s": t}
        for p, s, t in [("a", "x", 0.5), ("a", "y", 0.25), ("b", "x", 0.125), ("b", "y", 0.75)]
    ]
    figure = figures.comparison(rows)
    axes = figure.axes[0]
    assert axes.get_ylabel() == "iteration time (ms)"
    assert [height for _, height in bars(figure)] == [500, 250, 125, 750]
    assert [round(x) for x, _ in bars(figure)] == [0, 0, 1, 1]
    assert sorted(bars(figure))[::2] == [bars(figure)[0], bars(figure)[2]]  # x before y in each group
    assert numbers(axes) == ["500", "250", "125", "750"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    assert in_legend(figure) == ["x", "y"]


def test_schedulers_differ_in_hatch_and_fill():
    rows = [{"planner": "a", "scheduler": f"s{n}", "iteration_time_s": 1.0} for n in range(12)]
    looks = [(to_hex(bar.get_facecolor()), bar.get_hatch()) for bar in figures.comparison(rows).axes[0].patches]
    assert len(set(looks)) == 12
    assert len({hatch for _, hatch in looks[:8]}) == 8


@pytest.mark.parametrize("key", ["bound_s", "schedule_bound_s"])
def test_a_bound_is_a_line_across_its_bar(key):
    figure = figures.comparison([{"planner": "a", "scheduler": "x", "iteration_time_s": 2.0, key: 1.5}])
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == [1.5, 1.5]
    assert "lower bound" in in_legend(figure)


def test_times_of_a_close_race_are_dots_with_what_they_take_more_than_the_least():
    times = {"x": 0.5, "y": 0.5005, "z": 0.52}
    rows = [{"planner": "a", "scheduler": s, "iteration_time_s": t, "bound_s": 0.3} for s, t in times.items()]
    figure = figures.comparison(rows)
    (axes,) = figure.axes
    assert not axes.patches
    dots = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert [line.get_ydata()[0] for line in dots] == pytest.approx([500, 500.5, 520])
    assert len({line.get_marker() for line in dots}) == 3, "schedules differ without colour"
    assert numbers(axes) == ["500", "+0.10%", "+4.00%"]
    assert axes.get_ylabel() == "iteration time (ms), not from 0"
    assert 450 < axes.get_ylim()[0] < 500
    assert in_legend(figure) == ["x", "y", "z", "lower bound, below the axis: 300 ms"]


def test_a_bound_that_is_near_is_shown_in_a_close_race_and_failures_are_at_the_foot():
    rows = [
        {"planner": "a", "scheduler": s, "iteration_time_s": t, "bound_s": 0.49} for s, t in (("x", 0.5), ("y", 0.51))
    ]
    figure = figures.comparison([*rows, {"planner": "a", "scheduler": "z", "error": "no plan"}])
    (axes,) = figure.axes
    assert axes.get_ylim()[0] < 490
    assert in_legend(figure)[-1] == "lower bound"
    assert axes.texts[-1].get_text() == "failed"
    assert axes.texts[-1].xy[1] == axes.get_ylim()[0]


def test_a_row_may_be_starred_labelled_or_failed():
    rows = [
        {"planner": "a", "scheduler": "x", "iteration_time_s": 2.0, "starred": True},
        {"planner": "b", "scheduler": "x", "iteration_time_s": 2.0, "label": "too full"},
        {"planner": "c", "scheduler": "x", "error": "no plan"},
        {"planner": "d", "scheduler": "x", "iteration_time_s": float("nan"), "label": "late"},
    ]
    figure = figures.comparison(rows)
    assert numbers(figure.axes[0]) == ["2 ★", "too full", "failed", "late"]
    assert len(bars(figure)) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no iteration time found in 0 rows"),
        ([{"planner": "a", "scheduler": "x", "error": "no"}], "no iteration time found in 1 rows"),
        ([{"planner": "a", "iteration_time_s": 1.0}], r"rows\[0\]: has no 'scheduler'"),
        (
            [{"planner": "a", "scheduler": "x", "iteration_time_s": 1.0}, {"planner": "a", "scheduler": "x"}],
            r"rows\[1\]: has no 'iteration_time_s'",
        ),
        ([{"planner": "a", "scheduler": "x", "iteration_time_s": -1}], r"iteration_time_s: -1 found"),
        ([{"planner": "a", "scheduler": "x", "iteration_time_s": "1"}], r"iteration_time_s: '1' found"),
        ([{"planner": "a", "scheduler": "x", "iteration_time_s": 1, "bound_s": float("inf")}], r"bound_s: inf found"),
    ],
)
def test_rows_that_cannot_be_drawn_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        figures.comparison(rows)
