import hashlib
import inspect
import itertools
import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import pipesim.topologies
from helpers import contracts
from helpers.places import MACHINES
from pipesim.base import lookup, serialisation, units
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.cluster import Cluster
from pipesim.core.devices import DEVICE_KINDS
from pipesim.core.members import TopologyInfo, infos
from pipesim.topologies import TOPOLOGIES, parts
from pipesim.topologies.fat_tree import fat_tree
from pipesim.topologies.flat import flat
from pipesim.topologies.leaf_spine import leaf_spine
from pipesim.topologies.nvidia_machines import CUBE_MESH, dgx1_v100, dgx_a100, hgx_h100
from pipesim.topologies.rail_fat_tree import rail_fat_tree
from pipesim.topologies.random_graph import random
from pipesim.topologies.ring import ring
from pipesim.topologies.servers import servers
from pipesim.topologies.torus2d import torus2d

# Calls as a user writes them, which the topologies declare; the first is the one whose arguments are spoilt below.
EXAMPLES = {name: list(info.examples) for name, info in infos(TOPOLOGIES, "topology", TopologyInfo).items()}
# Of topologies that read files.
EXAMPLES |= {
    "nvidia_smi": [
        f"nvidia_smi({str(MACHINES / 'dgx1.txt')!r}, 2)",
        f"nvidia_smi({str(MACHINES / 'dgx_a100.txt')!r}, 2, '200 Gb/s', nics=['mlx5_0', 'mlx5_8'])",
        f"nvidia_smi({str(MACHINES / 'dgx2.txt')!r})",
        f"nvidia_smi({str(MACHINES / 'rtx_4090.txt')!r}, 2, device='abacus', memory=1)",
    ],
    "nccl_xml": [
        f"nccl_xml({str(MACHINES / 'dgx1.xml')!r}, 2)",
        f"nccl_xml({str(MACHINES / 'hgx_h100.xml')!r}, 2)",
        f"nccl_xml({str(MACHINES / 'dgx_a100.xml')!r})",
        f"nccl_xml({str(MACHINES / 'rtx_4090.xml')!r}, 2, kind='abacus', memory=1)",
    ],
    "nccl_tests": [
        f"nccl_tests({str(MACHINES / 'sendrecv.txt')!r}, 2, {str(MACHINES / 'sendrecv.txt')!r})",
        f"nccl_tests({str(MACHINES / 'sendrecv.txt')!r}, gpus=8)",
    ],
}
CALLS = [text for texts in EXAMPLES.values() for text in texts]


def make(text: str) -> Cluster:
    return lookup.call(text, TOPOLOGIES, "topology")


def path(cluster: Cluster, source: str, target: str) -> list[str]:
    return contracts.vertices_of(cluster, source, cluster.route(source, target).links)


def media(cluster: Cluster, source: str, target: str) -> set[str]:
    return {cluster.media[medium] for medium in cluster.route(source, target).media}


def degree(cluster: Cluster, vertex: str) -> int:
    return sum(vertex in {link.source, link.target} for link in cluster.links)


# --- all of them -----------------------------------------------------------------------------------------------------


def test_every_topology_has_examples_and_every_module_is_a_topology():
    """So that a new member is put through everything below by being listed."""
    assert list(EXAMPLES) == list(TOPOLOGIES)
    assert not [name for name, texts in EXAMPLES.items() if not texts], "declare examples with TopologyInfo"
    here = Path(pipesim.topologies.__file__).parent
    modules = {file.stem for file in here.glob("*.py")} - {"__init__", "parts"}
    assert {target.partition(":")[0].rpartition(".")[2] for target in TOPOLOGIES.values()} == modules


@pytest.mark.parametrize("text", CALLS)
def test_contract(text):
    contracts.check_topology(make(text))


@pytest.mark.parametrize("text", CALLS)
def test_a_file_gives_the_same_cluster_back(text, tmp_path):
    cluster = make(text)
    for name in ("cluster.toml", "cluster.json"):
        serialisation.save(cluster, tmp_path / name)
        assert serialisation.load(Cluster, tmp_path / name) == cluster


@pytest.mark.parametrize("text", CALLS)
def test_the_same_call_gives_the_same_cluster(text):
    assert make(text) == make(text)


