"""The three-level fat tree of switches with k ports."""

from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts

# 16,000 devices; 42 ports would give more than a cluster may have.
MOST_PORTS = 40


@TopologyInfo(
    examples=(
        "fat_tree(4)",
        "fat_tree(2, 3)",
        "fat_tree(4, 2.5, '25 Gb/s')",
    )
)
def fat_tree(
    k: int,
    oversubscription: float = 1,
    bandwidth: float | str = "100 Gb/s",
    *,
    latency: float | str = "1us",
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """Of k pods, each with k/2 edge and k/2 aggregation switches; (k/2)² cores; k³/4 devices, one per host port.

        core0    core1    core2    core3       core c joins aggregation switch c // (k/2) of every pod
          aggregation0      aggregation1       each joined with each edge switch of its pod
             ║       ╲      ╱       ║
           edge0      ╲    ╱      edge1        links above have bandwidth / oversubscription
          ║    ║                 ║    ║
        gpu0  gpu1             gpu2  gpu3      one of k pods (k = 4); each device is a node of its own

    `latency` is that of each link: 2, 4 or 6 us under one edge switch, in one pod or between pods, as across a network.
    """
    k = parts.count("k", k, 2, MOST_PORTS)
    if k % 2:
        raise InputError(f"k: {k} found; an even number of ports was expected")
    wide, delay = parts.bandwidth("bandwidth", bandwidth), parts.latency("latency", latency)
    above = wide / parts.number("oversubscription", oversubscription, 1, 10_000)
    half = k // 2
    devices = parts.devices(((f"gpu{i}", f"node{i}") for i in range(k * half * half)), device, memory)
    hosts = [Link(f"gpu{i}", _edge(i // half, half), wide, delay) for i in range(len(devices))]
    inside = [
        Link(_edge(pod * half + edge, half), _aggregation(pod, up), above, delay)
        for pod in range(k)
        for edge in range(half)
        for up in range(half)
    ]
    cores = [
        Link(_aggregation(pod, core // half), f"core{core}", above, delay)
        for pod in range(k)
        for core in range(half * half)
    ]
    return Cluster(f"fat_tree-{k}", devices, (*hosts, *inside, *cores))


def _edge(number: int, half: int) -> str:
    return f"pod{number // half}.edge{number % half}"


def _aggregation(pod: int, number: int) -> str:
    return f"pod{pod}.aggregation{number}"
