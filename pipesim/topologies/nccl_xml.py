"""Equal machines from the XML that NCCL writes to NCCL_TOPO_DUMP_FILE."""

from pathlib import Path

from pipesim.base import files
from pipesim.base.errors import within
from pipesim.core.cluster import Cluster
from pipesim.topologies.hosts import elements, nccl_machine
from pipesim.topologies.hosts.choices import Choices, repeated
from pipesim.topologies.hosts.machine import Machine


def nccl_xml(
    file: str,
    nodes: int = 1,
    inter: float | str | None = None,
    *,
    device: str | None = None,
    kind: str | None = None,
    nvlink: float | str | None = None,
    pcie: float | str | None = None,
    between_bridges: float | str | None = None,
    between_cpus: float | str | None = None,
    nics: tuple[str, ...] | None = None,
    latency: float | str = "1us",
    network_latency: float | str = "1.5us",
    memory: float | str | None = None,
) -> Cluster:
    """The machine in a topology dump of NCCL; `nodes` of them, joined by their NICs at a core.

        pci     a PCIe switch or device; its cable has the speed and the width of the dump (link_speed, link_width),
                else x16 of the kind's generation (`pcie`)
        nvlink  a number of links of the kind's generation, each `nvlink`; all NVSwitches of a machine are one
        cpu     a NUMA node; between two, or from each to the middle of more, one link by their vendor: UPI
                20.8 GB/s, QPI 19.2 GB/s, xGMI 32 GB/s (`between_cpus`). `between_bridges` limits what is below a CPU
        net     a NIC with its speed, or with `inter`

    `device` (or `kind`) is the kind of GPU; by default it is guessed from the compute capability (sm): V100 for 70,
    A100 for 80, H100 for 90, B200 for 100. `nics` are those on the network, by default all. A NIC that is listed at
    several CPUs is at the first. One node has no NICs. Latencies are those of `nvidia_smi`.
    """
    return repeated(machine_in, locals())


def machine_in(path: Path, choices: Choices) -> Machine:
    """The machine in a file."""
    data = files.read_bytes(path)
    with within(str(path)):
        return machine_of(data, choices)


def machine_of(data: bytes, choices: Choices) -> Machine:
    """The machine in a dump."""
    return nccl_machine.machine_of(elements.parse(data), choices)
