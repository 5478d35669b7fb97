"""Stacked panels of step curves."""

import numpy as np
import pytest

from pipesim.display.figures import panels, paper


def stack(*floors):
    rows = [
        panels.StepPanel(f"g{i}", f"peak {i}", np.array([0, 5]), np.array([1.0, 3.0]), f) for i, f in enumerate(floors)
    ]
    with paper.style():
        return panels.stack(rows, 10, 4.0, "memory (GiB)")


def test_panels_share_their_axes_and_one_label():
    figure, grid = stack(0.0, 0.0)
    assert [axes.get_ylim() for axes in grid] == [(0.0, 4.0)] * 2
    assert [axes.get_xlabel() for axes in grid] == ["", "time (ns)"]
    assert figure.get_supylabel() == "memory (GiB)"


def test_a_curve_is_drawn_to_the_end_of_the_time_axis():
    _, (axes,) = stack(0.0)
    (line,) = axes.lines
    assert line.get_xydata().tolist() == [[0.0, 1.0], [5.0, 3.0], [10.0, 3.0]]


@pytest.mark.parametrize(("floor", "boxes"), [(0.0, 0), (1.0, 1)])
def test_the_constant_part_is_a_box(floor, boxes):
    _, (axes,) = stack(floor)
    assert len(axes.patches) == boxes
