"""Equal machines from the text that `nvidia-smi topo -m` prints."""

from pathlib import Path

from pipesim.base import files
from pipesim.base.errors import within
from pipesim.core.cluster import Cluster
from pipesim.topologies.hosts import matrix, smi_machine
from pipesim.topologies.hosts.choices import Choices, repeated
from pipesim.topologies.hosts.machine import Machine


def nvidia_smi(
    file: str,
    nodes: int = 1,
    inter: float | str = "100 Gb/s",
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
    """The machine in a file with the output of `nvidia-smi topo -m`; `nodes` of them, joined by their NICs at a core.

        NV#       a number of NVLinks of the kind's generation, each `nvlink`; if a GPU shows more of them than it has,
                  they lead to an NVSwitch
        PIX, PXB  PCIe switches; a cable to each GPU, NIC and switch, x16 of the kind's generation (`pcie`)
        PHB       a CPU's host bridge, with the bandwidth of all below
        NODE      `between_bridges`: a limit to each host bridge of a NUMA node; by default none
        SYS       `between_cpus`: 20.8 GB/s, one UPI link at 10.4 GT/s, for each NUMA node; machines have two to four

    `device` (or `kind`) is the kind of GPU, which the text does not contain. By default it is guessed from the NVLinks
    of a GPU: V100 for 6, A100 for 12, H100 for 18. `nics` are those on the network, by their names in the legend; by
    default all. Each has `inter` to the core. One node has no NICs. If a NIC is nearer by NVLink and another GPU than
    by PCIe, routes use that, as NCCL's PXN does.

    `latency` is that of a GPU's end of a link, so twice that, 2 us, between two GPUs of a machine; `network_latency`
    that of each NIC's link to the core, PCIe included: 5 us between nodes.
    """
    return repeated(machine_in, locals())


def machine_in(path: Path, choices: Choices) -> Machine:
    """The machine in a file."""
    text = files.read_text(path)
    with within(str(path)):
        return machine_of(text, choices)


def machine_of(text: str, choices: Choices) -> Machine:
    """The machine in a text."""
    found = matrix.parse(text)
    kind = choices.kind(smi_machine.guessed_kind(found))
    return smi_machine.machine_of(found, kind, choices.rates(kind))
