"""Descriptions of charts."""

import pytest

from helpers import sweeps
from pipesim.base import serialisation
from pipesim.base.errors import PipesimError
from pipesim.display import figures
from pipesim.display.figures import Chart
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


def test_one_text_may_stand_for_a_list_of_one():
    assert Chart("line", "x", "y", panels="size", band="none") == Chart(
        "line", "x", "y", panels=("size",), band=("none",)
    )


WRONG = {
    "a chart of nothing": ({"kind": "line", "x": "gpus"}, "y: missing; a line needs x, y"),
    "no effect": ({"kind": "cdf", "x": "gpus", "y": "rate"}, "y: has no effect on a cdf"),
    "no series": (
        {"kind": "line", "x": "gpus", "y": "rate", "baseline": "a"},
        "baseline: 'a' found; a chart without 'series'",
    ),
    "title without its panels": (
        {"kind": "line", "x": "gpus", "y": "rate", "panels": "size", "panel_title": "{sizes} B"},
        "panel_title: '{sizes} B' found; {size} in it was expected",
    ),
    "title of no panels": ({"kind": "line", "x": "gpus", "y": "rate", "panel_title": "all"}, "panels in it"),
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
    "no column": ({"kind": "line", "x": "gpu", "y": "rate"}, "x: unknown column 'gpu'; did you mean 'gpus'"),
    "text": ({"kind": "line", "x": "gpus", "y": "planner"}, "'planner': 'planner 0' found; a number was expected"),
    "no baseline": (
        {"kind": "line", "x": "gpus", "y": "rate", "series": "planner", "baseline": "spp"},
        "unknown series 'spp'; known are planner 0",
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
