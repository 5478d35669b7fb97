"""Gantt charts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.colors import to_hex

from helpers.networks import pipeline
from helpers.pictures import (
    CHUNKED,
    MS,
    REPLICATED,
    check_no_text_is_hidden,
    drawn_boxes,
    in_legend,
    planned,
    straight,
)
from helpers.strategies import programs
from pipesim.base.errors import InputError
from pipesim.core.program import BACKWARD, FORWARD
from pipesim.display import figures
from pipesim.display.figures import gantt_chart, paper
from pipesim.engines.event import run

FORWARDS, BACKWARDS = (to_hex(gantt_chart._COLORS[kind]) for kind in ("forward", "backward"))


def test_every_task_of_a_lane_is_a_box_at_its_time_in_the_row_of_its_device():
    timeline = straight(3, 4)
    (axes,) = figures.gantt(timeline).axes
    program = timeline.program
    expected = [
        (timeline.start[task] / MS, timeline.end[task] / MS, int(program.lane[task]), int(program.kind[task]))
        for task in np.flatnonzero(program.is_compute)
    ]
    kinds = {FORWARDS: FORWARD, BACKWARDS: BACKWARD}
    found = [(left, right, int(top), kinds[color]) for (left, right, top, _), color in drawn_boxes(axes)]
    assert np.array(sorted(found)) == pytest.approx(np.array(sorted(expected)))
    assert [label.get_text() for label in axes.get_yticklabels()] == list(program.devices)


@pytest.mark.parametrize(("ms", "unit", "length"), [(5e-6, "ns", 30), (0.5, "ms", 3), (500, "s", 3), (5e-3, "µs", 30)])
def test_the_unit_of_time_fits_the_iteration(ms, unit, length):
    timeline = run(pipeline([round(ms * MS)], [round(ms * MS)], 3, "gpipe"))
    (axes,) = figures.gantt(timeline).axes
    assert axes.get_xlabel() == f"time ({unit})"
    assert axes.get_xlim() == pytest.approx((0, length))


def test_later_chunks_of_a_device_are_lighter():
    timeline = planned(CHUNKED)
    figure = figures.gantt(timeline)
    shades = {color for _, color in drawn_boxes(figure.axes[0])}
    assert len(shades) == 4  # forward and backward, first and last chunk
    chart = gantt_chart._chart(timeline, timeline.makespan, links=False)
    light = [paper.lightness(tuple(color)) for color in chart.palette.tolist()]
    assert all(first < last for first, last in zip(light[::2], light[1::2], strict=True))
    assert {"first chunk", "last chunk"} <= set(in_legend(figure))


def test_forwards_and_backwards_stay_apart_in_grey_whatever_the_chunk():
    light = {
        kind: [paper.lightness(gantt_chart._shaded(gantt_chart._COLORS[kind], shade, 3)) for shade in range(3)]
        for kind in ("forward", "backward")
    }
    assert min(light["forward"]) > max(light["backward"]) + 0.05


def test_the_legend_names_only_what_occurs():
    assert in_legend(figures.gantt(straight())) == ["forward", "backward", "idle"]
    busy = run(pipeline([MS], [MS], 3, "gpipe"))
    assert in_legend(figures.gantt(busy)) == ["forward", "backward"]
    assert "all-reduce" in in_legend(figures.gantt(planned(REPLICATED)))
    linked = in_legend(figures.gantt(straight(), links=True, critical=[0]))
    assert linked == ["forward", "backward", "activations", "gradients", "idle", "critical path"]


def test_a_dollar_in_a_name_is_a_dollar():
    timeline = straight(2, 2)
    named = replace(timeline, program=replace(timeline.program, devices=("$\\frac$", "gpu_1")))
    (axes,) = figures.gantt(named).axes
    assert axes.get_yticklabels()[0].get_text() == "$\\frac$"
    axes.figure.draw_without_rendering()


@settings(max_examples=6)
@given(programs)
def test_whatever_ran_can_be_drawn(program):
    timeline = run(program)
    check_no_text_is_hidden(figures.gantt(timeline, links=True, critical=range(len(program))))
    check_no_text_is_hidden(figures.memory(timeline))
    if timeline.moved.any():
        check_no_text_is_hidden(figures.link_load(timeline))


@pytest.mark.parametrize("critical", [[-1], [10_000]])
def test_a_critical_task_that_is_not_in_the_program_is_refused(critical):
    with pytest.raises(InputError, match=f"critical: task {critical[0]} found; 0 to "):
        figures.gantt(straight(2, 2), critical=critical)


def test_charts_of_a_grid_have_one_time_axis_and_their_iteration_time_in_the_title():
    fast, slow = straight(2, 2), straight(2, 2, ms=(10, 20))
    figure = figures.gantt_grid({"fast": fast, "slow": slow})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["fast: 11 ms", "slow: 110 ms"]
    assert {axes.get_xlim() for axes in figure.axes} == {(0, 110)}
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "time (ms)"]
    assert max(right for (_, right, _, _), _ in drawn_boxes(figure.axes[0])) == pytest.approx(11)


def test_a_grid_of_nothing_is_refused():
    with pytest.raises(InputError, match="at least one"):
        figures.gantt_grid({})
