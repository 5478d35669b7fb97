"""Load of links over time."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from helpers.networks import network, pipeline
from helpers.pictures import in_legend, straight
from pipesim.base.errors import InputError
from pipesim.display import figures
from pipesim.display.figures import paper
from pipesim.engines.event import run


def test_a_few_media_have_a_panel_each_with_their_load_in_percent_of_their_capacity():
    timeline = run(network([2, 1], [(0, 10, [0, 1]), (4, 3, [1])], "fair"))
    figure = figures.link_load(timeline)
    assert [axes.get_ylabel() for axes in figure.axes] == ["link0", "link1"]
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[0, 50], [4, 25], [10, 50], [13, 0], [13, 0]]
    assert figure.axes[1].lines[0].get_ydata().max() == 100
    assert figure.axes[0].texts[0].get_text() == "mean 38%"  # 10 bytes of 2 x 13


def test_many_media_are_a_heat_map_with_a_row_each():
    timeline = straight(6, 3, sharing="fifo")
    figure = figures.link_load(timeline)
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert [name.split()[0] for name in names] == [medium.replace("->", "→") for medium in timeline.program.media]
    (image,) = axes.images
    shown = np.asarray(image.get_array())[..., :3]
    assert shown.shape[:2] == (10, round(axes.get_window_extent().width))
    full, nothing = shown.reshape(-1, 3).min(axis=0), shown.reshape(-1, 3).max(axis=0)
    time = (np.arange(shown.shape[1]) + 0.5) / shown.shape[1] * timeline.makespan
    task = timeline.program.route.inverse(10)[0]
    busy = ((timeline.start[task, None] < time) & (time < timeline.end[task, None])).any(axis=0)
    whole = np.convolve(busy, [1, 1, 1], "same")  # columns that are busy throughout, or idle throughout
    assert (shown[0, whole == 3] == full).all()
    assert (shown[0, whole == 0] == nothing).all()


def test_of_many_media_the_busiest_are_shown_and_first():
    flows = [(0, 1000 * (10 + 7 * n % 40), [n]) for n in range(40)]  # 10 to 49 kB, each once, in mixed order
    figure = figures.link_load(run(network([2] * 40, flows, "fair")))
    axes = figure.axes[0]
    busiest = sorted(range(40), key=lambda n: -flows[n][1])[:32]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"link{n} {flows[n][1] / 49000:.0%}" for n in busiest]
    assert axes.get_title("left") == "the 32 busiest of 40 links (mean load)"
    assert len(axes.images[0].get_array()) == 32


def test_more_than_the_capacity_has_a_line_in_panels_and_a_colour_in_the_heat_map():
    few = figures.link_load(run(network([2], [(0, 6, [0]), (1, 6, [0])], "none")))
    assert in_legend(few) == ["capacity"]
    assert few.axes[0].lines[0].get_ydata().max() == 200
    flows = [(0, 6, [0]), (1, 6, [0]), *((0, 6, [n]) for n in range(1, 8))]
    many = figures.link_load(run(network([2] * 8, flows, "none")))
    assert in_legend(many) == ["more than the capacity"]
    shown = np.asarray(many.axes[0].images[0].get_array())[..., :3]
    assert {n for n in range(8) if (np.abs(shown[n] - to_rgb(paper.WARNING)).max(axis=-1) < 0.01).any()} == {0}


def test_no_load_to_draw_is_refused():
    with pytest.raises(InputError, match="no transfers over links"):
        figures.link_load(run(pipeline([3], [5], 2, "gpipe")))
