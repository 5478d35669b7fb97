"""Machines from the text of `nvidia-smi topo -m`, and clusters of them."""

import itertools
import re
import time

import numpy as np
import pytest

from helpers import contracts
from helpers.places import MACHINES
from pipesim.base import serialisation
from pipesim.base.errors import FormatError, InputError
from pipesim.cli import main
from pipesim.core.cluster import Cluster
from pipesim.studies import loading
from pipesim.topologies.hosts import interconnects, matrix
from pipesim.topologies.nvidia_machines import CUBE_MESH, dgx1_v100, dgx_a100, hgx_h100
from pipesim.topologies.nvidia_smi import nvidia_smi

FILES = ("dgx1", "dgx2", "dgx_a100", "hgx_h100", "rtx_4090")
RTX = {"device": "rtx4090", "memory": "24 GiB"}


def file(name):
    return str(MACHINES / f"{name}.txt")


def path(cluster, source, target):
    return contracts.vertices_of(cluster, source, cluster.route(source, target).links)


def width(cluster, source, target):
    (found,) = (link.bandwidth for link in cluster.links if {link.source, link.target} == {source, target})
    return found


@pytest.fixture
def text(tmp_path):
    """Write this text and read it as a machine."""

    def read(content, *arguments, **options):
        (tmp_path / "topo.txt").write_text(content)
        return nvidia_smi(str(tmp_path / "topo.txt"), *arguments, **options)

    return read


def table(*rows):
    """A matrix from rows of classes, the names of things first: "GPU0 GPU1", then "X PHB", ..."""
    names = rows[0].split()
    return "\n".join([f"\t{rows[0]}", *(f"{name} {row}" for name, row in zip(names, rows[1:], strict=True))])


# --- machines that are known ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "function", "inter"),
    [("dgx1", dgx1_v100, "100 Gb/s"), ("dgx_a100", dgx_a100, "200 Gb/s"), ("hgx_h100", hgx_h100, "400 Gb/s")],
)
def test_nvidia_s_machines_are_as_wide_between_any_two_gpus_as_the_topologies_of_that_name(
    name, function, inter, nodes
):
    found, known = nvidia_smi(file(name), nodes, inter), function(nodes, inter)
    assert np.array_equal(found.bandwidth_matrix, known.bandwidth_matrix)
    assert found.devices == known.devices, "named alike, of the same kind, with its memory"
    if nodes == 1:
        assert {delay(found, a, b) for a, b in pairs(found)} == {delay(known, a, b) for a, b in pairs(known)}


def pairs(cluster):
    return itertools.permutations([device.name for device in cluster.devices], 2)


def delay(cluster, source, target):
    return round(cluster.route(source, target).delay * 1e9)


@pytest.mark.parametrize(("name", "function"), [("dgx1", dgx1_v100), ("dgx_a100", dgx_a100), ("hgx_h100", hgx_h100)])
def test_two_machines_are_as_far_apart_as_in_the_topologies_of_that_name(name, function):
    found, known = nvidia_smi(file(name), 2), function(2)
    assert {delay(found, a, b) for a, b in pairs(found)} == {delay(known, a, b) for a, b in pairs(known)}


def test_the_mesh_of_a_dgx1_is_that_of_the_topology_of_that_name():
    cluster = nvidia_smi(file("dgx1"))
    for (a, b), count in CUBE_MESH.items():
        assert width(cluster, f"node0.gpu{a}", f"node0.gpu{b}") == count * interconnects.NVLINK_2


def test_sixteen_gpus_of_a_dgx2_are_at_one_switch_with_six_nvlinks_each():
    cluster = nvidia_smi(file("dgx2"), device="v100-32gb")
    assert len(cluster.devices) == 16
    assert set(cluster.bandwidth_matrix.ravel()) == {np.inf, 150e9}
    assert {width(cluster, f"node0.gpu{i}", "node0.nvswitch") for i in range(16)} == {6 * interconnects.NVLINK_2}