DIGEST = """
import hashlib, json, sys
from pipesim.base import lookup, serialisation
from pipesim.topologies import TOPOLOGIES
for text in json.loads(sys.argv[1]):
    cluster = lookup.call(text, TOPOLOGIES, "topology")
    names = [device.name for device in cluster.devices]
    routes = [[cluster.route(a, b).links for a in names] for b in names]
    print(hashlib.sha256((serialisation.dumps(cluster, ".toml") + str(routes)).encode()).hexdigest())
"""


def test_clusters_and_routes_do_not_depend_on_the_hash_seed():
    results = [
        subprocess.run(
            [sys.executable, "-c", DIGEST, json.dumps(CALLS)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("0", "1")
    ]
    here = []
    for cluster in map(make, CALLS):
        names = [device.name for device in cluster.devices]
        routes = [[cluster.route(a, b).links for a in names] for b in names]
        here.append(hashlib.sha256((serialisation.dumps(cluster, ".toml") + str(routes)).encode()).hexdigest())
    assert results == [here, here]
    assert len(set(here)) == len(CALLS)


@pytest.mark.parametrize("texts", EXAMPLES.values(), ids=EXAMPLES)
def test_latency_may_be_nothing(texts):
    function = lookup.resolve(texts[0], TOPOLOGIES, "topology")
    known = inspect.signature(function).parameters
    if not any("latency" in name for name in known):
        return  # of measured links it is measured
    default, none = function(), function(**{name: 0 for name in known if "latency" in name})
    for a, b in itertools.permutations([device.name for device in default.devices], 2):
        assert default.route(a, b).delay > 0
        assert none.route(a, b).delay == 0


@pytest.mark.parametrize(
    ("text", "delays_us"),
    [
        ("flat(3, 1e9)", {5}),
        ("servers(2, 2, 1e9, 1e9)", {2, 5}),
        ("dgx1_v100(2)", {2, 4, 5}),
        ("dgx_a100(2)", {2, 5}),
        ("hgx_h100(2)", {2, 5}),
        ("fat_tree(4)", {2, 4, 6}),
        ("leaf_spine(2, 2, 2, 1e9, 1e9)", {2.5, 5}),
        ("rail_fat_tree(8, per_leaf=2, leaves=2, spines=2, cores=1, gpus=2)", {2, 5, 6, 7}),
        ("ring(4, 1e9)", {2, 4}),
        ("torus2d(3, 3, 1e9)", {2, 4}),
        ("random(4, 0, [1e9])", {5}),
        (EXAMPLES["nvidia_smi"][0], {2, 4, 5}),
        (EXAMPLES["nvidia_smi"][1], {2, 5, 7, 9}),  # GPUs without a NIC near them reach one through another GPU
        (EXAMPLES["nvidia_smi"][3], {2, 5}),
        (EXAMPLES["nccl_xml"][0], {2, 4, 5}),
        (EXAMPLES["nccl_xml"][1], {2, 5}),
    ],
)
def test_default_latencies_are_those_stated(text, delays_us):
    cluster = make(text)
    names = [device.name for device in cluster.devices]
    found = {round(cluster.route(a, b).delay * 1e6, 9) for a, b in itertools.permutations(names, 2)}
    assert found == delays_us


@pytest.mark.parametrize("texts", EXAMPLES.values(), ids=EXAMPLES)
def test_devices_are_of_the_kind_asked_for(texts):
    function = lookup.resolve(texts[0], TOPOLOGIES, "topology")
    for device in function(device="a100-80gb").devices:
        kind = DEVICE_KINDS["a100-80gb"]
        assert (device.kind, device.memory, device.flops) == ("a100-80gb", kind.memory, kind.peak["fp16"])
    for device in function(device="a100-80gb", memory="1 GiB").devices:
        assert (device.memory, device.flops) == (2**30, DEVICE_KINDS["a100-80gb"].peak["fp16"])
    for device in function(device="abacus", memory=1000).devices:
        assert (device.kind, device.memory, device.flops) == ("abacus", 1000, None)


def test_a_kind_that_is_not_known_needs_a_memory():
    with pytest.raises(UnknownNameError, match=r"device: unknown device kind 'v100'; did you mean .*memory="):
        flat(2, 1e9, device="v100")


# --- wrong arguments -------------------------------------------------------------------------------------------------

JUNK = [
    None,
    True,
    -1,
    0,
    1.5,
    10**9,
    10**5000,
    math.nan,
    math.inf,
    "",
    "x",
    "0 GB/s",
    b"4",
    [],
    ["x"],
    {},
    object(),
    1j,
]


@pytest.mark.parametrize("texts", EXAMPLES.values(), ids=EXAMPLES)
def test_a_wrong_argument_is_refused_by_name(texts):
    """Whatever is passed for one argument, there is a cluster, or an InputError that names the argument."""
    function = lookup.resolve(texts[0], TOPOLOGIES, "topology")
    name, positional, keywords = lookup.parse_call(texts[0], "topology")
    signature = inspect.signature(lookup.function_named(name, TOPOLOGIES, "topology"))
    good = signature.bind(*positional, **keywords).arguments
    refused = Counter()
    for parameter in signature.parameters:
        for value in JUNK:
            try:
                made = signature.bind(**{**good, parameter: value})
                assert isinstance(function.func(*made.args, **made.kwargs), Cluster)
            except InputError as error:
                assert parameter in str(error)  # noqa: PT017 - a value may also be accepted
                refused[parameter] += 1
    assert set(refused) == set(signature.parameters)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flat(0, 1)", r"n = 0 found; a whole number from 1 to 131072 was expected"),
        ("flat(1000000000, 1)", r"n = 1000000000 found; a whole number from 1 to 131072"),
        ("flat('4', 1)", r"n = '4' found; a whole number"),
        ("flat(4.0, 1)", r"n = 4.0 found; a whole number"),
        ("flat(2, '0 Gb/s')", r"bandwidth: '0 Gb/s' found; more than 0 bytes/s"),
        ("flat(2, '25 Gbit')", r"bandwidth: '25 Gbit' is not a bandwidth: unknown unit 'Gbit'"),
        ("flat(2, 1, latency=-1)", r"latency: -1 is not a time"),
        ("flat(2, 1, memory='16 GHz')", r"memory: '16 GHz' is not a size"),
        ("flat(2, 1, memory=1e20)", r"memory: 1e\+20 found; at most 1024 PiB"),
        ("flat(2, 1, device=['v100-16gb'])", r"device: \['v100-16gb'\] found; (the name of a kind|str was expected)"),
        ("servers(2, 4, 1, 1, nics=5)", r"nics = 5 found; a whole number from 1 to 4 was expected"),
        ("servers(2000, 100, 1, 1)", r"nodes x per_node = 2000 x 100: 200000 devices found; at most 131072"),
        ("servers(2, 4, 1, 1, pcie=0)", r"pcie: 0 found; more than 0"),
        ("dgx1_v100(40960)", r"nodes x 8 = 40960 x 8: 327680 devices found"),
        ("dgx_a100(40960)", r"nodes x per_node = 40960 x 8"),
        ("dgx_a100(0)", r"nodes = 0 found"),
        ("fat_tree(5)", r"k: 5 found; an even number of ports was expected"),
        ("fat_tree(42)", r"k = 42 found; a whole number from 2 to 40"),
        ("fat_tree(4, 0.5)", r"oversubscription: 0.5 found; a number from 1 to 10000 was expected"),
        ("fat_tree(4, '2')", r"oversubscription: '2' found"),
        ("leaf_spine(16000, 16000, 1, 1, 1)", r"leaves x spines = 16000 x 16000: 256016000 links found"),
        ("leaf_spine(2, 2, 131000, 1, 1)", r"leaves x per_leaf = 2 x 131000: 262000 devices found"),
        ("ring(-3, 1)", r"n = -3 found"),
        ("torus2d(4, 0, 1)", r"columns = 0 found"),
        ("torus2d(1000, 1000, 1)", r"rows x columns = 1000 x 1000: 1000000 devices"),
        ("random(1500, 0, [1])", r"n = 1500, n \(n - 1\) / 2 pairs: 1124250 links found; at most 1048576"),
        ("random(4, -1, [1])", r"seed = -1 found"),
        ("random(4, 0, '1 GB/s')", r"bandwidths: '1 GB/s' found; a list"),
        ("random(4, 0, [1, '0 GB/s'])", r"bandwidths\[1\]: '0 GB/s' found"),
        ("random(4, 0, [1, 2], 1.5)", r"density: 1.5 found; a number from 0 to 1 was expected"),
        ("random(4, 0, [2, 1], distribution='log')", r"bandwidths: \[2, 1\] found; the lowest and the highest"),
        ("random(4, 0, [1, 2, 3], distribution='uniform')", r"bandwidths: \[1, 2, 3\] found; the lowest and"),
        ("random(4, 0, [1, 2], distribution='normal')", r"distribution = 'normal' found; one of choice, uniform"),
    ],
)
def test_what_is_wrong_is_told(text, message):
    with pytest.raises(InputError, match=message):
        make(text)


