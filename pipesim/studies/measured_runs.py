"""Measured runs that ship with pipesim, each beside its simulation: data/measured_runs.csv.

`python experiments/validation/run.py` writes the file, from its own rows and those of other experiments.
"""

import csv
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pipesim.core.costs import Basis

FILE = Path(__file__).parent / "data" / "measured_runs.csv"

Tier = Literal["a", "b", "c", "d", "e"]
TIERS: tuple[Tier, ...] = get_args(Tier)


@dataclass(frozen=True, slots=True)
class ShippedRun:
    """A measured time beside the simulated one."""

    tier: Tier
    source: str
    group: str
    """Rows of the source that are scored together."""
    id: str
    table: str
    """Rows of the source that are ranked beside each other."""
    choice: str
    """Rows between which a user would choose: the same work on the same devices."""
    device: str
    framework: str
    basis: Basis
    gpus: int
    tensor: int
    tolerance: float
    """How exact the measured time is: noise of repeats, and rounding."""
    measured_s: float
    simulated_s: float
    other_s: float | None = None
    """What another simulator published for this row."""

    @property
    def error(self) -> float:
        """Simulated / measured - 1."""
        return self.simulated_s / self.measured_s - 1

    @property
    def data_set(self) -> str:
        """Source and group."""
        return f"{self.source}, {self.group}" if self.group else self.source


NAMES = tuple(field.name for field in fields(ShippedRun))


@lru_cache(maxsize=1)
def shipped() -> tuple[ShippedRun, ...]:
    """All rows of the file."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_run(row) for row in csv.DictReader(file))


def _run(row: dict[str, str]) -> ShippedRun:
    cells: dict[str, Any] = dict(row)
    for name in ("gpus", "tensor"):
        cells[name] = int(row[name])
    for name in ("tolerance", "measured_s", "simulated_s"):
        cells[name] = float(row[name])
    return ShippedRun(**cells | {"other_s": float(row["other_s"]) if row["other_s"] else None})


def write(runs: "list[ShippedRun] | tuple[ShippedRun, ...]", path: Path = FILE) -> None:
    """The file with these rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(NAMES)
        writer.writerows([_cell(getattr(run, name)) for name in NAMES] for run in runs)


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
