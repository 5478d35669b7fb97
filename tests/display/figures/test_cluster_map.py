"""Figures of clusters."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from helpers.pictures import in_legend, numbers, topology
from helpers.places import MACHINES
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.display import figures
from pipesim.display.figures import cluster_map
from pipesim.display.figures.graph_layout import graph_layout


def test_links_are_lines_wider_with_their_bandwidth_and_in_the_legend():
    cluster = topology("servers(2, 2, '25GB/s', '1GB/s', nics=2)")
    figure = figures.cluster(cluster)
    (lines,) = (c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    assert len(lines.get_segments()) == len(cluster.links)
    widths = sorted(set(np.round(lines.get_linewidths(), 6)))
    assert len(widths) == 2
    assert in_legend(figure) == ["device", "switch", "NIC or port", "25 GB/s (8 links)", "1 GB/s (4 links)"]


def test_a_cpu_that_is_joined_with_another_is_no_port():
    """DGX-1: below each CPU is one bus, beside it the other CPU. Drawn as a port, the way looked like one through."""
    cluster = topology(f'nvidia_smi("{MACHINES}/dgx1.txt", 2, "100 Gb/s", device="v100-16gb")')
    looks = dict(zip(cluster.vertices, cluster_map._looks(cluster, graph_layout(cluster)), strict=True))
    alike = {name: look == looks["core"] for name, look in looks.items()}
    assert alike["node0.numa0"]
    assert alike["node1.numa1"]
    assert not alike["node0.mlx5_0"]


def test_very_many_bandwidths_are_grouped_in_classes():
    figure = figures.cluster(topology("random(12, 1, ['1 GB/s', '16 GB/s'], 1, distribution='log')"))
    assert len([text for text in in_legend(figure) if " to " in text]) == 4


def test_links_that_are_not_full_duplex_are_dashed():
    devices = tuple(Device(name, "any") for name in "abc")
    links = (Link("a", "b", 1e9, duplex="half"), Link("b", "c", 1e9, duplex="one_way"), Link("a", "c", 1e9))
    legend = in_legend(figures.cluster(Cluster("mixed", devices, links)))
    assert {"both directions share it", "one way"} <= set(legend)


def test_the_matrix_shows_the_bandwidth_from_every_device_to_every_other():
    cluster = topology("servers(2, 2, '25GB/s', '1GB/s', nics=2)")
    matrix = figures.cluster(cluster).axes[1]
    shown = matrix.images[0].get_array()
    off = ~np.eye(4, dtype=bool)
    assert shown.mask.tolist() == np.eye(4, dtype=bool).tolist()
    assert (np.asarray(shown)[off] * 1e9).tolist() == cluster.bandwidth_matrix[off].tolist()
    assert sorted(numbers(matrix)) == ["1"] * 8 + ["25"] * 4


def test_devices_without_a_route_are_grey_in_the_matrix():
    cluster = Cluster("islands", tuple(Device(name, "any") for name in "abc"), (Link("a", "b", 1e9),))
    matrix = figures.cluster(cluster).axes[1]
    assert "no route" in matrix.get_title(loc="left")
    assert np.ma.count(matrix.images[0].get_array()) == 2


@pytest.mark.parametrize("devices", [1, 2, 1024])
def test_clusters_of_any_size_can_be_drawn(devices, tmp_path):
    names = [f"gpu{i}" for i in range(devices)]
    links = tuple(Link(name, "switch", 1e9) for name in names) if devices > 1 else ()
    figures.cluster(Cluster("any", tuple(Device(name, "any") for name in names), links), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5_000


def test_around_the_edges_of_a_grid_links_are_arcs_beside_what_is_between():
    figure = figures.cluster(topology("torus2d(3, 4, '1GB/s')"))
    (lines,) = (c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    ways = lines.get_segments()
    arcs = [way for way in ways if len(way) > 2]
    assert (len(ways), len(arcs)) == (24, 3 + 4)
    for way in arcs:
        inner = way[2:-2]
        whole = np.abs(inner - inner.round()) < 0.05  # on a row, and on a column
        assert not whole.all(axis=1).any(), "an arc runs through a device"


def test_names_in_a_grid_are_left_out_where_rows_are_too_close():
    shown = [len(figures.cluster(topology(f"torus2d({rows}, 3, '1GB/s')")).axes[0].texts) for rows in (4, 60)]
    assert shown == [12, 0]