def test_a_dgx2_has_a_tree_of_pcie_switches():
    """Two GPUs and a NIC at a switch, two of those below another, two of these at a CPU."""
    cluster = nvidia_smi(file("dgx2"), 2)
    assert path(cluster, "node0.gpu0", "node1.gpu15") == [
        *("node0.gpu0", "node0.pcie0", "node0.mlx5_0", "core"),
        *("node1.mlx5_7", "node1.pcie7", "node1.gpu15"),
    ]
    above = {"pcie0": "bridge0", "pcie1": "bridge0", "pcie7": "bridge3", "bridge0": "numa0", "bridge3": "numa1"}
    for one, other in above.items():
        assert width(cluster, f"node0.{one}", f"node0.{other}") == interconnects.pcie(3)
    assert width(cluster, "node0.numa0", "node0.numa1") == interconnects.UPI


def test_eight_4090_without_nvlinks_share_host_bridges_and_one_link_between_the_sockets():
    cluster = nvidia_smi(file("rtx_4090"), **RTX)
    pcie4, upi = interconnects.pcie(4), interconnects.UPI
    matrix_ = cluster.bandwidth_matrix
    assert set(matrix_[:4, :4].ravel()) == set(matrix_[4:, 4:].ravel()) == {np.inf, pcie4}
    assert set(matrix_[:4, 4:].ravel()) == {upi}
    assert path(cluster, "node0.gpu0", "node0.gpu1") == ["node0.gpu0", "node0.host0", "node0.gpu1"]
    assert path(cluster, "node0.gpu1", "node0.gpu6") == [
        *("node0.gpu1", "node0.host0", "node0.numa0", "node0.numa1", "node0.host3", "node0.gpu6"),
    ]
    across = [set(cluster.route(f"node0.gpu{i}", f"node0.gpu{i + 4}").media) for i in range(4)]
    assert len(set.intersection(*across)) == 1, "all four contend for the link between the sockets"
    inside = [set(cluster.route(f"node0.gpu{i}", f"node0.gpu{i + 1}").media) for i in (0, 2, 4, 6)]
    assert all(not a & b for a, b in itertools.combinations(inside, 2))


@pytest.mark.parametrize("name", FILES)
def test_every_route_between_machines_leaves_by_a_nic_and_no_route_inside_does(name):
    cluster = nvidia_smi(file(name), 2, **(RTX if name == "rtx_4090" else {}))
    for a, b in pairs(cluster):
        via_core = "core" in path(cluster, a, b)
        assert via_core == (a.partition(".")[0] != b.partition(".")[0])


