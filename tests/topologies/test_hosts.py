"""Machines of several sorts and the network between them, in one file."""

import json

import numpy as np
import pytest

from helpers import contracts
from helpers.places import MACHINES
from pipesim.base import serialisation
from pipesim.base.errors import InputError
from pipesim.studies import loading


def path(cluster, source, target):
    return contracts.vertices_of(cluster, source, cluster.route(source, target).links)


def width(cluster, source, target):
    (found,) = (link.bandwidth for link in cluster.links if {link.source, link.target} == {source, target})
    return found


MIXED = """
format = "pipesim.machines"
version = 1
name = "mixed"

[[nodes]]
file = "dgx1.txt"
count = 2

[[nodes]]
text = '''
	GPU0	GPU1	mlx5_0	CPU Affinity
GPU0	 X 	NV12	PIX	0-31
GPU1	NV12	 X 	PIX	0-31
mlx5_0	PIX	PIX	 X
'''
device = "a100-80gb"
memory = "40 GiB"
latency = "2us"

[fabric]
bandwidth = "25 Gb/s"
latency = "3us"
"""


@pytest.fixture
def machines(tmp_path):
    """Write this as a file of machines, beside those of the tests, and load it."""
    for known in MACHINES.iterdir():
        (tmp_path / known.name).write_bytes(known.read_bytes())

    def load(content, suffix=".toml"):
        (tmp_path / f"lab{suffix}").write_text(content)
        return loading.load_cluster(str(tmp_path / f"lab{suffix}"))

    return load


def test_a_file_of_machines_joins_nodes_of_several_sorts(machines):
    cluster = machines(MIXED)
    assert cluster.name == "mixed"
    assert [device.kind for device in cluster.devices] == ["v100-16gb"] * 16 + ["a100-80gb"] * 2
    assert [device.node for device in cluster.devices[-3:]] == ["node1", "node2", "node2"]
    assert cluster.devices[-1].memory == 40 * 2**30
    assert cluster.bandwidth_matrix[0, 16] == cluster.bandwidth_matrix[0, 8] == 25e9 / 8
    assert cluster.bandwidth_matrix[16, 17] == 300e9
    assert cluster.route("node2.gpu0", "node2.gpu1").delay == pytest.approx(4e-6)
    assert cluster.route("node0.gpu0", "node2.gpu1").delay == pytest.approx(1e-6 + 3e-6 + 3e-6 + 2e-6)
    contracts.check_topology(cluster)


def test_a_file_of_machines_may_be_json_and_mix_formats(machines):
    data = serialisation.parse_data(MIXED, ".toml")
    data["nodes"][0]["file"] = "dgx1.xml"
    assert np.array_equal(machines(json.dumps(data), ".json").bandwidth_matrix, machines(MIXED).bandwidth_matrix)


def test_rails_join_nics_of_the_same_number_and_spines_the_rails(machines):
    cluster = machines(
        'format = "pipesim.machines"\nversion = 1\n[[nodes]]\nfile = "hgx_h100.txt"\ncount = 4\n'
        '[fabric]\ntopology = "rails"\nbandwidth = "400 Gb/s"\nspines = 2'
    )
    assert path(cluster, "node0.gpu3", "node2.gpu3") == [
        *("node0.gpu3", "node0.pcie3", "node0.mlx5_3", "rail3", "node2.mlx5_3", "node2.pcie3", "node2.gpu3")
    ]
    assert width(cluster, "rail3", "spine1") == 4 * 50e9 / 2, "as wide up as down"
    assert cluster.bandwidth_matrix[3, 16 + 5] == 50e9


def test_leaves_join_all_nics_of_some_machines(machines):
    cluster = machines(
        'format = "pipesim.machines"\nversion = 1\n[[nodes]]\nfile = "dgx1.txt"\ncount = 4\n'
        '[fabric]\ntopology = "leaf_spine"\nbandwidth = "100 Gb/s"\nspines = 2\nnodes_per_leaf = 2\nuplink = "40 Gb/s"'
    )
    assert "leaf0" in path(cluster, "node0.gpu0", "node1.gpu0")
    assert "spine" not in " ".join(path(cluster, "node0.gpu0", "node1.gpu0"))
    assert cluster.bandwidth_matrix[0, 8] == 12.5e9
    assert cluster.bandwidth_matrix[0, 16] == 5e9
    assert width(cluster, "leaf1", "spine0") == 5e9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('file = "dgx1.txt"', 'file = "none.txt"', r"lab.toml: nodes\[0\]: file: .*none.txt: no such file"),
        ('file = "dgx1.txt"', "", r"nodes\[0\]: neither file nor text found; one was expected"),
        ('file = "dgx1.txt"', 'file = "dgx1.txt"\ntext = "x"', r"nodes\[0\]: both file and text found"),
        ('file = "dgx1.txt"', 'file = "rtx_4090.txt"', r"nodes\[0\]: file: .*rtx_4090.txt: does not contain the kind"),
        ("count = 2", "count = 0", r"nodes\[0\]: count = 0 found; a whole number from 1"),
        ("count = 2", "count = 130000", "devices found; at most 131072"),
        ("count = 2", "cuont = 2", r"nodes\[0\].cuont: unknown key"),
        ("count = 2", 'count = 2\nnics = ["mlx5_9"]', r"nodes\[0\]: nics: unknown NIC 'mlx5_9'"),
        ("NV12\tPIX", "NV12\tPIY", r"nodes\[1\]: text: line 2, column \d+: 'PIY' found"),
        ('bandwidth = "25 Gb/s"', 'bandwidth = "25 Gbit"', "fabric.bandwidth: '25 Gbit' is not a bandwidth"),
        ('bandwidth = "25 Gb/s"', 'bandwidth = "0 Gb/s"', "fabric: bandwidth: 0.0 found; more than 0"),
        ('bandwidth = "25 Gb/s"', "", "the NIC 'mlx5_0' has no speed"),
        ('bandwidth = "25 Gb/s"', 'topology = "star"', "fabric.topology: 'star' found; one of 'core', 'rails'"),
        ('bandwidth = "25 Gb/s"', 'topology = "leaf_spine"', "fabric: nodes_per_leaf: missing"),
        ("version = 1", "version = 2", r"pipesim.machines version 2 is newer than this pipesim reads \(1\)"),
    ],
)
def test_what_is_wrong_in_a_file_of_machines_is_told_with_its_key(machines, old, new, message):
    assert MIXED.count(old) == 1
    with pytest.raises(InputError, match=message):
        machines(MIXED.replace(old, new))
