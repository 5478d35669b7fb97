"""NVIDIA DGX A100: eight GPUs on NVSwitch, a NIC for each."""

from pipesim.core.cluster import Cluster
from pipesim.topologies.servers import nvswitch

# Third generation NVLink: 12 links of 50 GB/s, both directions together, is 300 GB/s per direction.
NVSWITCH = "300 GB/s"
# PCIe 4.0 x16, raw: 16 GT/s on 16 lanes in the 128b/130b code, per direction.
PCIE = 16e9 * 16 * 128 / 130 / 8


def dgx_a100(
    nodes: int = 1,
    inter: float | str = "200 Gb/s",
    *,
    latency: float | str = "1us",
    network_latency: float | str = "2.5us",
    device: str = "a100-40gb",
    memory: float | str | None = None,
) -> Cluster:
    """Nodes of 8 A100 on NVSwitch, 300 GB/s per direction each, and 8 NICs of `inter`, one per GPU over PCIe 4.

    Several nodes join at a core switch that never blocks; one node has no NICs. `latency` is that of each GPU's link to
    the NVSwitch: 2 us within a node; `network_latency` that of each NIC's link to the core: 5 us between nodes.
    """
    return nvswitch(
        "dgx_a100",
        nodes,
        NVSWITCH,
        inter,
        PCIE,
        latency=latency,
        network_latency=network_latency,
        device=device,
        memory=memory,
    )
