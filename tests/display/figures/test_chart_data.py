"""Data of charts."""

import numpy as np
import pytest

from helpers.pictures import in_legend
from pipesim.base import serialisation
from pipesim.display import figures
from pipesim.display.figures import Chart
from pipesim.display.figures.chart_data import data_of

SIZES, GPUS, RATES, PLANNERS = {"0.35B": 1, "1.3B": 4, "6.7B": 20}, (4, 8, 16, 64, 256), (1, 10, 100, 400), 3


def table(seeds=1):
    """Rows as a sweep makes them; times by a formula, so that a test knows them."""
    names = ("size", "gpus", "rate", "planner", "seed", "iteration_time_s", "peak_memory_bytes", "fits")
    rows = {name: [] for name in names}
    for size, weight in SIZES.items():
        for gpus in GPUS:
            for rate in RATES:
                for planner in range(PLANNERS):
                    for seed in range(seeds):
                        seconds = (1 + planner) * weight * (8 / gpus + 1 / rate) * (1 + 0.1 * seed)
                        values = (size, gpus, rate, f"planner {planner}", seed, seconds, weight << 30, gpus > 4)
                        for name, value in zip(names, values, strict=True):
                            rows[name].append(value)
    return rows


def chart(kind, x, y="", **more):
    return serialisation.from_data(Chart, {"kind": kind, "x": x, "y": y, **more})


ONE = {"where": ["size == '1.3B'", "rate == 100"]}


FIRST = "rate == 1 and planner == 'planner 0'"


CHARTS = {
    "line": chart("line", "gpus", "iteration_time_s", series="planner", log="xy", **ONE),
    "line of text": chart("line", "size", "iteration_time_s", series="planner", where="gpus == 8 and rate == 1"),
    "band": chart("line", "gpus", "iteration_time_s", series="planner", **ONE, log="x"),
    "scaling": chart("scaling", "gpus", "64 / iteration_time_s", series="planner", y_label="samples/s", **ONE),
    "slopes": chart("slopes", "gpus", "iteration_time_s", series="planner", **ONE),
    "bars": chart("bars", "gpus", "iteration_time_s", series="planner", **ONE),
    "bars, relative": chart("bars", "gpus", "iteration_time_s", series="planner", baseline="planner 2", **ONE),
    "bars, labelled": chart("bars", "size", "iteration_time_s", label="gpus", where=FIRST,
                            pick="least iteration_time_s"),
    "box": chart("box", "size", "iteration_time_s", series="planner", log="y"),
    "cdf": chart("cdf", "iteration_time_s", series="planner", log="x"),
    "heat map": chart("heat_map", "rate", "gpus", value="iteration_time_s", log="v", where="size == '1.3B'",
                      statistic="min"),
    "heat map of text": chart("heat_map", "rate", "gpus", value="planner", pick="least iteration_time_s", panels="size",
                              width="double", label="planner"),
    "heat map with holes": chart("heat_map", "rate", "gpus", value="peak_memory_bytes", where="rate * gpus < 2000",
                                 panels="size", width="double"),
    "small multiples": chart("line", "rate", "iteration_time_s", series="planner", panels=["size", "gpus"], log="xy",
                             width="double"),
    "multiples with own axes": chart("line", "rate", "iteration_time_s", series="planner", panels="size", log="x",
                                     own_y=True, width="double", where="gpus == 8"),
    "three in two": chart("bars", "gpus", "iteration_time_s", series="planner", panels="size", where="rate == 10",
                          log="y"),
    "numbers as series": chart("line", "gpus", "iteration_time_s", series="rate", where="size == '6.7B'",
                               statistic="median", log="xy"),
}  # fmt: skip


def test_several_rows_at_one_place_are_a_mean_and_a_band():
    rows = {"x": [1, 1, 1, 1, 2], "y": [1.0, 2.0, 3.0, 6.0, 5.0]}
    for band, expected in {
        "minmax": (1, 6),
        "p5-p95": tuple(np.percentile([1, 2, 3, 6], [5, 95])),
        "std": (3 - np.std([1, 2, 3, 6], ddof=1), 3 + np.std([1, 2, 3, 6], ddof=1)),
    }.items():
        data = data_of(rows, chart("line", "x", "y", band=band))
        cells = data.panels[0].cells[""]
        assert cells[1].level == 3
        assert cells[1].band == pytest.approx(expected)
        assert cells[2].band is None
    low, high = data_of(rows, chart("line", "x", "y")).panels[0].cells[""][1].band
    assert 1 <= low < 3 < high <= 6
    (axes,) = figures.chart(rows, chart("line", "x", "y")).axes
    assert len(axes.collections) == 1
    (axes,) = figures.chart(rows, chart("line", "x", "y", band="none")).axes
    assert not axes.collections


def test_a_band_may_be_two_columns():
    rows = {"x": [1, 2], "y": [3, 4], "low": [2, 3], "high": [5, 6]}
    cells = data_of(rows, chart("line", "x", "y", band=["low", "high"])).panels[0].cells[""]
    assert [cells[x].band for x in (1, 2)] == [(2, 5), (3, 6)]


def test_relative_bars_are_relative_to_their_own_group():
    (axes,) = figures.chart(table(), CHARTS["bars, relative"]).axes
    heights = sorted({round(p.get_height(), 9) for p in axes.patches})
    assert heights == pytest.approx([1 / 3, 2 / 3, 1])
    assert axes.get_ylabel() == "iteration time / planner 2"


def test_what_is_picked_is_the_row_that_is_best():
    figure = figures.chart(table(), CHARTS["heat map of text"])
    assert in_legend(figure) == ["planner 0"]
    rows = table()
    rows["iteration_time_s"] = [-t for t in rows["iteration_time_s"]]
    assert in_legend(figures.chart(rows, CHARTS["heat map of text"])) == ["planner 2"]
    rows = table()
    rows["iteration_time_s"] = [t if g > 8 else -t for t, g in zip(rows["iteration_time_s"], rows["gpus"], strict=True)]
    assert in_legend(figures.chart(rows, CHARTS["heat map of text"])) == ["planner 0", "planner 2"], (
        "in the rows' order"
    )
    most = chart("heat_map", "rate", "gpus", value="planner", pick="most iteration_time_s")
    assert in_legend(figures.chart(table(), most)) == ["planner 2"]


def test_rows_that_failed_are_left_out():
    rows = {"x": [1, 2, 3], "y": [1.0, None, 3.0], "error": [None, "no", None]}
    (axes,) = figures.chart(rows, chart("line", "x", "y")).axes
    assert list(axes.lines[0].get_xdata()) == [1, 3]


def test_a_limit_is_a_dashed_line_at_the_rows_own_values_and_relative_to_the_baseline_where_there_is_one():
    rows = {
        "x": [1, 2, 1, 2],
        "who": ["a", "a", "b", "b"],
        "t_s": [4.0, 2.0, 8.0, 6.0],
        "bound_s": [3.0, 1.0, 3.0, 1.0],
    }
    for baseline, expected in (("", [3.0, 1.0]), ("a", [0.75, 0.5])):
        what = figures.Chart(kind="line", x="x", y="t_s", series="who", limit="bound_s", baseline=baseline)
        axes = figures.chart(rows, what).axes[0]
        (drawn,) = [line for line in axes.lines if line.get_color() == "#222222"]
        assert list(drawn.get_ydata()) == expected
