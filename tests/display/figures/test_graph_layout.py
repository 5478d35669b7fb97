"""Positions of the vertices of a cluster."""

import numpy as np
import pytest

from helpers.pictures import topology
from pipesim.display.figures.graph_layout import graph_layout


def levels(cluster):
    """The y of a level -> the vertices there, from left to right."""
    places = graph_layout(cluster)
    found: dict[int, list[str]] = {}
    for number in np.argsort(places.x, kind="stable").tolist():
        found.setdefault(round(places.y[number]), []).append(cluster.vertices[number])
    return found


def test_the_height_of_vertices_is_their_number_of_steps_from_a_device():
    """The switch that connects only the devices of a node is below them."""
    found = levels(topology("servers(2, 2, '25GB/s', '1GB/s', nics=2)"))
    assert found[0] == ["node0.gpu0", "node0.gpu1", "node1.gpu0", "node1.gpu1"]
    assert found[1] == ["node0.nic0", "node0.nic1", "node1.nic0", "node1.nic1"]
    assert found[2] == ["core"]
    assert found[-1] == ["node0.switch", "node1.switch"]


def test_a_single_switch_is_above_its_devices():
    assert levels(topology("flat(3, '1GB/s')")) == {0: ["gpu0", "gpu1", "gpu2"], 1: ["switch"]}


def test_without_switches_devices_are_on_a_circle_in_their_order():
    places = graph_layout(topology("ring(6, '1GB/s')"))
    assert places.circle
    assert np.hypot(places.x, places.y) == pytest.approx(np.ones(6))
    steps = np.hypot(np.diff(places.x, append=places.x[0]), np.diff(places.y, append=places.y[0]))
    assert steps == pytest.approx(np.full(6, steps[0]))


def test_devices_of_a_torus_are_in_its_grid():
    """On a circle its links crossed each other everywhere."""
    places = graph_layout(topology("torus2d(3, 4, '1GB/s')"))
    assert places.grid
    assert list(zip(places.x.tolist(), (-places.y).tolist(), strict=True)) == [
        (column, row) for row in range(3) for column in range(4)
    ]


@pytest.mark.parametrize(
    "text", ["ring(6, '1GB/s')", "torus2d(1, 6, '1GB/s')", "random(12, 30, ['1GB/s'])", "flat(6, '1GB/s')"]
)
def test_what_is_no_grid_of_rows_and_columns_stays_on_a_circle(text):
    places = graph_layout(topology(text))
    assert not places.grid


@pytest.mark.parametrize("text", ["fat_tree(6)", "leaf_spine(4, 3, 4, '10GB/s', '40GB/s')", "dgx1_v100(3)"])
def test_no_two_vertices_overlap(text):
    places = graph_layout(topology(text))
    for y in np.unique(places.y):
        assert np.diff(np.sort(places.x[places.y == y])).min(initial=1.0) > 0.2
