from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex

from helpers.networks import network, pipeline
from helpers.pictures import (
    CHUNKED,
    MS,
    REPLICATED,
    check_no_text_is_hidden,
    drawn_boxes,
    in_legend,
    numbers,
    planned,
    straight,
)
from helpers.strategies import programs
from pipesim.base.errors import InputError
from pipesim.core.program import ALL_REDUCE, BACKWARD, FORWARD
from pipesim.display import figures
from pipesim.display.figures import gantt_chart, gantt_spans, paper
from pipesim.display.figures.layout import lay_out
from pipesim.engines.event import run

FORWARDS, BACKWARDS = (to_hex(gantt_chart._COLORS[kind]) for kind in ("forward", "backward"))


# --- boxes -----------------------------------------------------------------------------------------------------------


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


def test_a_row_per_medium_that_carried_something_is_added_with_links():
    timeline = straight(3, 4)
    (axes,) = figures.gantt(timeline, links=True).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["g0", "g1", "g2", "g0→g1", "g1→g0", "g1→g2", "g2→g1"]
    boxes = len(drawn_boxes(axes))
    assert boxes == len(timeline.program)  # each transfer crosses one medium


def test_transfers_that_share_a_medium_lie_side_by_side_in_its_row():
    timeline = run(network([2], [(10, 60, [0]), (12, 60, [0])], "fair"))
    (axes,) = figures.gantt(timeline, links=True).axes
    activations = to_hex(gantt_chart._COLORS["activation"])
    (_, _, top, bottom), (_, _, top2, bottom2) = (box for box, color in drawn_boxes(axes) if color == activations)
    assert bottom <= top2 + 1e-9
    assert bottom - top == pytest.approx(bottom2 - top2)


def test_an_all_reduce_is_a_band_below_the_boxes_of_each_device_that_takes_part():
    timeline = planned(REPLICATED)
    (axes,) = figures.gantt(timeline).axes
    bands = [box for box, color in drawn_boxes(axes) if color == to_hex(gantt_chart._COLORS["all_reduce"])]
    assert sorted(int(top) for _, _, top, _ in bands) == [1, 2]
    others = [box for box, color in drawn_boxes(axes) if color in {FORWARDS, BACKWARDS}]
    for _, _, top, bottom in bands:
        row = [box for box in others if int(box[2]) == int(top)]
        assert max(box[3] for box in row) <= top + 1e-9
        assert bottom - top < min(box[3] - box[2] for box in row) / 2


def test_an_all_reduce_that_stands_for_a_ring_is_a_band_on_all_its_devices():
    timeline = planned((("a", "b", "c"), ("d",)), sharing="channel")
    assert np.count_nonzero(timeline.program.kind == ALL_REDUCE) == 1
    layout = lay_out(timeline, links=False)
    bands = layout.strip[timeline.program.kind[layout.task] == ALL_REDUCE] - layout.devices
    assert sorted(bands.tolist()) == [0, 1, 2]


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


@settings(max_examples=12)
@given(programs)
def test_whatever_ran_can_be_drawn(program):
    timeline = run(program)
    check_no_text_is_hidden(figures.gantt(timeline, links=True, critical=range(len(program))))
    check_no_text_is_hidden(figures.memory(timeline))
    if timeline.moved.any():
        check_no_text_is_hidden(figures.link_load(timeline))


@given(programs)
def test_everything_that_lasts_lies_in_a_strip_and_never_on_something_else(program):
    timeline = run(program)
    layout = lay_out(timeline, links=True)
    lasting = timeline.end > timeline.start
    crossed = program.route.lengths[lasting & ~program.is_compute].sum()
    assert np.count_nonzero(program.is_compute[layout.task]) == np.count_nonzero(lasting & program.is_compute)
    assert np.count_nonzero(layout.strip >= 2 * layout.devices) <= crossed
    order = np.lexsort((timeline.start[layout.task], layout.strip))
    strip, task = layout.strip[order], layout.task[order]
    computing = program.is_compute[task[1:]] | (strip[1:] >= 2 * layout.devices)
    same = (strip[1:] == strip[:-1]) & computing
    assert (timeline.start[task[1:]][same] >= timeline.end[task[:-1]][same]).all()
    assert (layout.strip_top[layout.strip] < layout.strip_bottom[layout.strip]).all()