def test_counts_may_be_whole_numbers_of_numpy():
    assert flat(np.int64(3), 1e9) == flat(3, 1e9)
    with pytest.raises(InputError, match="n = "):
        flat(np.float64(3), 1e9)


def test_the_limit_itself_is_allowed():
    assert len(flat(parts.MOST_DEVICES, 1e9).devices) == parts.MOST_DEVICES
    assert len(fat_tree(40).devices) == 16_000


# --- flat ------------------------------------------------------------------------------------------------------------


def test_flat_gives_every_pair_the_bandwidth():
    cluster = flat(3, "8 Gb/s")
    inf = np.inf
    assert cluster.bandwidth_matrix.tolist() == [[inf, 1e9, 1e9], [1e9, inf, 1e9], [1e9, 1e9, inf]]
    assert [degree(cluster, v) for v in ("gpu0", "gpu1", "gpu2", "switch")] == [1, 1, 1, 3]


def test_flat_never_blocks():
    """Pairs that have no device in common have no medium in common; there and back have none either."""
    cluster = flat(4, 1e9)
    assert not media(cluster, "gpu0", "gpu1") & media(cluster, "gpu2", "gpu3")
    assert not media(cluster, "gpu0", "gpu1") & media(cluster, "gpu1", "gpu0")
    assert media(cluster, "gpu0", "gpu1") & media(cluster, "gpu0", "gpu2") == {"gpu0->switch"}


