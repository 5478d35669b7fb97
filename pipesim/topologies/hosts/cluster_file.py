"""A cluster from a file of any format that pipesim reads.

.toml, .json    a cluster (format "pipesim.cluster"), or machines and their network ("pipesim.machines")
others          the text of `nvidia-smi topo -m`, or an NCCL topology dump, for one machine
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from pipesim.base import files, serialisation
from pipesim.base.errors import within
from pipesim.core.cluster import Cluster
from pipesim.topologies.hosts import machines
from pipesim.topologies.hosts.choices import Choices
from pipesim.topologies.hosts.network_fabric import NetworkFabric, cluster_of

SUFFIXES = (".toml", ".json", ".txt", ".xml")
# Bytes of a description that are searched to recognise it.
_BEGINNING = 65536


def is_file(text: str, names: Collection[str]) -> bool:
    """Whether this is the path of a cluster file, rather than one of these names or an expression."""
    if text in names or "(" in text:
        return text.endswith((".toml", ".json"))
    with suppress(OSError):  # too long for the name of a file
        return text.endswith(SUFFIXES) or (":" not in text and Path(text).is_file())
    return False


def describes_machine(path: Path) -> bool:
    """Whether a file that is neither TOML nor JSON is a machine: a line with names of GPUs, or XML with a <system>."""
    data = files.read_bytes(path, _BEGINNING)
    if machines.is_xml(data):
        return b"<system" in data
    return b"GPU0" in data


def load(path: Path) -> Cluster:
    """The cluster in a file."""
    if path.suffix not in {".toml", ".json"}:
        choices = Choices()
        machine = machines.machine_in(path, choices)
        with within(str(path)):
            return cluster_of(path.stem or path.name, [choices.placed(machine)], NetworkFabric())
    data = serialisation.read_data(path)
    if data.get("format") == machines.Machines.FORMAT:
        return machines.read(path, data)
    return serialisation.load(Cluster, path)
