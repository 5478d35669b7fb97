"""Different machines, and the network between them, in one TOML or JSON file.

format = "pipesim.machines"
version = 1

[[nodes]]
file = "dgx1.txt"         # nvidia-smi topo -m, or an NCCL topology dump; or text = '''...''' in its place
count = 2
device = "v100-16gb"      # and what else `Choices` has: memory, nvlink, pcie, between_cpus, nics, ...

[fabric]
topology = "rails"        # and what else `Fabric` has: bandwidth, latency, uplink, spines, nodes_per_leaf
bandwidth = "100 Gb/s"
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar

from pipesim.base import files, serialisation
from pipesim.base.errors import InputError, within
from pipesim.core.cluster import Cluster
from pipesim.topologies import nccl_xml, nvidia_smi, parts
from pipesim.topologies.hosts.choices import Choices
from pipesim.topologies.hosts.machine import Machine
from pipesim.topologies.hosts.network_fabric import NetworkFabric, cluster_of


@dataclass(frozen=True, slots=True)
class Nodes(Choices):
    """`count` machines, described by one file or one text."""

    file: str = ""
    text: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.text):
            raise InputError(f"{'both file and' if self.file else 'neither file nor'} text found; one was expected")
        parts.count("count", self.count)
        if self.file:
            parts.path("file", self.file)


@dataclass(frozen=True, slots=True)
class Machines:
    """The file."""

    FORMAT: ClassVar[str] = "pipesim.machines"
    VERSION: ClassVar[int] = 1

    nodes: tuple[Nodes, ...]
    fabric: NetworkFabric = field(default_factory=NetworkFabric)
    name: str = ""

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InputError("nodes: none found; at least one was expected")
        parts.size("nodes: the sum of all counts", devices=sum(nodes.count for nodes in self.nodes))


def read(path: Path, data: serialisation.Data) -> Cluster:
    """The cluster of a file with these data. Other files are relative to its folder."""
    with within(str(path)):
        serialisation.check_header(data, Machines.FORMAT, Machines.VERSION)
        made = serialisation.from_data(Machines, {key: data[key] for key in data if key not in serialisation.HEADER})
        places = []
        for i, nodes in enumerate(made.nodes):
            with within(f"nodes[{i}]"):
                machine = _machine(nodes, path.parent)
                places += [nodes.placed(machine)] * nodes.count
        return cluster_of(made.name or path.stem, places, made.fabric)


def _machine(nodes: Nodes, folder: Path) -> Machine:
    choices = Choices(**{each.name: getattr(nodes, each.name) for each in fields(Choices)})
    if nodes.file:
        with within("file"):
            return machine_in(folder / nodes.file, choices)
    with within("text"):
        return _machine_of(nodes.text.encode("utf-8", "surrogatepass"), choices)


def machine_in(path: Path, choices: Choices) -> Machine:
    """The machine in a file of either format."""
    data = files.read_bytes(path)
    if is_xml(data):
        with within(str(path)):
            return nccl_xml.machine_of(data, choices)
    text = files.decoded(path, data)
    with within(str(path)):
        return nvidia_smi.machine_of(text, choices)


def _machine_of(data: bytes, choices: Choices) -> Machine:
    return nccl_xml.machine_of(data, choices) if is_xml(data) else nvidia_smi.machine_of(data.decode(), choices)


def is_xml(data: bytes) -> bool:
    """Whether this begins as XML does."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
