"""Bandwidths without the matrix: the same as from the matrix, with a few trees in place of one per device."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.core import widths
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.display import text
from pipesim.studies.loading import load_cluster
from pipesim.topologies.flat import flat
from pipesim.topologies.servers import servers
from pipesim.topologies.torus2d import torus2d

WIDTHS = (1.0, 2.0)


@st.composite
def clusters(draw):
    """Devices that are joined to few switches in few ways, some over a port: many can change places, some nearly."""
    switches = ["s", "t", "u"][: draw(st.integers(1, 3))]
    devices = [f"d{i}" for i in range(draw(st.integers(1, 6)))]
    links = list(_between(draw, list(itertools.combinations(switches, 2))))
    for device in devices:
        for other in switches:
            how = draw(st.sampled_from(["none", "link", "link", "port"]))
            ends = [] if how == "none" else [(device, other)]
            if how == "port":
                ends = [(device, f"{device}-{other}"), (f"{device}-{other}", other)]
            links += _between(draw, ends, absent=False)
    links += _between(draw, list(itertools.combinations(devices, 2)))
    return Cluster("drawn", tuple(Device(name, "any") for name in devices), tuple(links))


def _between(draw, pairs, *, absent=True):
    for ends in pairs:
        duplex = draw(st.sampled_from([*["none"] * (3 * absent), "full", "half", "one_way"]))
        if duplex != "none":
            source, target = ends if duplex != "one_way" or draw(st.booleans()) else ends[::-1]
            yield Link(source, target, draw(st.sampled_from(WIDTHS)), duplex=duplex)


@given(clusters())
@settings(max_examples=160, deadline=None)
def test_least_and_most_are_those_of_the_matrix(cluster):
    matrix = cluster.bandwidth_matrix
    between = matrix[~np.eye(len(matrix), dtype=bool)]
    expected = (between.min(), between.max()) if len(between) else None
    assert widths.least_and_most(cluster) == expected
    assert np.array_equal(widths.among_first(cluster, 3), matrix[:3, :3])


@pytest.mark.parametrize(
    ("text", "trees"),
    [
        ('flat(20, bandwidth="1GB/s")', 1),
        ('servers(5, 8, intra="2GB/s", inter="1GB/s")', 5),
        ('servers(5, 8, intra="2GB/s", inter="1GB/s", nics=2)', 10),
        ('fat_tree(4, 1, "1GB/s")', 8),
        ('torus2d(4, 4, bandwidth="1GB/s")', 16),
        ("dgx1_v100", 8),
    ],
)
def test_one_tree_for_all_devices_that_can_change_places(text, trees):
    cluster = load_cluster(text)
    assert len(widths._representatives(cluster)) == trees
    matrix = cluster.bandwidth_matrix
    between = matrix[~np.eye(len(matrix), dtype=bool)]
    assert widths.least_and_most(cluster) == (between.min(), between.max())


@pytest.mark.parametrize(
    "cluster",
    [flat(300, 1e9), servers(64, 8, 2e9, 1e9), torus2d(12, 12, 1e9)],
    ids=lambda cluster: cluster.name,
)
def test_a_summary_makes_no_matrix(cluster):
    """A summary of 16,384 devices made a matrix of them: 2,048 servers took 7 GB and a minute."""
    text.cluster(cluster)
    assert "bandwidth_matrix" not in vars(cluster)


@pytest.mark.parametrize(
    ("cluster", "devices"),
    [('flat(16384, bandwidth="1GB/s")', 16384), ('servers(1024, 8, intra="2GB/s", inter="1GB/s")', 8192)],
)
def test_large_clusters_are_shown_in_half_a_gigabyte(cluster, devices):
    """The matrix of 8,192 devices alone takes more."""
    command = (
        "import sys; from pathlib import Path; from pipesim.cli import main; main(['show', sys.argv[1]]);"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    )  # its own most: getrusage begins with what the process had that started this one
    done = subprocess.run([sys.executable, "-c", command, cluster], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 500_000  # KiB
    assert f"... {devices - 16} more devices" in done.stdout