# --- numbers and outlines --------------------------------------------------------------------------------------------


def test_boxes_show_their_microbatch_where_there_is_room_for_it():
    timeline = straight(2, 12)
    figure = figures.gantt(timeline)
    (axes,) = figure.axes
    program = timeline.program
    assert sorted(numbers(axes)) == sorted(str(m) for m in program.microbatch[program.is_compute])
    figure.draw_without_rendering()
    edges = [axes.transData.transform([(left, 0), (right, 0)])[:, 0] for (left, right, *_), _ in drawn_boxes(axes)]
    for text in axes.texts:
        box = text.get_window_extent()
        assert any(left <= box.x0 and box.x1 <= right for left, right in edges), text.get_text()


def test_boxes_without_room_show_no_number():
    (axes,) = figures.gantt(straight(2, 300)).axes
    assert len(drawn_boxes(axes)) > 600
    assert not numbers(axes)


def test_numbers_can_be_left_out():
    assert not numbers(figures.gantt(straight(2, 2), labels=False).axes[0])


def test_with_too_many_numbers_none_is_drawn(monkeypatch):
    monkeypatch.setattr(gantt_spans, "_MOST_LABELS", 15)
    assert not numbers(figures.gantt(straight(2, 4)).axes[0])
    monkeypatch.setattr(gantt_spans, "_MOST_LABELS", 16)
    assert len(numbers(figures.gantt(straight(2, 4)).axes[0])) == 16


def frames(axes):
    """(left, right, row) of each outline."""
    (collection,) = (c for c in axes.collections if isinstance(c, PolyCollection) and c.get_zorder() == 4)
    corners = [(path.vertices.min(axis=0), path.vertices.max(axis=0)) for path in collection.get_paths()]
    return sorted((low[0], high[0], int(low[1])) for low, high in corners)


def test_critical_tasks_are_outlined_together_where_they_follow_each_other():
    """Device 0 does F0 F1 (0 to 2 ms); F1 goes over from 2 to 3 ms; device 1 does F1 B0 B1 from 3 to 8 ms."""
    timeline = straight(2, 2, "gpipe")
    program = timeline.program
    chain = ["0F0 on g0", "0F1 on g0", "0>1 from g0 to g1", "1F1 on g1", "1B0 on g1", "1B1 on g1"]
    critical = [task for task in range(len(program)) if program.label(task) in chain]
    (axes,) = figures.gantt(timeline, critical=critical).axes
    assert frames(axes) == [(0, 2, 0), (3, 8, 1)]
    (lines,) = (c for c in axes.collections if isinstance(c, LineCollection))
    (segment,) = lines.get_segments()
    assert segment[:, 0].tolist() == [2, 3]
    assert [int(y) for y in segment[:, 1]] == [0, 1]


def test_with_rows_for_links_critical_transfers_are_outlined_there():
    timeline = straight(2, 2, "gpipe")
    (transfer,) = (t for t in range(len(timeline.program)) if timeline.program.label(t) == "0>1 from g0 to g1")
    (axes,) = figures.gantt(timeline, critical=np.array([transfer]), links=True).axes
    assert [(left, right) for left, right, _ in frames(axes)] == [(2, 3)]


@pytest.mark.parametrize("critical", [[-1], [10_000]])
def test_a_critical_task_that_is_not_in_the_program_is_refused(critical):
    with pytest.raises(InputError, match=f"critical: task {critical[0]} found; 0 to "):
        figures.gantt(straight(2, 2), critical=critical)


# --- grids of Gantt charts -------------------------------------------------------------------------------------------


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
