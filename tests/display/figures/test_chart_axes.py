"""Labels and ticks of charts."""

from pipesim.base import serialisation
from pipesim.display import figures
from pipesim.display.figures import Chart


def chart(kind, x, y="", **more):
    return serialisation.from_data(Chart, {"kind": kind, "x": x, "y": y, **more})


def test_the_unit_of_an_axis_fits_its_values():
    rows = {"x": [1, 2], "iteration_time_s": [0.002, 0.004], "peak_memory_bytes": [3 << 20, 6 << 20]}
    (axes,) = figures.chart(rows, chart("line", "x", "iteration_time_s")).axes
    assert axes.get_ylabel() == "iteration time (ms)"
    assert list(axes.lines[0].get_ydata()) == [2, 4]
    (axes,) = figures.chart(rows, chart("bars", "x", "peak_memory_bytes")).axes
    assert axes.get_ylabel() == "peak memory (MiB)"


def test_whole_numbers_have_no_ticks_between_them():
    rows = {"x": [1, 2, 4], "y": [3.0, 2.0, 1.0]}
    (axes,) = figures.chart(rows, chart("line", "x", "y")).axes
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_a_ratio_of_seconds_has_no_unit():
    rows = {"x": [1, 2], "t_s": [4.0, 2.0], "u_s": [2.0, 2.0]}
    axes = figures.chart(rows, figures.Chart(kind="line", x="x", y="t_s / u_s")).axes[0]
    assert axes.get_ylabel() == "t s / u s"
    assert list(axes.lines[0].get_ydata()) == [2.0, 1.0]
