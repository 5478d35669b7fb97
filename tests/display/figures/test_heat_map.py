"""Heat maps."""

from matplotlib.colors import to_rgb

from helpers.pictures import in_legend, numbers
from pipesim.base import serialisation
from pipesim.display import figures
from pipesim.display.figures import Chart, paper

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


def test_a_heat_map_writes_its_numbers_and_colours_by_them():
    (axes, bar) = figures.chart(table(), CHARTS["heat map"]).axes
    cells = {(round(p.get_x() + 0.5), round(p.get_y() + 0.5)): to_rgb(p.get_facecolor()) for p in axes.patches}
    assert len(cells) == len(GPUS) * len(RATES)
    assert paper.lightness(cells[0, 0]) < paper.lightness(cells[3, 4]), "more is darker"
    expected = {f"{4 * (8 / g + 1 / r):#.3g}" for g in GPUS for r in RATES}
    assert set(numbers(axes)) == expected
    assert bar.get_ylabel() == "iteration time (s)"


def test_places_without_a_value_are_marked():
    figure = figures.chart(table(), CHARTS["heat map with holes"])
    assert in_legend(figure) == ["no value"]
    holes = [p for p in figure.axes[0].patches if p.get_hatch()]
    assert len(holes) == sum(r * g >= 2000 for r in RATES for g in GPUS)
