"""Many spans and steps in pixels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from helpers.networks import pipeline
from helpers.pictures import drawn_boxes
from pipesim.display import figures
from pipesim.display.figures import gantt_chart, painting
from pipesim.display.figures.painting import Spans
from pipesim.engines.event import run

_RED, _BLUE = 0, 1


_PALETTE = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


_IDLE = np.ones(3)


def painted(spans, columns, strips=1, most=1000):
    """Colours of one strip's columns from (begin, end, colour); None where nothing is painted."""
    begin, end, color = np.array(spans, np.float64).reshape(-1, 3).T
    spans = Spans(np.zeros(len(begin), np.int64), begin, end, color.astype(np.int64))
    pixels = painting.paint(spans, painting.is_wide(spans, most), (strips, columns), _PALETTE, _IDLE)[0]
    return [tuple(np.round(p[:3], 6).tolist()) if p[3] else None for p in pixels]


def test_spans_narrower_than_a_pixel_are_mixed_in_proportion_to_their_time():
    assert painted([(0, 0.25, _RED), (0.25, 1.0, _BLUE)], 1) == [(0.25, 0, 0.75)]


def test_idle_time_is_mixed_in_too():
    assert painted([(0.2, 0.7, _RED)], 2) == [(1, 0.5, 0.5), None]


def test_a_narrow_span_across_two_columns_colours_both():
    assert painted([(0.75, 1.25, _RED)], 2) == [(1, 0.75, 0.75)] * 2


def test_wide_spans_are_left_to_boxes_except_where_narrow_ones_share_their_pixels():
    found = painted([(0, 3.5, _RED), (3.5, 4, _BLUE), (4, 6, _RED)], 6)
    assert found == [None, None, None, (0.5, 0, 0.5), None, None]


def test_with_too_many_wide_spans_only_the_widest_are_boxes():
    found = painted([(0, 3, _RED), (3, 7, _BLUE), (7, 9, _RED)], 9, most=2)
    assert found == [(1, 0, 0)] * 3 + [None] * 4 + [(1, 0, 0)] * 2


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3), st.sampled_from([_RED, _BLUE])), max_size=30))
def test_painting_neither_adds_nor_loses_time(drawn):
    """Spans one after the other with gaps between: the red in all columns together is the red in all spans."""
    ends = np.cumsum([part for gap, length, _ in drawn for part in (gap, length)]) if drawn else np.zeros(0)
    begin, end = ends[::2], ends[1::2]
    color = np.array([color for _, _, color in drawn], np.int64)
    columns = int(np.ceil(ends.max(initial=0))) + 1
    spans = Spans(np.zeros(len(begin), np.int64), begin, end, color)
    for number in (_RED, _BLUE):
        cover = painting._cover(spans, (color == number).astype(np.float64), (1, columns))
        assert cover.sum() == pytest.approx((end - begin)[color == number].sum(), abs=1e-9)
        assert cover.min() >= -1e-9
        assert cover.max() <= 1 + 1e-9


def test_a_chart_of_very_many_tasks_has_no_more_boxes_than_pixels_and_looks_like_their_mixture():
    """4,000 microbatches on one device, forward and backward in turn, on a picture 1,600 pixels wide."""
    timeline = run(pipeline([1000], [3000], 4000, "one_f_one_b"))
    figure = figures.gantt(timeline)
    (axes,) = figure.axes
    assert not drawn_boxes(axes)
    assert "mixed" in axes.get_xlabel()
    (image,) = axes.images
    shown = image.get_array()
    assert shown.shape[1] == round(axes.get_window_extent().width)
    visible = np.asarray(shown)[shown[..., 3] > 0][:, :3].mean(axis=0) / 255
    expected = 0.25 * np.array(to_rgb(gantt_chart._COLORS["forward"])) + 0.75 * np.array(
        to_rgb(gantt_chart._COLORS["backward"])
    )
    assert visible == pytest.approx(expected, abs=0.01)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=300), st.integers(1, 12))
def test_thinned_steps_keep_the_lowest_and_the_highest_of_every_column(drawn, columns):
    time = np.cumsum([0, *(wait for wait, _ in drawn[1:])])
    value = np.array([float(v) for _, v in drawn])
    horizon = int(time[-1]) + 1
    kept_time, kept = painting.thin_steps(time, value, columns, horizon)
    assert len(kept) <= 4 * columns
    column, kept_column = time * columns // horizon, kept_time * columns // horizon
    for number in np.unique(column):
        inside, left = value[column == number], kept[kept_column == number]
        assert (left.min(), left.max(), left[0], left[-1]) == (inside.min(), inside.max(), inside[0], inside[-1])
