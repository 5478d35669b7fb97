"""Boxes, numbers and frames of Gantt charts."""

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection

from helpers.pictures import (
    drawn_boxes,
    numbers,
    straight,
)
from pipesim.display import figures
from pipesim.display.figures import gantt_spans


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


def test_numbers_are_smaller_in_narrow_boxes_and_stay_inside_them():
    figure = figures.gantt(straight(2, 45))
    (axes,) = figure.axes
    figure.draw_without_rendering()
    sizes = {text.get_fontsize() for text in axes.texts}
    assert len(numbers(axes)) == 90
    assert 4 <= min(sizes) < max(sizes) == 6.5
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
