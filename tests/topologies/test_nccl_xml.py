"""Machines from NCCL's topology dump, and that its XML can do no harm."""

import itertools
import re
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from helpers import contracts
from helpers.places import MACHINES
from pipesim.base.errors import FormatError, InputError
from pipesim.studies import loading
from pipesim.topologies.hosts import elements, interconnects
from pipesim.topologies.nccl_xml import nccl_xml
from pipesim.topologies.nvidia_machines import dgx1_v100, dgx_a100, hgx_h100
from pipesim.topologies.nvidia_smi import nvidia_smi

RTX = {"device": "rtx4090", "memory": "24 GiB"}


def file(name):
    return str(MACHINES / f"{name}.xml")


def path(cluster, source, target):
    return contracts.vertices_of(cluster, source, cluster.route(source, target).links)


def width(cluster, source, target):
    (found,) = (link.bandwidth for link in cluster.links if {link.source, link.target} == {source, target})
    return found


@pytest.fixture
def dump(tmp_path):
    """Write this as a dump and read it."""

    def read(content, *arguments, **options):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "topo.xml").write_bytes(data)
        return nccl_xml(str(tmp_path / "topo.xml"), *arguments, **options)

    return read


def system(*inside, cpu='numaid="0"'):
    return f'<system version="1">\n<cpu {cpu}>\n' + "\n".join(inside) + "\n</cpu></system>"


def gpu(number, inside="", pci="", sm=80):
    return f'<pci busid="0000:0{number}:00.0" {pci}><gpu dev="{number}" sm="{sm}">{inside}</gpu></pci>'


def nvlink(number, count):
    return f'<nvlink target="0000:0{number}:00.0" count="{count}" tclass="0x030200"/>'


# --- machines that are known -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "function", "nics"),
    [
        ("dgx1", dgx1_v100, None),
        ("dgx_a100", dgx_a100, [f"mlx5_{i}" for i in (0, 1, 2, 3, 6, 7, 8, 9)]),
        ("hgx_h100", hgx_h100, None),
    ],
)
def test_nvidia_s_machines_are_as_wide_between_any_two_gpus_as_the_topologies_of_that_name(name, function, nics, nodes):
    """The speed of the NICs is the dump's own."""
    found, known = nccl_xml(file(name), nodes, nics=nics), function(nodes)
    assert np.array_equal(found.bandwidth_matrix, known.bandwidth_matrix)
    assert found.devices == known.devices


@pytest.mark.parametrize("name", ["dgx1", "dgx_a100", "hgx_h100"])
def test_the_dump_and_the_matrix_of_a_machine_say_the_same(name):
    def found(cluster):
        ways = itertools.permutations([device.name for device in cluster.devices], 2)
        return [(cluster.route(a, b).bandwidth, round(cluster.route(a, b).delay * 1e9)) for a, b in ways]

    smi = nvidia_smi(str(MACHINES / f"{name}.txt"), 2, "100 Gb/s")
    assert found(nccl_xml(file(name), 2, "100 Gb/s")) == found(smi)


def test_a_switch_that_joins_one_thing_only_is_left_out():
    """Of three bridges above a pair of A100 in the dump, one joins the GPUs and one these with the NICs."""
    alone, pair = nccl_xml(file("dgx_a100")), nccl_xml(file("dgx_a100"), 2)
    assert sum("pcie" in vertex for vertex in alone.vertices) == 4
    assert sum("pcie" in vertex for vertex in pair.vertices) == 2 * (4 + 4 + 1)
    assert path(pair, "node0.gpu0", "node1.gpu7") == [
        *("node0.gpu0", "node0.pcie-0000:05:00.0", "node0.pcie-0000:03:00.0"),
        *path(pair, "node0.gpu0", "node1.gpu7")[3:8],
        "node1.gpu7",
    ]


