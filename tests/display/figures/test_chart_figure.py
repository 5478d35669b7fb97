"""Whole charts, from rows."""

import pytest

from helpers.pictures import all_texts, check_no_text_is_hidden
from pipesim.base import serialisation
from pipesim.display import figures
from pipesim.display.figures import Chart, looks

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


def test_panels_are_titled_with_units_where_these_are_stated():
    what = chart("line", "gpus", "iteration_time_s", panels="rate", panel_title="{rate} Gb/s", where="size == '1.3B'")
    titles = [axes.get_title("left") for axes in figures.chart(table(), what).axes]
    assert titles == [f"{rate} Gb/s" for rate in RATES]


def test_panels_are_in_rows_and_columns_and_share_their_axes():
    figure = figures.chart(table(), CHARTS["small multiples"])
    assert len(figure.axes) == len(SIZES) * len(GPUS)
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert figure.axes[len(GPUS)].get_title(loc="left") == "1.3B, GPUs = 4"
    own = figures.chart(table(), CHARTS["multiples with own axes"])
    assert len({axes.get_ylim() for axes in own.axes}) == len(SIZES)


def test_lines_differ_without_colour():
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
