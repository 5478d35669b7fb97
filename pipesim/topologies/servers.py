"""Servers of several devices, joined by their NICs at a core switch."""

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts


@TopologyInfo(
    examples=(
        "servers(2, 4, '150 GB/s', '100 Gb/s', nics=2)",
        "servers(3, 2, '10 GB/s', '10 GB/s')",
        "servers(2, 3, '10 GB/s', '200 Gb/s', nics=2)",
        "servers(2, 2, '10 GB/s', '10 GB/s', nics=2, pcie='5 GB/s')",
        "servers(1, 4, '10 GB/s', '1 GB/s')",
        "servers(3, 1, '10 GB/s', '1 GB/s')",
        "servers(1, 1, '10 GB/s', '1 GB/s')",
    )
)
def servers(
    nodes: int,
    per_node: int,
    intra: float | str,
    inter: float | str,
    nics: int = 1,
    *,
    pcie: float | str | None = None,
    latency: float | str = "1us",
    network_latency: float | str = "2.5us",
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """In each node a switch joins the devices with `intra`; each of the node's NICs has `inter` to the core switch.

        node0.gpu0 ══ node0.switch ══ node0.gpu1        GPU i of a node uses NIC i * nics // per_node
              ║                             ║
         node0.pcie0 ════ node0.nic0 ═ node0.pcie1      a NIC that several GPUs share has a PCIe port for each; with
                              ║                         links to both GPUs it would be a second route between them, as
                             core                       short as the switch. A NIC for each GPU needs no ports.

    `pcie` is the bandwidth from a GPU to its NIC; by default it is never the bottleneck. One node has no NICs and no
    core, one device per node no switch.

    `latency` is that of each GPU's link to the switch: 2 us between GPUs of a node. `network_latency` is that of each
    NIC's link to the core, PCIe included: 5 us between nodes.
    """
    nodes, per_node = parts.count("nodes", nodes), parts.count("per_node", per_node)
    parts.size(f"nodes x per_node = {nodes} x {per_node}", devices=nodes * per_node)
    nics = parts.count("nics", nics, 1, per_node)
    within, between = parts.bandwidth("intra", intra), parts.bandwidth("inter", inter)
    to_nic = max(within, between) if pcie is None else parts.bandwidth("pcie", pcie)
    delay, network_delay = parts.latency("latency", latency), parts.latency("network_latency", network_latency)
    places = ((f"node{n}.gpu{i}", f"node{n}") for n in range(nodes) for i in range(per_node))
    devices = parts.devices(places, device, memory)
    links: list[Link] = []
    for node in (f"node{n}" for n in range(nodes)):
        if per_node > 1:
            links += [Link(f"{node}.gpu{i}", f"{node}.switch", within, delay) for i in range(per_node)]
        if nodes > 1:
            links += _links_to_nics(node, per_node, nics, to_nic)
            links += [Link(f"{node}.nic{j}", "core", between, network_delay) for j in range(nics)]
    return Cluster(f"servers-{nodes}x{per_node}", devices, tuple(links))


def _links_to_nics(node: str, per_node: int, nics: int, wide: float) -> list[Link]:
    """Links from each GPU to its NIC; if NICs are shared, through a port."""
    links = []
    for i in range(per_node):
        gpu, port, nic = f"{node}.gpu{i}", f"{node}.pcie{i}", f"{node}.nic{i * nics // per_node}"
        if nics == per_node:
            links.append(Link(gpu, nic, wide))
        else:
            links += [Link(gpu, port, wide), Link(port, nic, wide)]
    return links
