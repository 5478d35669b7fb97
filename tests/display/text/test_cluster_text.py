"""Clusters as text."""

from dataclasses import replace

import pytest

from pipesim.display import text
from pipesim.studies.loading import load_cluster


def test_a_cluster_is_shown_with_its_bandwidths():
    shown = text.cluster(load_cluster('servers(2, 2, intra="25GB/s", inter="1GB/s")'))
    assert "4 x v100-16gb" in shown
    assert "1.000 GB/s to 25.00 GB/s" in shown
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.startswith("node")}
    assert rows["node0.gpu0"] == ["·", "25", "1", "1"]


@pytest.mark.parametrize(("devices", "left_out"), [(16, False), (20, True)])
def test_the_devices_left_out_of_the_matrix_are_counted(devices, left_out):
    shown = text.cluster(load_cluster(f'flat({devices}, bandwidth="1GB/s")'))
    assert ("... 4 more devices" in shown) == left_out


def test_links_with_bursts_are_counted():
    cluster = load_cluster('flat(2, bandwidth="1GB/s")')
    one, other = cluster.links
    shown = text.cluster(replace(cluster, links=(replace(one, burst=2**20, peak=3e9), other)))
    assert "bursts          1.000 MiB at 3.000 GB/s, on 2 of 4 directions or media" in shown
    assert "bursts" not in text.cluster(cluster)
