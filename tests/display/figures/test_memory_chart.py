"""Memory over time."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from helpers.pictures import in_legend, straight
from pipesim.display import figures

GIB = 2**30


def remembering(stages, microbatches=4, *, each=GIB // 4, always=GIB, has=0):
    """A straight pipeline that keeps so many bytes per microbatch."""
    timeline = straight(stages, microbatches, "gpipe")
    program = timeline.program
    return replace(
        timeline,
        program=replace(
            program,
            memory_start=program.memory_start * each,
            memory_end=program.memory_end * each,
            static_memory=np.full(stages, always),
            memory=np.full(stages, has),
        ),
    )


def test_a_few_devices_have_a_panel_each_with_their_peak():
    figure = figures.memory(remembering(3, has=4 * GIB))
    assert [axes.get_ylabel() for axes in figure.axes] == ["g0", "g1", "g2"]
    assert figure.get_supylabel() == "memory (GiB)"
    for axes in figure.axes:
        curve = axes.lines[0]
        assert max(curve.get_ydata()) == 2.0
        assert [text.get_text() for text in axes.texts] == ["peak 2 GiB\n50% of 4 GiB"]


def test_memory_is_a_step_curve_at_the_times_of_its_changes():
    (axes,) = figures.memory(remembering(1, 2, each=GIB)).axes
    curve = axes.lines[0]
    assert curve.get_drawstyle() == "steps-post"
    assert curve.get_xydata().tolist() == [[0, 2], [1, 3], [4, 2], [6, 1], [6, 1]]


@pytest.mark.parametrize(("has", "drawn"), [(0, False), (4 * GIB, True), (100 * GIB, False)])
def test_the_capacity_is_a_line_where_it_is_known_and_near(has, drawn):
    figure = figures.memory(remembering(2, has=has))
    levels = [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert levels == ([4.0] if drawn else [])
    assert ("capacity" in in_legend(figure)) == drawn


@pytest.mark.parametrize(
    ("each", "always", "unit"), [(1, 0, "bytes"), (1000, 0, "KiB"), (10**6, 0, "MiB"), (10**6, GIB // 8, "GiB")]
)
def test_memory_is_in_gib_unless_it_is_less_than_a_tenth_of_one(each, always, unit):
    assert figures.memory(remembering(1, each=each, always=always)).get_supylabel() == f"memory ({unit})"


def test_of_many_devices_the_fullest_is_highlighted_and_all_peaks_are_bars():
    timeline = remembering(12, has=4 * GIB)
    always = np.full(12, GIB)
    always[7] = 2 * GIB
    timeline = replace(timeline, program=replace(timeline.program, static_memory=always))
    figure = figures.memory(timeline)
    over_time, by_device = figure.axes
    (others,) = (c for c in over_time.collections if isinstance(c, LineCollection))
    assert len(others.get_segments()) == 11
    assert max(over_time.lines[0].get_ydata()) == 3.0
    assert [bar.get_height() for bar in by_device.patches] == [2.0] * 7 + [3.0] + [2.0] * 4
    assert in_legend(figure)[0] == "g7, the fullest: peak 3 GiB, 75% of 4 GiB"
