"""The kinds of charts."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from helpers.pictures import in_legend
from pipesim.base import serialisation
from pipesim.display import figures
from pipesim.display.figures import Chart

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


def lines(axes):
    return [line for line in axes.lines if len(line.get_xdata()) > 2]


def test_a_line_goes_through_its_values():
    figure = figures.chart(table(), CHARTS["line"])
    (axes,) = figure.axes
    for planner, line in enumerate(lines(axes)):
        assert list(line.get_xdata()) == list(GPUS)
        assert line.get_ydata() == pytest.approx([(1 + planner) * 4 * (8 / g + 0.01) for g in GPUS])
    assert in_legend(figure) == ["planner 0", "planner 1", "planner 2"]
    assert axes.get_ylabel() == "iteration time (s)"
    assert axes.get_xlabel() == "GPUs"


def test_perfect_scaling_starts_where_the_best_series_does():
    figure = figures.chart(table(), CHARTS["scaling"])
    (axes,) = figure.axes
    (perfect,) = (line for line in axes.lines if len(line.get_xdata()) == 2)
    (x0, x1), (y0, y1) = perfect.get_xdata(), perfect.get_ydata()
    assert (x0, y0) == max((line.get_xdata()[0], line.get_ydata()[0]) for line in lines(axes))
    assert y1 / y0 == pytest.approx(x1 / x0)
    assert in_legend(figure)[-1] == "perfect scaling"


@pytest.mark.parametrize(
    ("y", "ideal", "factor"),
    [
        ("iteration_time_s", "", 1 / 64),
        ("throughput_samples_per_s", "", 64),
        ("1000 * iteration_time_s", "falling", 1 / 64),
        ("iteration_time_s", "flat", 1),
        ("iteration_time_s", "rising", 64),
    ],
)
def test_perfect_scaling_of_a_time_falls_and_of_all_others_rises_by_default(y, ideal, factor):
    rows = table()
    rows["throughput_samples_per_s"] = [1 / seconds for seconds in rows["iteration_time_s"]]
    what = chart("scaling", "gpus", y, series="planner", ideal=ideal, **ONE)
    (axes,) = figures.chart(rows, what).axes
    (perfect,) = (line for line in axes.lines if len(line.get_xdata()) == 2)
    first, last = perfect.get_ydata()
    starts = [line.get_ydata()[0] for line in lines(axes)]
    assert first == (min(starts) if factor < 1 else max(starts))
    assert last / first == pytest.approx(factor)
    assert axes.get_ylim()[0] <= min(first, last) <= max(first, last) <= axes.get_ylim()[1]


def test_there_is_room_above_what_hardly_differs():
    """Where y begins at 0, values that differ little do not stand on the upper edge."""
    rows = {"x": [1, 2], "y": [100.0, 101.0]}
    (axes,) = figures.chart(rows, chart("line", "x", "y")).axes
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] >= 1.03 * 101


def test_slopes_are_those_of_fitted_lines_and_their_labels_do_not_overlap():
    rows = {
        "x": [1, 2, 4, 1, 2, 4, 1],
        "who": ["linear"] * 3 + ["square"] * 3 + ["one point"],
        "t_s": [4.0, 8.0, 16.0, 1.0, 4.0, 16.0, 3.0],
    }
    (axes,) = figures.chart(rows, chart("slopes", "x", "t_s", series="who")).axes
    assert [text.get_text() for text in axes.texts] == ["linear ∝ x^1.0", "square ∝ x^2.0"]
    right = axes.get_window_extent().x1
    assert all(text.get_window_extent().x1 <= right for text in axes.texts), "labels stay inside the panel"
    low, high = (text.get_window_extent() for text in axes.texts)
    assert not low.overlaps(high)
    fits = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert [list(np.round(line.get_ydata(), 9)) for line in fits] == [[4.0, 16.0], [1.0, 16.0]]
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_bars_are_in_groups_and_differ_without_colour():
    (axes,) = figures.chart(table(), CHARTS["bars"]).axes
    bars = sorted((p for p in axes.patches if isinstance(p, Rectangle)), key=lambda p: p.get_x())
    heights = [(1 + planner) * 4 * (8 / g + 0.01) for g in GPUS for planner in range(PLANNERS)]
    assert [bar.get_height() for bar in bars] == pytest.approx(heights)
    assert len({bar.get_hatch() for bar in bars}) == PLANNERS
    assert axes.get_ylim()[0] == 0
    assert [t.get_text() for t in axes.get_xticklabels()] == [str(g) for g in GPUS]


def test_on_a_logarithmic_axis_bars_are_dots():
    rows = {
        "x": ["a", "a", "b", "a", "b"],
        "who": ["SPP", "SPP", "SPP", "DAPPLE", "DAPPLE"],
        "t": [1.0, 3.0, 5.0, 200.0, 20.0],
        "bound": [0.5] * 5,
    }
    figure = figures.chart(rows, chart("bars", "x", "t", series="who", log="y", band="minmax", limit="bound"))
    (axes,) = figure.axes
    assert not axes.patches
    dots = {(line.get_marker(), line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    assert {level for _, level in dots} == {2.0, 5.0, 200.0, 20.0}
    assert len({marker for marker, _ in dots}) == 2, "series differ without colour"
    assert [1.0, 3.0] in [list(line.get_ydata()) for line in axes.lines], "the whisker of two rows"
    assert in_legend(figure) == ["SPP", "DAPPLE", "bound"]
    assert axes.get_ylim()[0] > 0


def test_a_logarithmic_axis_of_less_than_a_decade_has_ticks_enough_to_read_values():
    rows = {"x": ["a", "b"], "t": [0.17, 0.9]}
    (axes,) = figures.chart(rows, chart("bars", "x", "t", log="y")).axes
    low, high = axes.get_ylim()
    assert [t for t in axes.get_yticks() if low <= t <= high] == pytest.approx([0.2, 0.3, 0.5, 0.7])


def test_a_distribution_ends_at_one():
    (axes,) = figures.chart(table(), CHARTS["cdf"]).axes
    for line in axes.lines:
        assert line.get_ydata()[-1] == 1
        assert (np.diff(line.get_ydata()) >= 0).all()
        assert len(line.get_xdata()) == 1 + len(SIZES) * len(GPUS) * len(RATES)
