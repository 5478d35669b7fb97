"""Recorded links, as a folder.

links.toml       devices and their nodes, backend, machine, cores, command; results
transfers.csv    every sample, as in a trace; it can be in the folder of a trace
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pipesim.base import serialisation, tables
from pipesim.base.tables import Table
from pipesim.core.cluster import Device
from pipesim.core.trace import TRANSFER_COLUMNS

HEADER, TRANSFERS = "links.toml", "transfers.csv"
P2P, BOTH_WAYS, ALL_REDUCE = "p2p", "both_ways", "all_reduce"


@dataclass(frozen=True, slots=True)
class About:
    """The keys of links.toml."""

    FORMAT: ClassVar[str] = "pipesim.links"
    VERSION: ClassVar[int] = 1

    devices: tuple[Device, ...]
    backend: str
    machine: str
    command: str = ""
    not_measured: tuple[str, ...] = ()
    cores: str = ""  # which process was on which core
    found: tuple[str, ...] = ()  # how the cluster's capacities and duplexes were decided


@dataclass(frozen=True, slots=True, eq=False)
class RecordedLinks:
    """Recorded transfers, and where they were recorded."""

    about: About
    transfers: Table

    def save(self, folder: Path) -> None:
        """Write both files."""
        tables.write(folder / TRANSFERS, self.transfers)
        serialisation.save(self.about, folder / HEADER)

    @classmethod
    def load(cls, folder: Path) -> "RecordedLinks":
        """Read what `save` writes."""
        return cls(serialisation.load(About, folder / HEADER), tables.read(folder / TRANSFERS, TRANSFER_COLUMNS))