def test_a_deep_tree_does_not_send_from_socket_to_socket_over_the_network(text):
    """Nine hops from one to the other, six by NIC and core: the NICs are put so far from it that it is no short cut."""
    levels = {(0, 1): "PIX", (0, 2): "PXB", (0, 3): "PHB", (0, 4): "NODE"}
    names = [*(f"GPU{i}" for i in range(10)), "mlx5_0", "mlx5_1"]

    def between(i, j):
        socket = {10: 0, 11: 1}
        a, b = (socket.get(k, k // 5) for k in (i, j))
        if a != b:
            return "SYS"
        i, j = sorted(0 if k > 9 else k % 5 for k in (i, j))
        return levels.get((i, j), "PIX") if i == 0 else levels[0, j]

    rows = [" ".join("X" if i == j else between(i, j) for j in range(12)) for i in range(12)]
    content = table(" ".join(names), *rows)
    cluster = text(content, 2, 1e9, device="abacus", memory=1)
    assert "core" not in path(cluster, "node0.gpu0", "node0.gpu5")
    assert len(path(cluster, "node0.gpu0", "node0.gpu5")) == 10
    assert "core" in path(cluster, "node0.gpu0", "node1.gpu0")
    assert cluster.route("node0.gpu0", "node1.gpu0").bandwidth == 1e9


# --- what the user says ----------------------------------------------------------------------------------------------


def test_each_class_of_link_takes_the_bandwidth_that_is_said():
    cluster = nvidia_smi(
        file("rtx_4090"), 2, "1 GB/s", pcie="8 GB/s", between_bridges="7 GB/s", between_cpus="6 GB/s", **RTX
    )
    assert width(cluster, "node0.gpu0", "node0.host0") == 8e9
    assert width(cluster, "node0.host0", "node0.numa0") == 7e9
    assert width(cluster, "node0.numa0", "node0.numa1") == 6e9
    assert cluster.bandwidth_matrix[0, [1, 2, 4, 8]].tolist() == [8e9, 7e9, 6e9, 1e9]
    assert nvidia_smi(file("dgx_a100"), nvlink="10 GB/s").bandwidth_matrix[0, 1] == 120e9
    assert nvidia_smi(file("dgx1"), nvlink="10 GB/s").bandwidth_matrix[0, 3] == 20e9


def test_a_host_bridge_is_as_wide_as_all_below_it_unless_it_is_limited():
    cluster = nvidia_smi(file("rtx_4090"), **RTX)
    assert width(cluster, "node0.host0", "node0.numa0") == 2 * interconnects.pcie(4)


def test_the_generation_of_links_is_that_of_the_kind():
    """Of the same text: two GPUs with four NVLinks each."""
    rows = table("GPU0 GPU1", "X NV4", "NV4 X")
    for kind, expected in (
        ("p100", 80e9),
        ("v100", 100e9),
        ("rtx3090-24gb", 56.25e9),
        ("b300-270gb", 200e9),
        ("x", 100e9),
    ):
        found = interconnects.ports_of(kind)
        assert matrix.parse(rows).cells[0, 1].nvlinks * found.nvlink == expected


def test_kind_is_another_word_for_device():
    assert nvidia_smi(file("dgx1"), kind="v100-32gb") == nvidia_smi(file("dgx1"), device="v100-32gb")
    with pytest.raises(InputError, match="only one of them was expected"):
        nvidia_smi(file("dgx1"), kind="v100-32gb", device="v100-32gb")


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (("GPU0 GPU1", "X NV6", "NV6 X"), "v100-16gb"),
        (("GPU0 GPU1", "X NV12", "NV12 X"), "a100-40gb"),
        (("GPU0 GPU1 GPU2 GPU3", "X NV2 NV2 NV2", "NV2 X NV2 NV2", "NV2 NV2 X NV2", "NV2 NV2 NV2 X"), "v100-16gb"),
        (("GPU0 GPU1 GPU2 GPU3", "X NV4 NV4 NV4", "NV4 X NV4 NV4", "NV4 NV4 X NV4", "NV4 NV4 NV4 X"), "a100-40gb"),
        (("GPU0 GPU1 GPU2 GPU3", "X NV6 NV6 NV6", "NV6 X NV6 NV6", "NV6 NV6 X NV6", "NV6 NV6 NV6 X"), "h100-80gb"),
    ],
)
def test_the_kind_is_guessed_from_the_number_of_nvlinks_where_it_is_not_said(text, rows, kind):
    assert {device.kind for device in text(table(*rows)).devices} == {kind}


def test_four_gpus_whose_links_suffice_are_joined_directly_and_others_by_a_switch(text):
    four = "GPU0 GPU1 GPU2 GPU3", "X NV4 NV4 NV4", "NV4 X NV4 NV4", "NV4 NV4 X NV4", "NV4 NV4 NV4 X"
    direct = text(table(*four))
    assert path(direct, "node0.gpu0", "node0.gpu3") == ["node0.gpu0", "node0.gpu3"]
    switched = text(table(*(row.replace("NV4", "NV12") for row in four)))
    assert path(switched, "node0.gpu0", "node0.gpu3") == ["node0.gpu0", "node0.nvswitch", "node0.gpu3"]
    bridge = text(table("GPU0 GPU1 GPU2 GPU3", "X NV12 SYS SYS", "NV12 X SYS SYS", "SYS SYS X NV12", "SYS SYS NV12 X"))
    assert bridge.bandwidth_matrix[0].tolist() == [np.inf, 300e9, interconnects.UPI, interconnects.UPI]


