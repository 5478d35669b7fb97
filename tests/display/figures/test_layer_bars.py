"""Layers of a trace as bars."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection

from helpers.pictures import in_legend
from helpers.small_traces import sampled_trace
from pipesim.display import figures
from pipesim.display.figures import layer_bars


def heights(axes):
    """From where to where each bar of each sort reaches."""
    bars = [c for c in axes.collections if isinstance(c, PolyCollection)]
    return [[(path.vertices[:, 1].min(), path.vertices[:, 1].max()) for path in bar.get_paths()] for bar in bars]


def test_backward_is_on_top_of_forward_in_a_unit_that_fits():
    axes = figures.layers(sampled_trace([2e-3], [4e-3])).axes[0]
    assert axes.get_ylabel() == "time (ms)"
    assert np.array(heights(axes)) == pytest.approx(np.array([[(0, 2), (0, 4)], [(2, 6), (4, 12)]]))


def test_sizes_have_panels_of_their_own():
    figure = figures.layers(sampled_trace([1.0], [1.0]))
    assert [axes.get_ylabel() for axes in figure.axes] == ["time (s)", "size (bytes)", "size (bytes)"]
    assert heights(figure.axes[1]) == [[(0, 8), (0, 8)]]
    assert heights(figure.axes[2]) == [[(0, 0), (0, 0)]]
    found = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert found == [[], [], ["none in this trace"]], "an empty scale has no values"


def test_noise_is_drawn_where_there_are_samples():
    still, noisy = figures.layers(sampled_trace([1.0])), figures.layers(sampled_trace([1.0, 2.0, 6.0]))
    assert not [c for c in still.axes[0].collections if isinstance(c, LineCollection)]
    forward, backward = (c for c in noisy.axes[0].collections if isinstance(c, LineCollection))
    assert forward.get_segments()[0][:, 1].tolist() == [1.0, 3.0]  # 2 and the median distance from it, 1
    assert backward.get_segments()[0][:, 1].tolist() == [4.0, 8.0]
    assert "± median absolute deviation" in in_legend(noisy)
    assert "± median absolute deviation" not in in_legend(still)


def test_few_layers_are_named_and_many_numbered():
    few, many = (figures.layers(sampled_trace(*[[1.0]] * count)).axes[-1] for count in (3, 200))
    assert [label.get_text() for label in few.get_xticklabels()] == ["layer 0", "layer 1", "layer 2"]
    assert many.get_xlabel() == "layer"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["embedding", "head"], ["embedding", "head"]),
        (["model.layers.0.attention.dense", "head"], ["model.la…ion.dense", "head"]),
        (
            [f"model.layers.{n}.attention.dense" for n in (0, 1, 10)],
            ["…layers.0.attent…", "…layers.1.attent…", "…layers.10.attent…"],
        ),
        (["a" * 30, "a" * 34, "a" * 30], ["…aaaaaaaa", "…aaaaaaaaaa", "…aaaaaaaa"]),
    ],
)
def test_long_names_are_cut_where_they_do_not_differ(names, shown):
    """Of 'transformer.layers.0.attention.dense' and 1, 2, ... all labels read 'transformer…tention.dense'."""
    found = layer_bars.distinct(names, 18)
    assert found == shown
    assert all(len(name) <= 18 for name in found)


def test_titles_on_both_sides_of_a_panel_do_not_meet():
    """A long model name and the note of what is not drawn ran into the device kind on the right."""
    trace = replace(sampled_trace([1.0]), model="a model of somebody with a name that is rather long " * 2)
    figure = figures.layers(trace)
    axes = figure.axes[0]
    figure.draw_without_rendering()
    left, right = (axes.title if where == "center" else getattr(axes, f"_{where}_title") for where in ("left", "right"))
    assert left.get_window_extent().x1 < right.get_window_extent().x0


def test_the_same_trace_gives_the_same_file(tmp_path):
    for name in ("a.png", "b.png"):
        figures.layers(sampled_trace([1.0, 2.0], [3.0]), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
