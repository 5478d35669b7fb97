"""Servers under rail switches, in a three-level fat tree: the network of large training clusters."""

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts
from pipesim.topologies.hosts import interconnects

GPUS = 8


@TopologyInfo(
    examples=(
        "rail_fat_tree(2)",
        "rail_fat_tree(1)",
        "rail_fat_tree(3, per_leaf=1, leaves=2, spines=2, cores=2, oversubscription=2, gpus=2)",
        "rail_fat_tree(4, '100 Gb/s', per_leaf=2, leaves=2, spines=1, gpus=2)",
    )
)
def rail_fat_tree(
    nodes: int,
    inter: float | str = "400 Gb/s",
    *,
    per_leaf: int = 32,
    leaves: int = 8,
    spines: int = 16,
    cores: int = 8,
    oversubscription: float = 1,
    core_oversubscription: float = 1,
    gpus: int = GPUS,
    latency: float | str = "1us",
    network_latency: float | str = "2.5us",
    switch_latency: float | str = "0.5us",
    device: str = "h100-80gb",
    memory: float | str | None = None,
) -> Cluster:
    """Blocks of `per_leaf` nodes with a leaf switch for each rail, NIC i under leaf i; pods of `leaves` blocks.

        core0 ··· core7     core8 ···       core c joins spine c // cores of every pod
               ║                 ║          (what its leaves have to it / core_oversubscription, over `cores`)
        pod0.spine0       pod0.spine1 ···   each of `spines` joins all leaves of its pod
             ║    ╲         ╱     ║         (a leaf's nodes x inter / oversubscription, over all spines)
        pod0.block0.leaf0  pod0.block0.leaf1 ··· leaf7     rails: leaf i has GPU i of every node
             ║                  ║           inter
        node0.nic0         node0.nic1
        node0.gpu0 ═══════ node0.gpu1 ··· gpu7             all on NVSwitch

    GPUs of one rail in a block are one switch apart, in a pod three, otherwise five. A single block has no spines, a
    single pod no cores. The last block, and the last pod, may be smaller; their switches have the same ports.

    The bandwidth of NVSwitch and PCIe is that of the GPU's kind. `latency` is that of each GPU's link to the NVSwitch,
    `network_latency` that of each NIC's link to its leaf, PCIe included, `switch_latency` that of a link between
    switches: 2 us in a node, 5, 6 or 7 us between nodes.
    """
    nodes = parts.count("nodes", nodes)
    gpus = parts.count("gpus", gpus, 1, 64)
    parts.size(f"nodes x gpus = {nodes} x {gpus}", devices=nodes * gpus)
    per_leaf, leaves = parts.count("per_leaf", per_leaf), parts.count("leaves", leaves)
    spines, cores = parts.count("spines", spines), parts.count("cores", cores)
    blocks = -(-nodes // per_leaf)
    pods = -(-blocks // leaves)
    above = (blocks * gpus * spines if blocks > 1 else 0) + (pods * spines * cores if pods > 1 else 0)
    size = f"{blocks} blocks x gpus x spines + {pods} pods x spines x cores"
    parts.size(size, devices=0, links=3 * nodes * gpus + above)
    wide = parts.bandwidth("inter", inter)
    up = wide * per_leaf / spines / parts.number("oversubscription", oversubscription, 1, 10_000)
    narrowed = parts.number("core_oversubscription", core_oversubscription, 1, 10_000)
    delays = parts.latency("latency", latency), parts.latency("network_latency", network_latency)
    between = parts.latency("switch_latency", switch_latency)
    devices = parts.devices(
        ((f"node{n}.gpu{i}", f"node{n}") for n in range(nodes) for i in range(gpus)), device, memory
    )
    leaf = [[f"pod{block // leaves}.block{block % leaves}.leaf{i}" for i in range(gpus)] for block in range(blocks)]
    links = _of_nodes(nodes, [leaf[n // per_leaf] for n in range(nodes)], device, wide, delays)
    if blocks > 1:
        links += [
            Link(name, f"pod{block // leaves}.spine{s}", up, between)
            for block in range(blocks)
            for name in leaf[block]
            for s in range(spines)
        ]
    if pods > 1:
        above_spine = up * leaves * gpus / cores / narrowed
        links += [
            Link(f"pod{pod}.spine{core // cores}", f"core{core}", above_spine, between)
            for pod in range(pods)
            for core in range(spines * cores)
        ]
    return Cluster(f"rail_fat_tree-{nodes}", devices, tuple(links))


def _of_nodes(nodes: int, leaves: list[list[str]], device: str, wide: float, delays: tuple[float, float]) -> list[Link]:
    """GPUs to their NVSwitch and to their NICs, and those to the leaves of the node."""
    ports = interconnects.ports_of(device)
    within, to_nic = max(ports.nvlinks * ports.nvlink, wide), max(interconnects.pcie(ports.pcie), wide)
    links: list[Link] = []
    for n in range(nodes):
        node, gpus = f"node{n}", len(leaves[n])
        if gpus > 1:
            links += [Link(f"{node}.gpu{i}", f"{node}.switch", within, delays[0]) for i in range(gpus)]
        if nodes > 1:
            links += [Link(f"{node}.gpu{i}", f"{node}.nic{i}", to_nic) for i in range(gpus)]
            links += [Link(f"{node}.nic{i}", leaves[n][i], wide, delays[1]) for i in range(gpus)]
    return links
