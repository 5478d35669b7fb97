"""NVIDIA HGX H100: eight GPUs on NVSwitch, a NIC for each."""

from pipesim.core.cluster import Cluster
from pipesim.topologies.servers import nvswitch

# Fourth generation NVLink: 18 links of 50 GB/s, both directions together, is 450 GB/s per direction.
NVSWITCH = "450 GB/s"
# PCIe 5.0 x16, raw: 32 GT/s on 16 lanes in the 128b/130b code, per direction.
PCIE = 32e9 * 16 * 128 / 130 / 8


def hgx_h100(
    nodes: int = 1,
    inter: float | str = "400 Gb/s",
    *,
    latency: float | str = "1us",
    network_latency: float | str = "2.5us",
    device: str = "h100-80gb",
    memory: float | str | None = None,
) -> Cluster:
    """Nodes of 8 H100 on NVSwitch, 450 GB/s per direction each, and 8 NICs of `inter`, one per GPU over PCIe 5.

    Several nodes join at a core switch that never blocks; one node has no NICs. `latency` is that of each GPU's link to
    the NVSwitch: 2 us within a node; `network_latency` that of each NIC's link to the core: 5 us between nodes.
    """
    return nvswitch(
        "hgx_h100",
        nodes,
        NVSWITCH,
        inter,
        PCIE,
        latency=latency,
        network_latency=network_latency,
        device=device,
        memory=memory,
    )