def test_one_device_has_no_links():
    for text in ("flat(1, 1)", "ring(1, 1)", "torus2d(1, 1, 1)", "servers(1, 1, 1, 1)", "random(1, 0, [1])"):
        assert make(text).links == ()


# --- servers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intra", [5e9, 10e9, 20e9])
@pytest.mark.parametrize("nics", [1, 2, 3, 4])
def test_servers_keep_a_node_s_traffic_on_its_switch(intra, nics):
    """Also where the NICs are as fast as the switch or faster, so that the way over a shared NIC would be as good."""
    cluster = servers(2, 4, intra, 10e9, nics)
    for a, b in itertools.permutations(range(4), 2):
        way = path(cluster, f"node1.gpu{a}", f"node1.gpu{b}")
        assert way == [f"node1.gpu{a}", "node1.switch", f"node1.gpu{b}"]
        assert cluster.route(way[0], way[-1]).bandwidth == intra


@pytest.mark.parametrize("nics", [1, 2, 3, 4])
def test_servers_reach_other_nodes_over_the_nics_of_both_ends(nics):
    cluster = servers(2, 4, 10e9, 12.5e9, nics)
    for a, b in itertools.product(range(4), range(4)):
        way = path(cluster, f"node0.gpu{a}", f"node1.gpu{b}")
        if nics < 4:
            assert (way.pop(1), way.pop(-2)) == (f"node0.pcie{a}", f"node1.pcie{b}")
        middle = [f"node0.nic{a * nics // 4}", "core", f"node1.nic{b * nics // 4}"]
        assert way == [f"node0.gpu{a}", *middle, f"node1.gpu{b}"]
        assert cluster.route(way[0], way[-1]).bandwidth == 12.5e9


def test_gpus_that_share_a_nic_contend_there_and_others_do_not():
    cluster = servers(3, 4, "100 GB/s", "10 GB/s", nics=2)
    to_node1, to_node2 = media(cluster, "node0.gpu0", "node1.gpu0"), media(cluster, "node0.gpu1", "node2.gpu0")
    assert to_node1 & to_node2 == {"node0.nic0->core"}
    assert not to_node1 & media(cluster, "node0.gpu2", "node2.gpu0")
    back = media(cluster, "node1.gpu0", "node0.gpu0")
    assert not to_node1 & back, "full duplex"
    assert back & media(cluster, "node2.gpu0", "node0.gpu1") == {"core->node0.nic0"}


