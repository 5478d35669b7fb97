"""Devices joined in a ring."""

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts


@TopologyInfo(
    examples=(
        "ring(5, '10 GB/s')",
        "ring(2, 1e9)",
        "ring(1, 1e9)",
    )
)
def ring(
    n: int,
    bandwidth: float | str,
    *,
    latency: float | str = "2us",
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """Every device has a link to the next, the last to the first; others are reached through these.

        gpu0 ══ gpu1 ══ gpu2
         ╚═══════════════╝        two devices have one link, one has none

    `latency` is that of each link on the way: 2 us, as between GPUs of one machine.
    """
    n = parts.count("n", n)
    wide, delay = parts.bandwidth("bandwidth", bandwidth), parts.latency("latency", latency)
    devices = parts.devices(((f"gpu{i}", "node0") for i in range(n)), device, memory)
    count = n if n > 2 else n - 1
    links = tuple(Link(f"gpu{i}", f"gpu{(i + 1) % n}", wide, delay) for i in range(count))
    return Cluster(f"ring-{n}", devices, links)
