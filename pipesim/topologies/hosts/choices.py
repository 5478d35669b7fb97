"""What the user says of a machine that its own description does not: kind, rates, memory, NICs on the network."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipesim.base import lookup, units
from pipesim.base.errors import InputError, shown
from pipesim.core.cluster import Cluster
from pipesim.topologies import parts
from pipesim.topologies.hosts import interconnects
from pipesim.topologies.hosts.interconnects import LinkRates
from pipesim.topologies.hosts.machine import Machine
from pipesim.topologies.hosts.network_fabric import MICROSECOND, NetworkFabric, Placed, cluster_of


def _quantity(parse: Any) -> Any:  # noqa: ANN401 - a field of a dataclass
    return field(default=None, metadata={"parse": parse})


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of `nvidia_smi` and `nccl_xml`, and keys of a file of machines; None: as the description says."""

    device: str | None = None
    memory: float | None = _quantity(units.size)
    nvlink: float | None = _quantity(units.bandwidth)
    pcie: float | None = _quantity(units.bandwidth)
    between_bridges: float | None = _quantity(units.bandwidth)
    between_cpus: float | None = _quantity(units.bandwidth)
    nics: tuple[str, ...] | None = None
    latency: float = field(default=MICROSECOND, metadata={"parse": units.duration})

    def rates(self, kind: str, cpus: float = interconnects.UPI) -> LinkRates:
        """Bytes/s of each class of link, for GPUs of a kind at CPUs that are so joined."""
        return interconnects.rates_of(
            kind,
            nvlink=self.nvlink,
            pcie_=self.pcie,
            between_bridges=self.between_bridges,
            between_cpus=self.between_cpus,
            cpus=cpus,
        )

    def kind(self, guessed: str | None) -> str:
        """The kind of GPU, or an error that says how to name it."""
        if self.device is None and guessed is None:
            raise InputError(
                "does not say of which kind its GPUs are, and nothing in it tells; name the kind, as in "
                "nvidia_smi('topo.txt', device='a100-80gb') or nccl_xml('topo.xml', device='a100-80gb'), or in a file "
                "of machines device = 'a100-80gb'"
            )
        kind = guessed if self.device is None else self.device
        parts.devices((), kind, self.memory)  # type: ignore[arg-type]  # checked there, whatever it is
        return kind  # type: ignore[return-value]  # None was refused just above

    def placed(self, machine: Machine) -> Placed:
        """The machine in a cluster."""
        nics = tuple(machine.nics) if self.nics is None else self._named(machine)
        return Placed(machine, nics, self.memory, self.latency)

    def _named(self, machine: Machine) -> tuple[str, ...]:
        if not isinstance(self.nics, list | tuple) or not self.nics or len(set(map(repr, self.nics))) < len(self.nics):
            raise InputError(f"nics: {shown(self.nics)} found; a list of NICs, each once, was expected")
        for nic in self.nics:
            if not isinstance(nic, str) or nic not in machine.nics:
                raise InputError(f"nics: no NIC is called {shown(nic)}; {lookup.suggest(str(nic), list(machine.nics))}")
        return tuple(self.nics)


def chosen(
    device: str | None,
    kind: str | None,
    *,
    latency: float | str,
    nics: Any,  # noqa: ANN401 - what was passed is anything
    memory: float | str | None,
    **rates: float | str | None,
) -> Choices:
    """Choices from the arguments of a topology; `kind` is another word for `device`."""
    if device is not None and kind is not None:
        raise InputError(f"device: {shown(device)} and kind: {shown(kind)} found; one of both was expected")
    bandwidths = {name: None if value is None else parts.bandwidth(name, value) for name, value in rates.items()}
    return Choices(
        device if kind is None else kind,
        memory if memory is None else parts.memory_of(memory),
        nics=nics,
        latency=parts.latency("latency", latency),
        **bandwidths,
    )


def repeated(path: Path, machine: Machine, nodes: Any, choices: Choices, fabric: NetworkFabric) -> Cluster:  # noqa: ANN401 - checked here
    """A cluster of machines that are all alike."""
    nodes = parts.count("nodes", nodes)
    each = len(machine.gpus)
    parts.size(f"nodes x GPUs = {nodes} x {each}", devices=nodes * each)
    return cluster_of(f"{path.stem or path.name}-{nodes}", [choices.placed(machine)] * nodes, fabric)
