"""Bandwidths without the matrix: the same as from the matrix, with as few trees as devices differ."""

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
from pipesim.topologies.rail_fat_tree import rail_fat_tree
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


@given(clusters(), st.data())
@settings(max_examples=80, deadline=None)
def test_the_least_of_groups_is_that_of_the_matrix(cluster, data):
    of = data.draw(st.lists(st.integers(0, 2), min_size=len(cluster.devices), max_size=len(cluster.devices)))
    groups = [[n for n, group in enumerate(of) if group == number] for number in sorted(set(of))]
    expected = [cluster.bandwidth_matrix[np.ix_(group, group)].min() for group in groups]
    assert widths.least_within(cluster, groups) == expected


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ('flat(20, bandwidth="1GB/s")', 2),
        ('servers(5, 8, intra="2GB/s", inter="1GB/s")', 4),
        ('servers(5, 8, intra="2GB/s", inter="1GB/s", nics=2)', 8),
        ('fat_tree(6, 1, "1GB/s")', 8),
        ("rail_fat_tree(30, per_leaf=2, leaves=3, spines=3, cores=2, gpus=3)", 24),
        ('torus2d(4, 4, bandwidth="1GB/s")', 16),
    ],
)
def test_of_parts_that_can_change_places_two_are_searched(text, devices):
    cluster = load_cluster(text)
    label = np.zeros(len(cluster.vertices), np.int64)
    label[len(cluster.devices) :] = -1
    *_, kept = widths._reduced(cluster, label)
    assert (kept == 0).sum() == devices
    matrix = cluster.bandwidth_matrix
    between = matrix[~np.eye(len(matrix), dtype=bool)]
    assert widths.least_and_most(cluster) == (between.min(), between.max())


@pytest.mark.parametrize(
    "cluster",
    [flat(300, 1e9), servers(64, 8, 2e9, 1e9), torus2d(12, 12, 1e9), rail_fat_tree(128, per_leaf=4, leaves=4)],
    ids=lambda cluster: cluster.name,
)
def test_a_summary_makes_no_matrix(cluster):
    """A summary of 16,384 devices made a matrix of them: 2,048 servers took 7 GB and a minute."""
    text.cluster(cluster)
    assert "bandwidth_matrix" not in vars(cluster)


@pytest.mark.parametrize(
    ("cluster", "devices"),
    [('flat(16384, bandwidth="1GB/s")', 16384), ("rail_fat_tree(2048)", 16384)],
)
def test_large_clusters_are_shown_in_half_a_gigabyte(cluster, devices):
    """The matrix of 16,384 devices alone takes four times as much."""
    command = (
        "import sys; from pathlib import Path; from pipesim.cli import main; main(['show', sys.argv[1]]);"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    )  # its own most: getrusage begins with what the process had that started this one
    done = subprocess.run([sys.executable, "-c", command, cluster], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 500_000  # KiB
    assert f"... {devices - 16} more devices" in done.stdout
