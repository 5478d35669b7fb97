"""NVIDIA DGX-1 with V100: eight GPUs in a hybrid cube mesh of NVLink."""

from pipesim.core.cluster import Cluster, Link
from pipesim.topologies import parts

GPUS = 8
# Second generation NVLink, bytes/s per link and direction.
NVLINK = 25e9
# PCIe 3.0 x16, raw: 8 GT/s on 16 lanes in the 128b/130b code, per direction.
PCIE = 8e9 * 16 * 128 / 130 / 8
# Number of NVLink links of each joined pair; every GPU has six.
NVLINKS = {
    (0, 1): 1,
    (0, 2): 1,
    (0, 3): 2,
    (0, 4): 2,
    (1, 2): 2,
    (1, 3): 1,
    (1, 5): 2,
    (2, 3): 2,
    (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1,
    (4, 6): 1,
    (4, 7): 2,
    (5, 6): 2,
    (5, 7): 1,
    (6, 7): 2,
}


def dgx1_v100(
    nodes: int = 1,
    inter: float | str = "100 Gb/s",
    *,
    latency: float | str = "2us",
    network_latency: float | str = "2.5us",
    device: str = "v100-16gb",
    memory: float | str | None = None,
) -> Cluster:
    """Nodes of 8 V100 on NVLink 2, 25 GB/s per link and direction, with 4 PCIe switches that two GPUs and a NIC share.

          node0.gpu0 ═ node0.gpu1          GPUs without a link are reached through a third, over two;
               ╚═════╦═════╝               two links of a pair are one Link of 50 GB/s
                node0.pcie0 ═ node0.nic0 ═ core

    GPUs 2j and 2j + 1 share PCIe switch j (15.75 GB/s per direction and cable) and its NIC, which has `inter` to the
    core. One node has no NICs. The CPUs between the PCIe switches are left out: NVLink is always the shorter way.

    `latency` is that of NVLink, 2 us, as between GPUs of one machine; `network_latency` that of each NIC's link to the
    core, PCIe included: 5 us between nodes.
    """
    nodes = parts.count("nodes", nodes)
    parts.size(f"nodes x {GPUS} = {nodes} x {GPUS}", devices=nodes * GPUS)
    between = parts.bandwidth("inter", inter)
    delay, network_delay = parts.latency("latency", latency), parts.latency("network_latency", network_latency)
    places = ((f"node{n}.gpu{i}", f"node{n}") for n in range(nodes) for i in range(GPUS))
    devices = parts.devices(places, device, memory)
    links: list[Link] = []
    for node in (f"node{n}" for n in range(nodes)):
        links += [Link(f"{node}.gpu{a}", f"{node}.gpu{b}", c * NVLINK, delay) for (a, b), c in NVLINKS.items()]
        links += [Link(f"{node}.gpu{i}", f"{node}.pcie{i // 2}", PCIE) for i in range(GPUS)]
        if nodes > 1:
            links += [Link(f"{node}.pcie{j}", f"{node}.nic{j}", PCIE) for j in range(GPUS // 2)]
            links += [Link(f"{node}.nic{j}", "core", between, network_delay) for j in range(GPUS // 2)]
    return Cluster(f"dgx1_v100-{nodes}", devices, tuple(links))
