"""The user's additions to the description of a machine: kind, rates, memory, NICs on the network."""

from collections.abc import Callable, Mapping
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
    """Options of `nvidia_smi` and `nccl_xml`, and keys of a file of machines; None: as in the description."""

    device: str | None = None
    memory: float | None = _quantity(units.size)
    nvlink: float | None = _quantity(units.bandwidth)
    pcie: float | None = _quantity(units.bandwidth)
    between_bridges: float | None = _quantity(units.bandwidth)
    between_cpus: float | None = _quantity(units.bandwidth)
    nics: tuple[str, ...] | None = None
    latency: float = field(default=MICROSECOND, metadata={"parse": units.duration})

    def rates(self, kind: str, cpus: float = interconnects.UPI) -> LinkRates:
        """Bytes/s of each class of link, for a kind of GPU; `cpus`: the default between CPUs."""
        return interconnects.rates_of(
            kind,
            nvlink=self.nvlink,
            pcie_=self.pcie,
            between_bridges=self.between_bridges,
            between_cpus=self.between_cpus,
            cpus=cpus,
        )

    def kind(self, guessed: str | None) -> str:
        """The kind of GPU, or an error that explains how to name it."""
        if self.device is None and guessed is None:
            raise InputError(
                "does not contain the kind of its GPUs, which cannot be guessed either; name the kind, as in "
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
                raise InputError(f"nics: unknown NIC {shown(nic)}; {lookup.suggest(str(nic), list(machine.nics))}")
        return tuple(self.nics)


def repeated(machine_in: Callable[[Path, Choices], Machine], given: Mapping[str, Any]) -> Cluster:
    """A cluster of equal machines, which `machine_in` reads, from the arguments of `nvidia_smi` or `nccl_xml`."""
    path, inter = parts.path("file", given["file"]), given["inter"]
    bandwidth = None if inter is None else parts.bandwidth("inter", inter)
    fabric = NetworkFabric("core", bandwidth, parts.latency("network_latency", given["network_latency"]))
    choices = _chosen(given)
    machine = machine_in(path, choices)
    nodes = parts.count("nodes", given["nodes"])
    each = len(machine.gpus)
    parts.size(f"nodes x GPUs = {nodes} x {each}", devices=nodes * each)
    return cluster_of(f"{path.stem or path.name}-{nodes}", [choices.placed(machine)] * nodes, fabric)


def _chosen(given: Mapping[str, Any]) -> Choices:
    """Choices from the arguments of a topology; `kind` is another name for `device`."""
    device, kind, memory = given["device"], given["kind"], given["memory"]
    if device is not None and kind is not None:
        raise InputError(f"device = {shown(device)} and kind = {shown(kind)} found; only one of them was expected")
    rates = {name: given[name] for name in ("nvlink", "pcie", "between_bridges", "between_cpus")}
    return Choices(
        device if kind is None else kind,
        memory if memory is None else parts.memory_of(memory),
        nics=given["nics"],
        latency=parts.latency("latency", given["latency"]),
        **{name: None if value is None else parts.bandwidth(name, value) for name, value in rates.items()},
    )