def test_4090_without_nvlinks_reach_the_other_socket_over_xgmi_and_the_network_over_ethernet():
    cluster = nccl_xml(file("rtx_4090"), 2, **RTX)
    assert width(cluster, "node0.numa0", "node0.numa1") == interconnects.XGMI
    assert width(cluster, "node0.eth0", "core") == 1.25e9, "10,000 Mb/s in the dump"
    assert path(cluster, "node0.gpu0", "node0.gpu5") == [
        *("node0.gpu0", "node0.numa0", "node0.numa1", "node0.gpu5"),
    ]
    assert nccl_xml(file("rtx_4090"), 2, "100 Gb/s", **RTX).bandwidth_matrix[0, 8] == 12.5e9


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('vendor="GenuineIntel" modelid="79"', interconnects.QPI),
        ('vendor="GenuineIntel" modelid="85"', interconnects.UPI),
        ('vendor="GenuineIntel" modelid="143"', interconnects.UPI),
        ('vendor="AuthenticAMD" modelid="49"', interconnects.XGMI),
        ('arch="arm64"', interconnects.UPI),
        ('vendor="GenuineIntel" modelid="new"', interconnects.UPI),
    ],
)
def test_cpus_are_joined_by_what_their_make_has(dump, attributes, expected):
    content = f'<system version="1"><cpu numaid="0" {attributes}>{gpu(0)}</cpu><cpu numaid="1">{gpu(1)}</cpu></system>'
    assert dump(content).bandwidth_matrix[0, 1] == min(expected, interconnects.pcie(4))
    assert dump(content, between_cpus="1 GB/s").bandwidth_matrix[0, 1] == 1e9


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('link_speed="16.0 GT/s PCIe" link_width="16"', interconnects.pcie(4)),
        ('link_speed="16 GT/s" link_width="8"', interconnects.pcie(4, 8)),
        ('link_speed="8.0 GT/s PCIe" link_width="16"', interconnects.pcie(3)),
        ('link_speed="5.0 GT/s PCIe" link_width="16"', 8e9),
        ('link_speed="2.5 GT/s PCIe" link_width="4"', 1e9),
        ('link_speed="32.0 GT/s PCIe" link_width="16"', interconnects.pcie(5)),
        ('link_speed="" link_width="0"', interconnects.pcie(4)),
        ('link_speed="Unknown" link_width="255"', interconnects.pcie(4)),
        ("", interconnects.pcie(4)),
    ],
)
def test_a_cable_is_as_fast_as_the_dump_says_and_else_as_the_kind_s(dump, attributes, expected):
    cluster = dump(system(gpu(0, pci=attributes), gpu(1, pci=attributes)))
    assert cluster.bandwidth_matrix[0, 1] == pytest.approx(expected, rel=1e-12)


def test_nvlinks_lead_to_gpus_or_to_a_switch_by_the_class_of_their_target(dump):
    mesh = dump(system(gpu(0, nvlink(1, 4)), gpu(1, nvlink(0, 4))))
    assert path(mesh, "node0.gpu0", "node0.gpu1") == ["node0.gpu0", "node0.gpu1"]
    assert mesh.bandwidth_matrix[0, 1] == 4 * interconnects.NVLINK_2
    to_switch = '<nvlink target="0000:c4:00.0" count="6" tclass="0x068000"/><nvlink target="0000:c5:00.0" count="6"/>'
    switched = dump(system(gpu(0, to_switch), gpu(1, to_switch)))
    assert path(switched, "node0.gpu0", "node0.gpu1") == ["node0.gpu0", "node0.nvswitch", "node0.gpu1"]
    assert switched.bandwidth_matrix[0, 1] == 12 * interconnects.NVLINK_2


def test_an_nvlink_that_one_end_alone_states_counts_once_and_one_to_a_gpu_outside_the_dump_not(dump):
    cluster = dump(system(gpu(0, nvlink(1, 4) + nvlink(7, 4)), gpu(1)))
    assert cluster.bandwidth_matrix[0, 1] == 4 * interconnects.NVLINK_2
    assert not any("gpu7" in vertex for vertex in cluster.vertices)


