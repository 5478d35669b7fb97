"""NVIDIA's machines of eight GPUs in one table: their GPUs, the wiring between these, and their network.

    name         GPU     NVLinks of each GPU                          NICs
    dgx1_v100    V100    6, to four others (hybrid cube mesh)         4, each shared by two GPUs over a PCIe switch
    dgx_a100     A100    12, all to NVSwitch                          8, one for each GPU
    hgx_h100     H100    18, all to NVSwitch                          8, one for each GPU

What an NVLink and a PCIe cable of each GPU carry is in `hosts.interconnects`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts
from pipesim.topologies.hosts import interconnects
from pipesim.topologies.hosts.interconnects import Ports
from pipesim.topologies.servers import servers

GPUS = 8
# The number of NVLinks of each pair of GPUs in a DGX-1; every GPU has six.
CUBE_MESH = {
    (0, 1): 1,
    (0, 2): 1,
    (0, 3): 2,
    (0, 4): 2,
    (1, 2): 2,
    (1, 3): 1,
    (1, 5): 2,
    (2, 3): 2,
    (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1,
    (4, 6): 1,
    (4, 7): 2,
    (5, 6): 2,
    (5, 7): 1,
    (6, 7): 2,
}


@dataclass(frozen=True, slots=True)
class NvidiaMachine:
    """A row of the table: the default kind of GPU, a NIC's bandwidth, and one end's latency of an NVLink.

    `mesh`: the NVLinks of each pair, with a PCIe switch and a NIC for two GPUs; None: all NVLinks lead to NVSwitch,
    and each GPU has a NIC.
    """

    device: str
    inter: str
    latency: str = "1us"
    mesh: Mapping[tuple[int, int], int] | None = None

    @property
    def ports(self) -> Ports:
        """The NVLinks of a GPU, and its generation of PCIe."""
        return interconnects.ports_of(self.device)


MACHINES = {
    "dgx1_v100": NvidiaMachine("v100-16gb", "100 Gb/s", "2us", CUBE_MESH),
    "dgx_a100": NvidiaMachine("a100-40gb", "200 Gb/s"),
    "hgx_h100": NvidiaMachine("h100-80gb", "400 Gb/s"),
}

_SWITCHED = """Nodes of 8 {gpu} on NVSwitch, {nvswitch:g} GB/s per direction each, and 8 NICs of `inter`, one per GPU over PCIe {pcie}.

    Several nodes join at a core switch that never blocks; one node has no NICs. `latency` is that of each GPU's link to
    the NVSwitch: 2 us within a node; `network_latency` that of each NIC's link to the core: 5 us between nodes.
    """  # noqa: E501 - the first line of a docstring is one sentence
_MESHED = """Nodes of 8 {gpu} on NVLink, {nvlink:g} GB/s per link and direction, with 4 PCIe switches that two GPUs and a NIC share.

          node0.gpu0 ═ node0.gpu1          GPUs without a link are reached through a third, over two;
               ╚═════╦═════╝               two links of a pair are one Link of {pair:g} GB/s
                node0.pcie0 ═ node0.nic0 ═ core

    GPUs 2j and 2j + 1 share PCIe switch j ({cable:.2f} GB/s per direction and cable) and its NIC, which has `inter` to
    the core. One node has no NICs. The CPUs between the PCIe switches are left out: NVLink is always the shorter way.

    `latency` is that of NVLink, 2 us, as between GPUs of one machine; `network_latency` that of each NIC's link to the
    core, PCIe included: 5 us between nodes.
    """  # noqa: E501 - the first line of a docstring is one sentence


class MachineTopology(Protocol):
    """The signature of all topologies of this table; `inter`, `latency` and `device` have the defaults of a row."""

    def __call__(
        self,
        nodes: int = ...,
        inter: float | str = ...,
        *,
        latency: float | str = ...,
        network_latency: float | str = ...,
        device: str = ...,
        memory: float | str | None = ...,
    ) -> Cluster:
        """The cluster of so many nodes."""


def topology_of(name: str) -> MachineTopology:
    """The topology for a row of the table."""
    machine = MACHINES[name]

    def build(
        nodes: int = 1,
        inter: float | str = machine.inter,
        *,
        latency: float | str = machine.latency,
        network_latency: float | str = "2.5us",
        device: str = machine.device,
        memory: float | str | None = None,
    ) -> Cluster:
        wired = _meshed if machine.mesh else _switched
        return replace(
            wired(machine, nodes, inter, (latency, network_latency), (device, memory)), name=f"{name}-{nodes}"
        )

    build.__doc__ = _described(machine)
    return TopologyInfo(examples=(f"{name}(2)", f"{name}()"))(build)


def _described(machine: NvidiaMachine) -> str:
    ports = machine.ports
    return (_MESHED if machine.mesh else _SWITCHED).format(
        gpu=machine.device.partition("-")[0].upper(),
        nvlink=ports.nvlink / 1e9,
        pair=2 * ports.nvlink / 1e9,
        nvswitch=ports.nvlinks * ports.nvlink / 1e9,
        pcie=ports.pcie,
        cable=interconnects.pcie(ports.pcie) / 1e9,
    )


def _switched(
    machine: NvidiaMachine,
    nodes: int,
    inter: float | str,
    latencies: tuple[float | str, float | str],
    gpu: tuple[str, float | str | None],
) -> Cluster:
    ports = machine.ports
    return servers(
        nodes,
        GPUS,
        ports.nvlinks * ports.nvlink,
        inter,
        nics=GPUS,
        pcie=interconnects.pcie(ports.pcie),
        latency=latencies[0],
        network_latency=latencies[1],
        device=gpu[0],
        memory=gpu[1],
    )


def _meshed(
    machine: NvidiaMachine,
    nodes: int,
    inter: float | str,
    latencies: tuple[float | str, float | str],
    gpu: tuple[str, float | str | None],
) -> Cluster:
    nodes = parts.count("nodes", nodes)
    parts.size(f"nodes x {GPUS} = {nodes} x {GPUS}", devices=nodes * GPUS)
    between = parts.bandwidth("inter", inter)
    delay, network_delay = parts.latency("latency", latencies[0]), parts.latency("network_latency", latencies[1])
    places = ((f"node{n}.gpu{i}", f"node{n}") for n in range(nodes) for i in range(GPUS))
    devices = parts.devices(places, *gpu)
    nvlink, cable = machine.ports.nvlink, interconnects.pcie(machine.ports.pcie)
    links: list[Link] = []
    for node in (f"node{n}" for n in range(nodes)):
        for (a, b), count in (machine.mesh or {}).items():
            links.append(Link(f"{node}.gpu{a}", f"{node}.gpu{b}", count * nvlink, delay))
        links += [Link(f"{node}.gpu{i}", f"{node}.pcie{i // 2}", cable) for i in range(GPUS)]
        if nodes > 1:
            links += [Link(f"{node}.pcie{j}", f"{node}.nic{j}", cable) for j in range(GPUS // 2)]
            links += [Link(f"{node}.nic{j}", "core", between, network_delay) for j in range(GPUS // 2)]
    return Cluster("", devices, tuple(links))


dgx1_v100 = topology_of("dgx1_v100")
dgx_a100 = topology_of("dgx_a100")
hgx_h100 = topology_of("hgx_h100")
