"""Layouts by time and memory."""

import pytest

from pipesim.base.errors import InputError
from pipesim.display import figures


def row(time, gib, *, on_front):
    """A row of a search, as far as it is drawn."""
    sizes = {"tensor": 2, "pipeline": 4, "data": 1, "interleave": 1, "recompute": "full"}
    return {"iteration_time_s": time, "peak_memory_bytes": gib * 2**30, "on_front": on_front, **sizes}


def test_the_front_is_a_line_and_the_others_are_points(tmp_path):
    rows = [row(3.0, 10, on_front=True), row(2.0, 20, on_front=True), row(4.0, 30, on_front=False)]
    figure = figures.front(rows, tmp_path / "front.png")
    (axes,) = figure.axes
    assert [tuple(each) for each in axes.lines[0].get_xydata()] == [(10.0, 3.0), (20.0, 2.0)]
    assert [len(points.get_offsets()) for points in axes.collections] == [1, 2]
    assert [note.get_text() for note in axes.texts] == ["TP 2, PP 4, DP 1, full"] * 2
    assert (tmp_path / "front.png").stat().st_size > 0


def test_nothing_cannot_be_drawn():
    with pytest.raises(InputError, match="no layouts found"):
        figures.front([])


def test_a_planner_is_named_in_place_of_the_sizes_that_it_decides_and_some_blocks_are_not_all():
    planned = row(2.0, 20, on_front=True) | {"pipeline": 0, "data": 0, "planner": "alpa"}
    partly = row(3.0, 10, on_front=True) | {"recompute_blocks": [2, 0]}
    figure = figures.front([planned, partly])
    named = {note.get_text() for note in figure.axes[0].texts}
    assert named == {"TP 2, alpa", "TP 2, PP 4, DP 1, full of some blocks"}