def test_an_nvlink_to_a_cpu_is_a_way_to_all_that_is_at_it(dump):
    to_cpu = '<nvlink target="0000:00:00.0" count="3" tclass="0x068001"/>'
    cluster = dump(system(gpu(3, to_cpu, sm=70), gpu(4, to_cpu, sm=70)), pcie="1 GB/s")
    assert path(cluster, "node0.gpu3", "node0.gpu4") == ["node0.gpu3", "node0.numa0", "node0.gpu4"]
    assert width(cluster, "node0.gpu3", "node0.numa0") == 3 * interconnects.NVLINK_2, "not the PCIe cable beside them"


def test_gpus_are_in_the_order_of_their_numbers_wherever_they_stand(dump):
    cluster = dump(system(gpu(9), gpu(3), gpu(5)))
    assert [device.name for device in cluster.devices] == ["node0.gpu3", "node0.gpu5", "node0.gpu9"]


def test_each_port_of_a_nic_is_one_and_equal_names_are_told_apart(dump):
    ports = '<nic><net name="mlx" dev="0" speed="100000"/><net name="mlx" dev="1" speed="50000"/></nic>'
    cluster = dump(system(gpu(0), f'<pci busid="0000:aa:00.0">{ports}</pci>'), 2)
    assert width(cluster, "node0.mlx", "core") == 12.5e9
    assert width(cluster, "node0.mlx-1", "core") == 6.25e9


def test_a_nic_that_a_virtual_machine_shows_at_every_cpu_is_one_at_the_first(dump):
    nic = '<nic><net name="eth0" dev="0" speed="10000"/></nic>'
    cpus = "".join(f'<cpu numaid="{i}">{gpu(i, sm=100)}{nic}</cpu>' for i in range(2))
    cluster = dump(f'<system version="1">{cpus}</system>', 2)
    assert path(cluster, "node0.gpu1", "node1.gpu0") == [
        *("node0.gpu1", "node0.numa1", "node0.numa0", "node0.eth0", "core"),
        *("node1.eth0", "node1.numa0", "node1.gpu0"),
    ]
    assert not [name for name in cluster.vertices if "eth0-" in name]


def test_nvlinks_to_a_switch_that_a_virtual_machine_does_not_show_lead_to_one(dump):
    """All GPUs name the same bus for it, at which the dump has nothing."""
    links = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    cluster = dump(system(*(gpu(i, links + '<c2c bw="44712" count="5"/>', sm=100) for i in range(4))))
    assert {device.kind for device in cluster.devices} == {"b200-180gb"}
    assert set(cluster.bandwidth_matrix.ravel()) == {np.inf, 18 * 50e9}


@pytest.mark.parametrize(("sm", "kind"), [(70, "v100-16gb"), (80, "a100-40gb"), (90, "h100-80gb"), (100, "b200-180gb")])
def test_the_kind_is_guessed_from_the_compute_capability(dump, sm, kind):
    assert dump(system(gpu(0, sm=sm))).devices[0].kind == kind
    assert dump(system(gpu(0, sm=sm)), kind="a100-80gb").devices[0].kind == "a100-80gb"


def test_other_elements_comments_and_encodings_are_read_over(dump):
    plain = dump(system(gpu(0), gpu(1)))
    more = system("<!-- a comment -->", gpu(0), "text <new what='1'><inner/></new>", gpu(1))
    assert dump(f'<?xml version="1.0" encoding="UTF-8"?>\n{more}') == plain
    assert dump(f'<?xml version="1.0" encoding="ISO-8859-1"?>{more}'.encode("latin-1")) == plain


# --- what is wrong ---------------------------------------------------------------------------------------------------