def test_only_the_named_nics_are_on_the_network():
    cluster = nvidia_smi(file("dgx_a100"), 2, nics=["mlx5_0", "mlx5_8"])
    joined = sorted({end for link in cluster.links for end in (link.source, link.target) if "mlx5" in end})
    assert joined == ["node0.mlx5_0", "node0.mlx5_8", "node1.mlx5_0", "node1.mlx5_8"]
    with pytest.raises(InputError, match="nics: unknown NIC 'mlx5_42'; did you mean 'mlx5_"):
        nvidia_smi(file("dgx_a100"), 2, nics=["mlx5_42"])


def test_a_machine_without_nics_in_its_text_has_one_at_its_first_cpu(text):
    cluster = text(table("GPU0 GPU1", "X SYS", "SYS X"), 2, "10 Gb/s", **RTX)
    assert path(cluster, "node0.gpu1", "node1.gpu0") == [
        *("node0.gpu1", "node0.numa1", "node0.numa0", "node0.nic0", "core"),
        *("node1.nic0", "node1.numa0", "node1.gpu0"),
    ]


def test_one_gpu_alone_is_a_machine(text):
    cluster = text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\tN/A\n", **RTX)
    assert (len(cluster.devices), cluster.links) == (1, ())
    assert text("        GPU0\nGPU0     X\n", 2, **RTX).bandwidth_matrix[0, 1] == 12.5e9


# --- the format ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_tabs_spaces_colours_and_line_ends_make_no_difference(name, text):
    content = (MACHINES / f"{name}.txt").read_text()
    options = RTX if name == "rtx_4090" else {}
    expected = text(content, **options)
    for other in (
        content.replace("\t", "   "),
        re.sub(r" {2,}", "\t", content),
        content.replace("\n", "\r\n"),
        re.sub(r"(NV\d+)", "\x1b[1;32m\\1\x1b[0m", content),
        "\x1b[?25l$ nvidia-smi topo -m\n\n" + content,
        "\ufeff" + content,
        content.rstrip("\n"),
        f"| GPU  Name | Bus-Id |\nGPU0\n  product name : x\nGPU1 is idle\n{content}\nlscpu\nCPU(s): 8\n",
    ):
        assert text(other, **options) == expected


def test_only_the_matrix_is_needed(text):
    """Without legends and affinities, the NICs have the names of their columns."""
    content = (MACHINES / "hgx_h100.txt").read_text()
    bare = content.partition("Legend")[0]
    cluster = text(bare, 2)
    assert "node0.nic3" in cluster.vertices
    assert "node0.mlx5_3" in nvidia_smi(file("hgx_h100"), 2).vertices
    assert np.array_equal(cluster.bandwidth_matrix, nvidia_smi(file("hgx_h100"), 2).bandwidth_matrix)


def test_soc_is_what_old_drivers_call_sys(text):
    content = (MACHINES / "dgx1.txt").read_text()
    assert text(content.replace("SYS", "SOC")) == text(content)


def test_nics_may_stand_before_gpus_and_have_any_name(text):
    rows = table("GPU1 rocep1s0 GPU0", "X NODE PHB", "NODE X NODE", "PHB NODE X")
    cluster = text(rows, 2, **RTX)
    assert [device.name for device in cluster.devices[:2]] == ["node0.gpu1", "node0.gpu0"]
    assert "node0.rocep1s0" in cluster.vertices


