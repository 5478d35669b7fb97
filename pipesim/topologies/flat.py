"""Devices on one switch that never blocks."""

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts


@TopologyInfo(
    examples=(
        "flat(4, '25 Gb/s')",
        "flat(1, 1e9)",
        "flat(2, 1e9, latency=0)",
    )
)
def flat(
    n: int,
    bandwidth: float | str,
    *,
    latency: float | str = "2.5us",
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """Every device has a full-duplex link of this bandwidth to the switch, so every pair gets it.

        gpu0   gpu1   gpu2   gpu3
          ╚══════╩═switch═╩════╝        one device: no switch and no links

    `latency` is that of each of the two links of a route: 5 us from device to device, as across a network.
    """
    n = parts.count("n", n)
    wide, delay = parts.bandwidth("bandwidth", bandwidth), parts.latency("latency", latency)
    devices = parts.devices(((f"gpu{i}", "node0") for i in range(n)), device, memory)
    links = tuple(Link(d.name, "switch", wide, delay) for d in devices) if n > 1 else ()
    return Cluster(f"flat-{n}", devices, links)