WRONG = {
    "empty": ("", "line 1, column 1: is not XML: no element found"),
    "not XML": ("GPU0 GPU1", "line 1, column 1: is not XML: syntax error"),
    "cut off": (system(gpu(0))[:-9], "line 4, column 7: is not XML: "),
    "something else": ("<topology/>", "line 1, column 1: <topology>: the outermost element; <system> was expected"),
    "no CPUs": ("<system/>", "line 1, column 1: <system>: no <cpu> inside"),
    "no GPUs": (system(), "<system>: no <gpu> inside"),
    "two machines": (
        f'<system><cpu numaid="0" host_hash="0x1">{gpu(0)}</cpu><cpu numaid="1" host_hash="0x2"/></system>',
        "CPUs of 2 machines (host_hash) inside",
    ),
    "a CPU without a number": (system(gpu(0), cpu=""), "line 2, column 1: <cpu> numaid: missing"),
    "a CPU of no number": (system(gpu(0), cpu='numaid="-1"'), "line 2, column 1: <cpu> numaid: '-1' found; a whole"),
    "a GPU of no number": (system('<pci busid="1:2.3"><gpu sm="80"/></pci>'), "line 3, column 20: <gpu> dev: missing"),
    "a GPU twice": (
        system(gpu(0), '<pci busid="1:2.3"><gpu dev="0" sm="80"/></pci>'),
        "line 4, column 20: <gpu> dev: duplicate 0",
    ),
    "two GPUs on a bus": (
        system('<pci busid="1:2.3"><gpu dev="0" sm="80"/><gpu dev="1" sm="80"/></pci>'),
        "<gpu>: duplicate GPU on bus 1:2.3",
    ),
    "a bus twice": (
        system(gpu(0), '<pci busid="0000:00:00.0"><pci busid="1:2.3"/></pci>'),
        "line 4, column 1: <pci> busid: ",
    ),
    "a bus of another form": (
        system(gpu(0), '<pci busid="first"/>'),
        "<pci> busid: 'first' found; the address of a device",
    ),
    "a speed in words": (
        system(gpu(0, pci='link_speed="fast" link_width="16"')),
        "line 3, column 1: <pci> link_speed: 'fast' found; transfers per second, such as '16.0 GT/s PCIe'",
    ),
    "a speed of nothing": (system(gpu(0, pci='link_speed="0.0 GT/s" link_width="16"')), "link_speed: '0.0 GT/s' found"),
    "lanes": (
        system(gpu(0, pci='link_speed="8 GT/s" link_width="64"')),
        "<pci> link_width: '64' found; a whole number",
    ),
    "another count at each end": (
        system(gpu(0, nvlink(1, 4)), gpu(1, nvlink(0, 2))),
        "line 4, column 49: <nvlink> count: 2 from gpu1 to gpu0; 4 was expected",
    ),
    "a link to itself": (
        system(gpu(0, nvlink(0, 4))),
        "line 3, column 49: <nvlink> target: leads back to the same GPU",
    ),
    "links of no number": (system(gpu(0, nvlink(1, "x"))), "<nvlink> count: 'x' found; a whole number from 0 to 64"),
    "too many links": (system(gpu(0, nvlink(1, 13))), "<gpu>: 13 NVLinks found; a GPU of kind a100-40gb has 12"),
    "a NIC without a name": (system(gpu(0), "<nic><net/></nic>"), "line 4, column 6: <net> name: missing"),
    "a NIC of no speed": (system(gpu(0), '<nic><net name="a" speed="x"/></nic>'), "<net> speed: 'x' found"),
    "a NIC called like a GPU": (system(gpu(0), '<nic><net name="gpu0"/></nic>'), "duplicate name 'gpu0'"),
    "CPUs alike": (
        f'<system><cpu numaid="0">{gpu(0)}</cpu><cpu numaid="0"/></system>',
        "duplicate name 'numa0'",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_with_file_line_and_column(what, dump, tmp_path):
    content, message = WRONG[what]
    with pytest.raises(InputError) as caught:
        dump(content, **({} if "sm" in content else {"device": "a100-40gb"}))
    assert str(caught.value).startswith(str(tmp_path / "topo.xml"))
    assert message in str(caught.value)


def test_a_dump_that_does_not_tell_the_kind_asks_for_it():
    with pytest.raises(InputError, match=r"rtx_4090.xml: does not contain the kind"):
        nccl_xml(file("rtx_4090"))


def test_a_nic_without_a_speed_needs_one_when_machines_are_joined(dump):
    content = system(gpu(0), '<nic><net name="eth0"/></nic>')
    assert len(dump(content).devices) == 1
    with pytest.raises(InputError, match="the NIC 'eth0' has no speed"):
        dump(content, 2)
    assert dump(content, 2, "10 Gb/s").bandwidth_matrix[0, 1] == 1.25e9


def test_machines_without_nics_cannot_be_joined(dump):
    with pytest.raises(InputError, match="nics: node0 has none on the network"):
        dump(system(gpu(0)), 2)


# --- XML that means harm ---------------------------------------------------------------------------------------------

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE system [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    + "]><system>&a11;</system>"
)
HARMFUL = {
    "a billion laughs": LAUGHS,
    "a large entity many times": f'<!DOCTYPE s [<!ENTITY a "{"ha" * 50_000}">]><system>{"&a;" * 50_000}</system>',
    "a file": '<!DOCTYPE s [<!ENTITY a SYSTEM "file:///etc/passwd">]><system>&a;</system>',
    "another document type": '<!DOCTYPE s SYSTEM "http://127.0.0.1:9/s.dtd"><system/>',
    "a parameter entity": '<!DOCTYPE s [<!ENTITY % a SYSTEM "http://127.0.0.1:9/a">%a;]><system/>',
}


@pytest.mark.parametrize("what", HARMFUL)
def test_document_types_and_entities_are_refused_before_anything_comes_of_them(what, dump):
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FormatError, match=r"line 1, column \d+: a document type or an entity found"):
        dump(HARMFUL[what])
    assert time.monotonic() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, "less than 100 MiB"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<system>" * 100_000, "nested more than 64 deep"),
        ("<system>" + "<cpu/>" * 500_000, "more than 20000 elements found"),
        ("<system>&a;</system>", "is not XML: undefined entity"),
        (b"\xff\xfe" + "<system/>".encode("utf-16-le"), "is not UTF-8|no <cpu> inside"),
        (b'<?xml version="1.0" encoding="nonsense"?><system/>', "is not XML"),
        (b'<?xml version="1.0" encoding="utf-7"?><system/>', "is not XML|no <cpu> inside"),
        (b'<?xml version="1.0" encoding="rot13"?><system/>', "is not XML"),
    ],
)
def test_xml_that_is_too_deep_too_long_or_strangely_written_is_refused_at_once(content, message, dump):
    began = time.monotonic()
    with pytest.raises(InputError, match=message):
        dump(content)
    assert time.monotonic() - began < 5


def test_an_element_knows_where_it_stands():
    top = elements.parse(b"<system>\n  <cpu\n numaid='0'/></system>")
    assert (top.line, top.column) == (1, 1)
    assert [(inner.tag, inner.line, inner.column) for inner in top.inside] == [("cpu", 2, 3)]


def test_a_dump_is_a_cluster_wherever_one_is_asked_for(tmp_path):
    found = loading.load_cluster(file("dgx1"))
    assert np.array_equal(found.bandwidth_matrix, dgx1_v100().bandwidth_matrix)
    (tmp_path / "dump").write_text(re.sub(r">\s+<", "><", Path(file("dgx1")).read_text()))
    assert loading.load_cluster(str(tmp_path / "dump")).links == found.links
    named = loading.load_cluster(f"nccl_xml({file('dgx1')!r}, 2, kind='v100-32gb')")
    assert {device.kind for device in named.devices} == {"v100-32gb"}
