"""Devices joined in a line."""

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts


@TopologyInfo(examples=("added_topology(4, '10 GB/s')", "added_topology(1, 1e9)"))
def added_topology(
    n: int,
    bandwidth: float | str,
    *,
    latency: float | str = "2us",
    device: str = "v100-16gb",
    memory: float | str | None = None,
) -> Cluster:
    """Every device has a link to the next; others are reached through these. `latency` is that of each link."""
    n = parts.count("n", n)
    wide, delay = parts.bandwidth("bandwidth", bandwidth), parts.latency("latency", latency)
    devices = parts.devices(((f"gpu{i}", "node0") for i in range(n)), device, memory)
    links = tuple(Link(f"gpu{i}", f"gpu{i + 1}", wide, delay) for i in range(n - 1))
    return Cluster(f"line-{n}", devices, links)