def test_a_nic_for_each_gpu_leaves_nothing_to_contend_for():
    cluster = servers(2, 4, "100 GB/s", "10 GB/s", nics=4)
    ways = [media(cluster, f"node0.gpu{i}", f"node1.gpu{i}") for i in range(4)]
    assert all(not a & b for a, b in itertools.combinations(ways, 2))


def test_the_nic_s_uplink_is_the_narrowest_part_unless_pcie_is_said():
    cluster = servers(2, 2, "10 GB/s", "4 GB/s")
    route = cluster.route("node0.gpu0", "node1.gpu1")
    assert [cluster.media_bandwidth[m] for m in route.media] == [10e9, 10e9, 4e9, 4e9, 10e9, 10e9]
    assert servers(2, 2, "10 GB/s", "4 GB/s", pcie="3 GB/s").route("node0.gpu0", "node1.gpu1").bandwidth == 3e9


def test_bandwidths_of_two_servers():
    inf, i, o = np.inf, 10e9, 1e9
    matrix = servers(2, 2, i, o).bandwidth_matrix
    assert matrix.tolist() == [[inf, i, o, o], [i, inf, o, o], [o, o, inf, i], [o, o, i, inf]]


def test_one_server_has_no_nics_and_no_core():
    cluster = servers(1, 4, 10e9, 1e9, nics=2)
    assert cluster.vertices[4:] == ("node0.switch",)
    assert len(cluster.links) == 4


def test_a_switch_for_one_device_is_left_out():
    cluster = servers(3, 1, 10e9, 1e9)
    assert cluster.vertices[3:] == ("node0.nic0", "core", "node1.nic0", "node2.nic0")
    assert cluster.route("node0.gpu0", "node2.gpu0").bandwidth == 1e9


def test_servers_name_their_nodes():
    assert [(d.name, d.node) for d in servers(2, 2, 1, 1).devices] == [
        ("node0.gpu0", "node0"),
        ("node0.gpu1", "node0"),
        ("node1.gpu0", "node1"),
        ("node1.gpu1", "node1"),
    ]


# --- NVIDIA's machines -----------------------------------------------------------------------------------------------


def test_every_v100_of_a_dgx1_has_six_nvlinks():
    links = Counter()
    for (a, b), number in CUBE_MESH.items():
        assert a < b
        links.update({a: number, b: number})
    assert links == dict.fromkeys(range(8), 6)


