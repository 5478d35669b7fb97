"""Devices under leaf switches, each of which is joined with every spine switch."""

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts


@TopologyInfo(
    examples=(
        "leaf_spine(3, 2, 4, '100 Gb/s', '200 Gb/s')",
        "leaf_spine(1, 1, 1, 1e9, 1e9)",
    )
)
def leaf_spine(
    leaves: int,
    spines: int,
    per_leaf: int,
    bandwidth: float | str,
    uplink: float | str,
    *,
    latency: float | str = "1.25us",
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """Each of `per_leaf` devices has `bandwidth` to its leaf; each leaf has `uplink` to each spine.

             spine0    spine1              one device per host, each a node of its own;
              ║   ╲    ╱   ║    uplink     leaf i has gpu i*per_leaf to gpu (i+1)*per_leaf - 1
            leaf0  ╲  ╱   leaf1
            ║   ║          ║   ║  bandwidth
        gpu0   gpu1     gpu2   gpu3

    `latency` is that of each link: 2.5 us under one leaf, 5 us between leaves, as across a network.
    """
    leaves, spines = parts.count("leaves", leaves), parts.count("spines", spines)
    n = leaves * parts.count("per_leaf", per_leaf)
    parts.size(f"leaves x per_leaf = {leaves} x {per_leaf}", devices=n)
    parts.size(f"leaves x spines = {leaves} x {spines}", devices=n, links=leaves * spines + n)
    wide, up = parts.bandwidth("bandwidth", bandwidth), parts.bandwidth("uplink", uplink)
    delay = parts.latency("latency", latency)
    devices = parts.devices(((f"gpu{i}", f"node{i}") for i in range(n)), device, memory)
    down = [Link(f"gpu{i}", f"leaf{i // per_leaf}", wide, delay) for i in range(n)]
    above = [Link(f"leaf{i}", f"spine{j}", up, delay) for i in range(leaves) for j in range(spines)]
    return Cluster(f"leaf_spine-{leaves}x{spines}x{per_leaf}", devices, (*down, *above))