def test_gpus_joined_by_nvlink_are_at_the_cpu_that_they_name(text):
    """NVLink hides what PCIe they are at; their affinity tells the socket."""
    rows = ["X NV2 NV2 NV2", "NV2 X NV2 NV2", "NV2 NV2 X NV2", "NV2 NV2 NV2 X"]
    lines = [f"GPU{i}\t{row}\t0-19\t{i // 2}" for i, row in enumerate(rows)]
    content = "\n".join(["\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity", *lines])
    cluster = text(content)
    assert {link.target for link in cluster.links if "numa" in link.target} == {"node0.numa0", "node0.numa1"}
    assert width(cluster, "node0.gpu2", "node0.numa1") == interconnects.pcie(3)


def test_what_the_matrix_says_outweighs_affinity(text):
    """In a virtual machine all GPUs name the same CPUs, though nothing is nearer than SYS."""
    content = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tSYS\t0-31\nGPU1\tSYS\tX\t0-31"
    assert width(text(content, **RTX), "node0.numa0", "node0.numa1") == interconnects.UPI


WRONG = {
    "empty": ("", "no line of names, GPU0 GPU1 ..., with rows below found"),
    "no matrix": ("lorem ipsum\n" * 9, "is it from nvidia-smi topo -m"),
    "a class that is none": (
        table("GPU0 GPU1", "X PIY", "PIX X"),
        "line 2, column 8: 'PIY' found for GPU0 and GPU1; PIX",
    ),
    "an NVLink to a NIC": (table("GPU0 nic", "X NV2", "NV2 X"), "line 2, column 8: 'NV2' found for GPU0 and nic; "),
    "no NVLinks": (table("GPU0 GPU1", "X NV0", "NV0 X"), "'NV0' found"),
    "one-sided": (table("GPU0 GPU1", "X NV1", "NV2 X"), "line 3, column 6: NV2 found; NV1 was expected for GPU0 and"),
    "far from itself": (table("GPU0 GPU1", "PIX PHB", "PHB X"), "line 2, column 6: 'PIX' found; X was expected where"),
    "itself twice": (table("GPU0 GPU1", "X X", "X X"), "line 2, column 8: 'X' found for GPU0 and GPU1"),
    "a row too short": (table("GPU0 GPU1", "X", "PIX X"), "line 2: 1 cells found; 2 were expected"),
    "a row missing": ("\tGPU0 GPU1\nGPU0 X PIX", "line 1: no row for GPU1 found"),
    "a row twice": ("\tGPU0 GPU1\nGPU0 X PIX\nGPU0 X PIX", "line 3: duplicate row GPU0"),
    "a row of nobody": ("\tGPU0 GPU1\nGPU0 X PIX\nGPU2 PIX X", "line 3: 'GPU2' found; a row was expected"),
    "a legend too early": ("\tGPU0 GPU1\nGPU0 X PIX\n\nLegend:\n", "no row for GPU1 found"),
    "a column twice": ("\tGPU0 GPU0\nGPU0 X PIX", "line 1, column 7: duplicate name 'GPU0'"),
    "too many": ("\t" + " ".join(f"GPU{i}" for i in range(300)), "272 columns or more found; at most 256"),
    "a legend of nobody": (
        table("GPU0 NIC0", "X PIX", "PIX X") + "\nNIC7: mlx5_0",
        "line 4, column 1: no column of the matrix has the name NIC7",
    ),
    "a NIC called like a GPU": (table("GPU0 NIC0", "X PIX", "PIX X") + "\nNIC0: gpu0", "duplicate name 'gpu0'"),
    "two NICs of one name": (
        table("GPU0 NIC0 NIC1", "X PIX PIX", "PIX X PIX", "PIX PIX X") + "\nNIC0: a\nNIC1: a",
        "duplicate or unprintable name of a NIC: 'a'",
    ),
    "no tree": (
        table("GPU0 GPU1 GPU2", "X PIX SYS", "PIX X PIX", "SYS PIX X"),
        "line 2, column 12: SYS found for gpu0 and gpu2; PIX or nearer was expected",
    ),
    "a hole in a switch": (
        table("GPU0 GPU1 GPU2", "X NV18 SYS", "NV18 X NV18", "SYS NV18 X"),
        "line 2, column 13: SYS found for gpu0 and gpu2; NV# was expected, since both are at an NVSwitch",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_with_file_line_and_column(what, text, tmp_path):
    content, message = WRONG[what]
    with pytest.raises(InputError) as caught:
        text(content, **({"device": "h100-80gb"} if "hole" in what else RTX if "NVLink" not in what else {}))
    assert str(caught.value).startswith(str(tmp_path / "topo.txt"))
    assert message in str(caught.value)


def test_a_kind_with_fewer_nvlinks_than_the_text_shows_is_refused():
    with pytest.raises(FormatError, match=r"line 3, column 17: NV12 found; a GPU of kind v100-16gb has 6 NVLinks"):
        nvidia_smi(file("dgx_a100"), device="v100-16gb")
    with pytest.raises(FormatError, match=r"a GPU of kind rtx4090 has no NVLinks; name another kind"):
        nvidia_smi(file("dgx1"), **RTX)


def test_a_text_that_does_not_tell_the_kind_asks_for_it():
    with pytest.raises(InputError, match=r"rtx_4090.txt: does not contain the kind.*device='a100-80gb'"):
        nvidia_smi(file("rtx_4090"))


@pytest.mark.parametrize("line", ["GPU0 " * 10**6, "GPU0\n" * 10**6, "\t".join(f"GPU{i}" for i in range(9999))])
def test_a_million_names_are_refused_at_once(text, line):
    began = time.monotonic()
    with pytest.raises(FormatError):
        text(line, **RTX)
    assert time.monotonic() - began < 10


# --- as an argument called CLUSTER -----------------------------------------------------------------------------------


def test_a_description_is_a_cluster_wherever_one_is_asked_for(capsys, tmp_path):
    named = loading.load_cluster(f"nvidia_smi({file('dgx1')!r}, kind='v100-16gb')")
    assert named.bandwidth_matrix.shape == (8, 8)
    for given in (file("dgx1"), MACHINES / "dgx1.txt"):
        assert np.array_equal(loading.load_cluster(given).bandwidth_matrix, named.bandwidth_matrix)
    (tmp_path / "without-a-suffix").write_text((MACHINES / "dgx1.txt").read_text())
    assert loading.load_cluster(str(tmp_path / "without-a-suffix")).links == named.links
    main(["show", file("dgx1")])
    assert "8 x v100-16gb" in capsys.readouterr().out
    main(["plan", "bert-large", file("dgx1")])
    assert "node0.gpu7" in capsys.readouterr().out


def test_a_name_of_a_topology_is_not_taken_for_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dgx1_v100").write_text("nothing")
    assert loading.load_cluster("dgx1_v100") == dgx1_v100()
    with pytest.raises(InputError, match="unknown cluster"):
        loading.load_cluster("x" * 5000)


@pytest.mark.parametrize("given", ["none.txt", "none.xml", "nvidia_smi('none.txt')", "nccl_xml('none')"])
def test_a_file_that_is_not_there_is_said_to_be_missing(given):
    with pytest.raises(InputError, match=r"none.*: no such file"):
        loading.load_cluster(given)


def test_show_keeps_traces_and_machines_apart(capsys, tmp_path):
    profile = tmp_path / "profile.txt"
    profile.write_text(
        "node1 -- Linear -- forward_compute_time=1, backward_compute_time=2, activation_size=3, parameter_size=4\n"
    )
    main(["show", str(profile)])
    assert "pipedream" in capsys.readouterr().out


def test_a_cluster_from_a_description_is_written_and_read_as_any_other(tmp_path):
    cluster = nvidia_smi(file("dgx2"), 2)
    serialisation.save(cluster, tmp_path / "cluster.toml")
    assert serialisation.load(Cluster, tmp_path / "cluster.toml") == cluster