def test_the_cube_mesh_is_symmetric_under_exchange_of_its_two_quads():
    """Hybrid cube mesh: GPUs 4 to 7 are joined as GPUs 0 to 3 are, and each GPU with one of the other quad."""
    swapped = {tuple(sorted(((a + 4) % 8, (b + 4) % 8))): number for (a, b), number in CUBE_MESH.items()}
    across = [pair for pair in CUBE_MESH if pair[0] < 4 <= pair[1]]
    inside = {pair for pair in CUBE_MESH if pair not in across}
    assert inside == {pair for pair in swapped if pair[0] // 4 == pair[1] // 4}
    assert sorted(itertools.chain(*across)) == list(range(8))


def test_bandwidths_in_a_dgx1():
    matrix = dgx1_v100().bandwidth_matrix / 1e9
    assert matrix[0].tolist() == [np.inf, 25, 25, 50, 50, 25, 25, 50]
    # 0-5 over 1 (25 then 50) or 4 (50 then 25); 0-6 over 2 or 4; 0-7 over 4 (50 and 50), not over 3 (50 then 25).
    assert path(dgx1_v100(), "node0.gpu0", "node0.gpu7") == ["node0.gpu0", "node0.gpu4", "node0.gpu7"]


def test_a_dgx1_alone_uses_nvlink_only():
    cluster = dgx1_v100()
    for a, b in itertools.permutations([d.name for d in cluster.devices], 2):
        assert all(".gpu" in vertex for vertex in path(cluster, a, b))
    assert not any("nic" in vertex or vertex == "core" for vertex in cluster.vertices)


def test_two_gpus_of_a_dgx1_share_a_pcie_switch_and_its_nic():
    cluster = dgx1_v100(2)
    assert path(cluster, "node0.gpu3", "node1.gpu4") == [
        "node0.gpu3",
        "node0.pcie1",
        "node0.nic1",
        "core",
        "node1.nic2",
        "node1.pcie2",
        "node1.gpu4",
    ]
    assert cluster.route("node0.gpu3", "node1.gpu4").bandwidth == 12.5e9
    first = media(cluster, "node0.gpu0", "node1.gpu0")
    assert first & media(cluster, "node0.gpu1", "node1.gpu2") == {"node0.pcie0->node0.nic0", "node0.nic0->core"}
    assert not first & media(cluster, "node0.gpu2", "node1.gpu2")
    assert degree(cluster, "core") == 8


@pytest.mark.parametrize(
    ("function", "kind", "intra", "inter", "pcie"),
    [(dgx_a100, "a100-40gb", 300e9, 25e9, 31.5e9), (hgx_h100, "h100-80gb", 450e9, 50e9, 63e9)],
)
def test_nvswitch_machines(function, kind, intra, inter, pcie):
    alone, pair = function(), function(2)
    assert len(alone.devices) == 8
    assert len(alone.links) == 8
    assert alone.devices[0].kind == kind
    assert set(alone.bandwidth_matrix.ravel()) == {np.inf, intra}
    assert set(pair.bandwidth_matrix.ravel()) == {np.inf, intra, inter}
    assert path(pair, "node0.gpu3", "node1.gpu5") == [
        "node0.gpu3",
        "node0.nic3",
        "core",
        "node1.nic5",
        "node1.gpu5",
    ]
    assert degree(pair, "core") == 16
    fast = function(2, inter="800 Gb/s").route("node0.gpu0", "node1.gpu0").bandwidth
    assert fast == pytest.approx(pcie, rel=1e-3), "a NIC faster than PCIe is as fast as PCIe"


# --- fat tree, leaf and spine ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_fat_tree_is_made_of_switches_with_k_ports(k):
    cluster = fat_tree(k)
    switches = cluster.vertices[len(cluster.devices) :]
    assert len(cluster.devices) == k**3 // 4
    assert len(switches) == 5 * k**2 // 4
    assert sum(name.startswith("core") for name in switches) == k**2 // 4
    degrees = Counter(itertools.chain.from_iterable((link.source, link.target) for link in cluster.links))
    assert {degrees[switch] for switch in switches} == {k}
    assert {degrees[device.name] for device in cluster.devices} == {1}
    # Each core reaches every pod once, and each aggregation switch every edge switch of its pod.
    assert nx.diameter(cluster.graph) == 6
    for core in (name for name in switches if name.startswith("core")):
        assert len({near.partition(".")[0] for near in cluster.graph[core]}) == k


@pytest.mark.parametrize("k", [4, 6])
def test_fat_tree_paths_have_2_4_or_6_hops(k):
    cluster, half = fat_tree(k), k // 2
    for a, b in itertools.permutations(range(k**3 // 4), 2):
        same_edge, same_pod = a // half == b // half, a // half**2 == b // half**2
        hops = len(cluster.route(f"gpu{a}", f"gpu{b}").links)
        assert hops == (2 if same_edge else 4 if same_pod else 6)


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_fat_tree_deals_destinations_out_over_all_its_cores(k):
    """From any device, every core leads to as many devices of other pods as any other core."""
    cluster = fat_tree(k)
    pod = k**2 // 4
    for source in (0, pod - 1, pod * (k - 1)):
        others = [i for i in range(len(cluster.devices)) if i // pod != source // pod]
        cores = Counter(path(cluster, f"gpu{source}", f"gpu{other}")[3] for other in others)
        assert cores == {f"core{c}": len(others) * 4 // k**2 for c in range(k**2 // 4)}


def test_a_shifted_permutation_crosses_a_fat_tree_without_contention():
    """The full bisection: when every device sends to the same place in the next pod, no two share a link."""
    cluster = fat_tree(4)
    ways = [media(cluster, f"gpu{i}", f"gpu{(i + 4) % 16}") for i in range(16)]
    assert all(not a & b for a, b in itertools.combinations(ways, 2))


def test_oversubscription_narrows_what_is_above_the_edge():
    matrix = fat_tree(4, 4, "100 Gb/s").bandwidth_matrix
    wide, narrow = 12.5e9, 12.5e9 / 4
    assert matrix[0, :8].tolist() == [np.inf, wide, narrow, narrow, narrow, narrow, narrow, narrow]
    assert set(fat_tree(4, 1, "100 Gb/s").bandwidth_matrix.ravel()) == {np.inf, wide}
    counts = Counter(link.bandwidth for link in fat_tree(4, 4, "100 Gb/s").links)
    assert counts == {wide: 16, narrow: 16 + 16}, "one level of links as wide as was said, two levels narrower"


def test_aggregation_switches_of_the_same_number_have_the_same_cores():
    graph = fat_tree(6).graph
    for pod, number in itertools.product(range(6), range(3)):
        cores = {near for near in graph[f"pod{pod}.aggregation{number}"] if near.startswith("core")}
        assert cores == {f"core{c}" for c in range(3 * number, 3 * number + 3)}


def test_every_leaf_is_joined_with_every_spine():
    cluster = leaf_spine(3, 2, 4, "100 Gb/s", "40 Gb/s")
    assert len(cluster.devices) == 12
    assert len(cluster.links) == 12 + 6
    assert [degree(cluster, f"leaf{i}") for i in range(3)] == [6, 6, 6]
    assert [degree(cluster, f"spine{j}") for j in range(2)] == [3, 3]
    assert path(cluster, "gpu4", "gpu7") == ["gpu4", "leaf1", "gpu7"]
    assert cluster.route("gpu4", "gpu7").bandwidth == 12.5e9
    assert cluster.route("gpu4", "gpu8").bandwidth == 5e9
    spines = Counter(path(cluster, "gpu0", f"gpu{i}")[2] for i in range(4, 12))
    assert spines == {"spine0": 4, "spine1": 4}


# --- ring, torus, random ---------------------------------------------------------------------------------------------


def test_a_ring_goes_the_shorter_way_round():
    cluster = ring(5, 1e9)
    assert len(cluster.links) == 5
    assert [degree(cluster, f"gpu{i}") for i in range(5)] == [2] * 5
    assert path(cluster, "gpu0", "gpu3") == ["gpu0", "gpu4", "gpu3"]
    assert set(cluster.bandwidth_matrix.ravel()) == {np.inf, 1e9}
    assert len(ring(2, 1e9).links) == 1
    assert len(ring(3, 1e9).links) == 3


@pytest.mark.parametrize("rows", range(1, 6))
@pytest.mark.parametrize("columns", range(1, 6))
def test_a_torus_is_the_product_of_two_circles(rows, columns):
    cluster = torus2d(rows, columns, 1e9)
    circles = [nx.cycle_graph(n) if n > 2 else nx.path_graph(n) for n in (rows, columns)]
    expected = nx.cartesian_product(*circles)
    names = {(r, c): f"gpu{r * columns + c}" for r, c in itertools.product(range(rows), range(columns))}
    found = nx.Graph(cluster.graph.to_undirected())
    assert nx.utils.graphs_equal(nx.Graph(found.edges), nx.Graph(nx.relabel_nodes(expected, names).edges))
    assert len(cluster.links) == expected.number_of_edges()


def test_a_random_cluster_joins_every_pair_at_density_1():
    cluster = random(8, 5, ["1 GB/s", "10 GB/s"])
    pairs = [tuple(sorted((int(link.source[3:]), int(link.target[3:])))) for link in cluster.links]
    assert sorted(pairs) == list(itertools.combinations(range(8), 2))
    assert {link.bandwidth for link in cluster.links} == {1e9, 10e9}
    assert all(
        cluster.bandwidth_matrix[a, b] == link.bandwidth for (a, b), link in zip(pairs, cluster.links, strict=True)
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("density", "links"), [(0, 9), (0.1, 9), (0.5, 22), (0.9, 40)])
def test_a_random_cluster_is_connected_and_as_dense_as_asked_for(seed, density, links):
    cluster = random(10, seed, [1e9], density)
    assert len(cluster.links) == links
    assert nx.is_strongly_connected(cluster.graph)
    assert cluster.graph.number_of_nodes() == 10


def test_another_seed_gives_another_cluster_and_the_wiring_is_that_of_the_seed():
    def wiring(cluster):
        return [(link.source, link.target) for link in cluster.links]

    assert wiring(random(10, 1, [1e9], 0.4)) != wiring(random(10, 2, [1e9], 0.4))
    assert wiring(random(10, 1, [1e9], 0.4)) == wiring(random(10, 1, [1, 5], 0.4, distribution="log"))
    assert random(10, 1, [1, 2, 3, 4]) != random(10, 2, [1, 2, 3, 4])


@pytest.mark.parametrize(("distribution", "middle"), [("uniform", 50.5e9), ("log", 10e9)])
def test_bandwidths_between_two_are_drawn_evenly_or_evenly_in_the_logarithm(distribution, middle):
    drawn = [link.bandwidth for link in random(80, 1, ["1 GB/s", "100 GB/s"], distribution=distribution).links]
    assert 1e9 <= min(drawn) < max(drawn) <= 100e9
    assert len(set(drawn)) == len(drawn)
    # Half of 3,160 draws lie below the middle; 5 standard deviations of the share are 0.045.
    assert np.mean(np.array(drawn) < middle) == pytest.approx(0.5, abs=0.045)


def test_bandwidths_of_a_range_that_is_one_value_are_that_value():
    value = units.bandwidth("0.3 GB/s")
    for distribution in ("uniform", "log"):
        cluster = random(6, 0, [value, value], distribution=distribution)
        assert {link.bandwidth for link in cluster.links} == {value}


# --- rail_fat_tree ---------------------------------------------------------------------------------------------------


def rails(**more):
    """Two pods of two blocks of two nodes with three GPUs, with two spines in each pod and two cores on each."""
    shape = {"per_leaf": 2, "leaves": 2, "spines": 2, "cores": 2, "gpus": 3}
    return rail_fat_tree(8, "80 Gb/s", **(shape | more))


@pytest.mark.parametrize(
    ("target", "switches"),
    [
        ("node1.gpu2", ["pod0.block0.leaf2"]),
        ("node2.gpu2", ["pod0.block0.leaf2", "pod0.spine", "pod0.block1.leaf2"]),
        ("node7.gpu2", ["pod0.block0.leaf2", "pod0.spine", "core", "pod1.spine", "pod1.block1.leaf2"]),
    ],
)
def test_gpus_of_a_rail_are_as_many_switches_apart_as_levels_are_between_them(target, switches):
    passed = path(rails(), "node0.gpu2", target)[2:-2]
    assert [name if "leaf" in name else name.rstrip("0123456789") for name in passed] == switches


def test_without_oversubscription_each_switch_has_as_much_above_as_below():
    cluster = rails()
    up, down = Counter(), Counter()
    level = {"node": 0, "leaf": 1, "spine": 2, "core": 3}
    for link in cluster.links:
        a, b = (next(n for word, n in reversed(level.items()) if word in end) for end in (link.source, link.target))
        if a != b:
            up[link.source] += link.bandwidth
            down[link.target] += link.bandwidth
    for name in cluster.vertices:
        if "leaf" in name or "spine" in name:
            assert up[name] == pytest.approx(down[name])


def test_oversubscription_divides_what_is_above_leaves_and_above_spines():
    even = {(link.source, link.target): link.bandwidth for link in rails().links}
    for link in rails(oversubscription=2, core_oversubscription=3).links:
        less = 2 if "spine" in link.target else 6 if "core" in link.target else 1
        assert link.bandwidth == pytest.approx(even[link.source, link.target] / less)


def test_routes_between_blocks_and_pods_use_all_spines_and_cores():
    cluster = rail_fat_tree(256, per_leaf=8, leaves=4, spines=4, cores=2, gpus=2)
    used = Counter()
    for n in range(128):
        for rail in range(2):
            route = cluster.route(f"node{n}.gpu{rail}", f"node{n + 128}.gpu{rail}")
            used.update(end for link in route.links for end in (cluster.links[link].target,) if "core" in end)
    assert len(used) == 8
    assert len(set(used.values())) == 1


def test_a_single_block_has_no_spines_and_a_single_pod_no_cores():
    assert not any("spine" in name for name in rail_fat_tree(32).vertices)
    one_pod = rail_fat_tree(64).vertices
    assert any("spine" in name for name in one_pod)
    assert not any("core" in name for name in one_pod)


def test_a_network_with_too_many_links_is_refused_before_it_is_built():
    with pytest.raises(InputError, match=r"blocks x gpus x spines .* links found; at most 1048576"):
        rail_fat_tree(16384, per_leaf=1, spines=64)
