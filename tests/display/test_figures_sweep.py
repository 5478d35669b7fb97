"""Charts of sweeps show the rows they are given: values where they belong, told apart in print, nothing hidden."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from helpers import sweeps
from helpers.pictures import all_texts, check_no_text_is_hidden, in_legend, numbers
from pipesim.base import serialisation
from pipesim.base.errors import PipesimError
from pipesim.display import figures
from pipesim.display.figures import Chart, looks, paper
from pipesim.display.figures.chart_data import data_of
from pipesim.studies import sweep

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


@pytest.mark.parametrize("what", CHARTS)
def test_every_chart_can_be_read(what):
    figure = figures.chart(table(seeds=3 if what in {"band", "box"} else 1), CHARTS[what])
    check_no_text_is_hidden(figure)
    width = figure.get_size_inches()[0]
    assert width == (3.4 if CHARTS[what].width == "single" else 7.0)


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


def test_the_unit_of_an_axis_fits_its_values():
    rows = {"x": [1, 2], "iteration_time_s": [0.002, 0.004], "peak_memory_bytes": [3 << 20, 6 << 20]}
    (axes,) = figures.chart(rows, chart("line", "x", "iteration_time_s")).axes
    assert axes.get_ylabel() == "iteration time (ms)"
    assert list(axes.lines[0].get_ydata()) == [2, 4]
    (axes,) = figures.chart(rows, chart("bars", "x", "peak_memory_bytes")).axes
    assert axes.get_ylabel() == "peak memory (MiB)"


def test_one_text_may_stand_for_a_list_of_one():
    assert Chart("line", "x", "y", panels="size", band="none") == Chart(
        "line", "x", "y", panels=("size",), band=("none",)
    )


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
def test_perfect_scaling_of_a_time_falls_and_that_of_everything_else_rises_unless_it_is_said(y, ideal, factor):
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


def test_whole_numbers_have_no_ticks_between_them():
    rows = {"x": [1, 2, 4], "y": [3.0, 2.0, 1.0]}
    (axes,) = figures.chart(rows, chart("line", "x", "y")).axes
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_there_is_room_above_what_hardly_differs():
    """Where y begins at 0, values that differ little do not stand on the upper edge."""
    rows = {"x": [1, 2], "y": [100.0, 101.0]}
    (axes,) = figures.chart(rows, chart("line", "x", "y")).axes
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] >= 1.03 * 101


def test_slopes_are_those_of_the_line_that_fits_best_and_stand_apart_where_series_end_at_one_place():
    rows = {
        "x": [1, 2, 4, 1, 2, 4, 1],
        "who": ["linear"] * 3 + ["square"] * 3 + ["one point"],
        "t_s": [4.0, 8.0, 16.0, 1.0, 4.0, 16.0, 3.0],
    }
    (axes,) = figures.chart(rows, chart("slopes", "x", "t_s", series="who")).axes
    assert [text.get_text() for text in axes.texts] == ["1.0", "2.0"]
    low, high = (text.get_window_extent() for text in axes.texts)
    assert not low.overlaps(high)
    fits = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert [list(np.round(line.get_ydata(), 9)) for line in fits] == [[4.0, 16.0], [1.0, 16.0]]
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_bars_stand_in_groups_and_are_told_apart_without_colour():
    (axes,) = figures.chart(table(), CHARTS["bars"]).axes
    bars = sorted((p for p in axes.patches if isinstance(p, Rectangle)), key=lambda p: p.get_x())
    heights = [(1 + planner) * 4 * (8 / g + 0.01) for g in GPUS for planner in range(PLANNERS)]
    assert [bar.get_height() for bar in bars] == pytest.approx(heights)
    assert len({bar.get_hatch() for bar in bars}) == PLANNERS
    assert axes.get_ylim()[0] == 0
    assert [t.get_text() for t in axes.get_xticklabels()] == [str(g) for g in GPUS]


def test_relative_bars_are_relative_to_their_own_group():
    (axes,) = figures.chart(table(), CHARTS["bars, relative"]).axes
    heights = sorted({round(p.get_height(), 9) for p in axes.patches})
    assert heights == pytest.approx([1 / 3, 2 / 3, 1])
    assert axes.get_ylabel() == "iteration time / planner 2"


def test_a_heat_map_writes_its_numbers_and_colours_by_them():
    (axes, bar) = figures.chart(table(), CHARTS["heat map"]).axes
    cells = {(round(p.get_x() + 0.5), round(p.get_y() + 0.5)): to_rgb(p.get_facecolor()) for p in axes.patches}
    assert len(cells) == len(GPUS) * len(RATES)
    assert paper.lightness(cells[0, 0]) < paper.lightness(cells[3, 4]), "more is darker"
    expected = {f"{4 * (8 / g + 1 / r):#.3g}" for g in GPUS for r in RATES}
    assert set(numbers(axes)) == expected
    assert bar.get_ylabel() == "iteration time (s)"


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


def test_places_without_a_value_are_marked():
    figure = figures.chart(table(), CHARTS["heat map with holes"])
    assert in_legend(figure) == ["no value"]
    holes = [p for p in figure.axes[0].patches if p.get_hatch()]
    assert len(holes) == sum(r * g >= 2000 for r in RATES for g in GPUS)


def test_a_distribution_ends_at_one():
    (axes,) = figures.chart(table(), CHARTS["cdf"]).axes
    for line in axes.lines:
        assert line.get_ydata()[-1] == 1
        assert (np.diff(line.get_ydata()) >= 0).all()
        assert len(line.get_xdata()) == 1 + len(SIZES) * len(GPUS) * len(RATES)


def test_panels_stand_in_rows_and_columns_and_share_their_axes():
    figure = figures.chart(table(), CHARTS["small multiples"])
    assert len(figure.axes) == len(SIZES) * len(GPUS)
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert figure.axes[len(GPUS)].get_title(loc="left") == "1.3B, GPUs = 4"
    own = figures.chart(table(), CHARTS["multiples with own axes"])
    assert len({axes.get_ylim() for axes in own.axes}) == len(SIZES)


def test_rows_that_failed_are_left_out():
    rows = {"x": [1, 2, 3], "y": [1.0, None, 3.0], "error": [None, "no", None]}
    (axes,) = figures.chart(rows, chart("line", "x", "y")).axes
    assert list(axes.lines[0].get_xdata()) == [1, 3]


def test_lines_are_told_apart_without_colour():
    made = looks.lines([f"planner {n}" for n in range(24)])
    shapes = {(look["marker"], str(look["linestyle"])) for look in made[:8]}
    assert len(shapes) == 8
    assert len({(look["color"], look["marker"], str(look["linestyle"])) for look in made}) == 24


def test_a_pdf_embeds_its_fonts_and_the_same_rows_make_the_same_bytes(tmp_path):
    for name in ("a.pdf", "b.pdf", "a.svg", "b.svg", "a.png", "b.png"):
        figures.chart(table(), CHARTS["bars"], tmp_path / name)
    for suffix in ("pdf", "svg", "png"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    data = (tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in data, "TrueType, embedded"
    assert b"/Type3" not in data


def test_text_is_not_taken_for_formulas_of_mathematics():
    rows = {"x": [1, 2], "y": [1, 2], "s": ["$a$", "$b$"]}
    figure = figures.chart(rows, chart("line", "x", "y", series="s"))
    assert {"$a$", "$b$"} <= {text.get_text() for text in all_texts(figure)}


WRONG = {
    "a chart of nothing": ({"kind": "line", "x": "gpus"}, "y: missing; a line needs x, y"),
    "no effect": ({"kind": "cdf", "x": "gpus", "y": "rate"}, "y: has no effect on a cdf"),
    "no series": ({"kind": "line", "x": "gpus", "y": "rate", "baseline": "a"}, "baseline: is the name of a series"),
    "three panels": ({"kind": "line", "x": "gpus", "y": "rate", "panels": ["a", "b", "c"]}, "at most two"),
    "no axis": ({"kind": "line", "x": "gpus", "y": "rate", "log": "xz"}, "log: 'xz' found"),
    "no band": ({"kind": "line", "x": "gpus", "y": "rate", "band": "ci99"}, "band: ['ci99'] found"),
    "no format": ({"kind": "line", "x": "gpus", "y": "rate", "formats": "gif"}, "formats[0]: 'gif' found"),
    "a tower": ({"kind": "line", "x": "gpus", "y": "rate", "height": 99}, "height: 99"),
    "a strip": (
        {"kind": "line", "x": "gpus", "y": "rate", "series": "planner", "height": 0.5, "title": "a\nb\nc"},
        "no room for its axes",
    ),
    "no formula": ({"kind": "line", "x": "gpus", "y": "rate >"}, "y: 'rate >' cannot be read"),
    "a code": ({"kind": "line", "x": "gpus", "y": "exit()"}, "y: 'exit()' found"),
    "no column": ({"kind": "line", "x": "gpu", "y": "rate"}, "x: no column is called 'gpu'; did you mean 'gpus'"),
    "text": ({"kind": "line", "x": "gpus", "y": "planner"}, "'planner': 'planner 0' found; a number was expected"),
    "no baseline": (
        {"kind": "line", "x": "gpus", "y": "rate", "series": "planner", "baseline": "spp"},
        "no series is called 'spp'; known are planner 0",
    ),
    "scaling of names": ({"kind": "scaling", "x": "planner", "y": "rate"}, "a chart of scaling needs numbers above 0"),
    "scaling from 0": ({"kind": "scaling", "x": "gpus - 4", "y": "rate"}, "x: 0 found; a chart of scaling needs"),
    "0 on a logarithmic axis": (
        {"kind": "line", "x": "gpus - 4", "y": "rate", "log": "x"},
        "x: 0 found; a logarithmic axis needs numbers above 0",
    ),
    "an ideal line": ({"kind": "line", "x": "gpus", "y": "rate", "ideal": "flat"}, "ideal: has no effect on a line"),
    "nothing left": ({"kind": "line", "x": "gpus", "y": "rate", "where": "gpus > 999"}, "'where' leaves 0 of"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_chart_that_is_wrong_is_refused(what):
    keys, message = WRONG[what]
    with pytest.raises(PipesimError) as error:
        figures.chart(table(), serialisation.from_data(Chart, keys))
    assert message in str(error.value)


def test_a_line_of_toml_is_a_figure(tmp_path):
    text = (
        sweeps.SMALL
        + '\n[plot]\nkind = "line"\nx = "microbatches"\ny = "iteration_time_s"\nseries = "gpus"\nformats = "png"\n'
    )
    path = sweeps.write(tmp_path, text, 4)
    sweeps.run(str(path))
    assert sweep.draw(path) == [("experiment", tmp_path / "experiment.png")]
    assert (tmp_path / "experiment.png").stat().st_size > 5000


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


def test_a_ratio_of_seconds_has_no_unit():
    rows = {"x": [1, 2], "t_s": [4.0, 2.0], "u_s": [2.0, 2.0]}
    axes = figures.chart(rows, figures.Chart(kind="line", x="x", y="t_s / u_s")).axes[0]
    assert axes.get_ylabel() == "t s / u s"
    assert list(axes.lines[0].get_ydata()) == [2.0, 1.0]
