"""What a search for the best layout found: the layouts that were simulated, and what became of all others."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipesim.base.settings import settings_of
from pipesim.display.text.formatting import FEW, seconds
from pipesim.display.text.tuning_text import tuning_columns, tuning_rows
from pipesim.studies.simulation import Simulation, defaults
from pipesim.studies.tuning.space import LayoutChoice


@dataclass(frozen=True, slots=True)
class TuningRow:
    """A layout that was simulated."""

    candidate: LayoutChoice
    simulation: Simulation
    blocks: tuple[int, ...] | None
    bound: float
    value: float  # what is minimised
    metrics: Mapping[str, Any]
    redone: tuple[int, ...] | None = None  # blocks of each stage that are done again, where not all or none are

    @property
    def iteration_time(self) -> float:
        """Seconds of the iteration."""
        return float(self.metrics["iteration_time_s"])

    @property
    def memory(self) -> int:
        """Bytes on the fullest GPU."""
        return int(self.metrics["peak_memory_bytes"])

    @property
    def command(self) -> str:
        """The command that simulates this layout; empty where a value was made in Python."""
        named = (self.simulation.trace, self.simulation.cluster)
        return command_of(self.simulation) if all(isinstance(one, str | Path | None) for one in named) else ""

    def as_data(self) -> dict[str, Any]:
        """Plain numbers and text."""
        one = self.candidate
        return {
            "tensor": one.widths or one.tensor,
            "pipeline": one.pipeline,
            "data": one.data,
            "interleave": one.interleave,
            "microbatch_size": one.microbatch_size,
            "sequence_parallel": one.sequence_parallel,
            "recompute": self.simulation.recompute,
            "recompute_blocks": None if self.redone is None else list(self.redone),
            "sharding": one.sharding,
            "scheduler": one.scheduler,
            "blocks": None if self.blocks is None else list(self.blocks),
            "kinds": one.kinds,
            "planner": one.planner or "megatron",
            "gpus": int(self.metrics["devices_in_plan"]),
            **self.metrics,
            "bound_s": self.bound,
            "value": self.value,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of all layouts of a space."""

    all: int
    memory: int
    bound: int
    refused: int
    simulated: int
    left: int

    def as_data(self) -> dict[str, int]:
        """By name."""
        return {name: getattr(self, name) for name in ("all", "memory", "bound", "refused", "simulated", "left")}


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The layouts of a search, the best first, and what became of the others."""

    rows: tuple[TuningRow, ...]
    counts: Counts
    objective: str
    certificate: float | None
    """Seconds that no layout of this space that fits has less of, whatever its cuts, chunks and schedule; None where
    the objective is no time."""
    origin: str
    notes: tuple[str, ...]
    refusals: tuple[str, ...]
    """Reasons for which layouts were refused, each once."""
    own_bound: float | None = None
    """Seconds that none of the layouts that were searched has less of, with their cuts, chunks and schedules."""

    def __repr__(self) -> str:
        best, counts = self.best.candidate, self.counts
        layout = f"TP {best.widths or best.tensor}, PP {best.pipeline}, DP {best.data}, {best.scheduler}"
        simulated = f"{counts.simulated:,} of {counts.all:,} layouts simulated"
        return f"{simulated}; the best is {layout}: {seconds(self.best.iteration_time)}"

    def _repr_html_(self) -> str:
        from pipesim.display import notebook  # noqa: PLC0415 - processes of a search show nothing

        data = self.as_data()
        table = notebook.records_table(tuning_columns(data), tuning_rows(data)[:FEW], bold=[0])
        return notebook.below(repr(self), table, len(self.rows) - FEW)

    @property
    def best(self) -> TuningRow:
        """The best layout."""
        return self.rows[0]

    @property
    def is_complete(self) -> bool:
        """Whether no layout was left out for the budget."""
        return self.counts.left == 0

    def gap(self, row: TuningRow) -> float | None:
        """By what part a layout is slower than the certificate."""
        return None if not self.certificate else row.iteration_time / self.certificate - 1

    def own_gap(self, row: TuningRow) -> float | None:
        """By what part a layout is slower than the bound of the layouts that were searched."""
        return None if not self.own_bound else row.iteration_time / self.own_bound - 1

    def front(self) -> tuple[TuningRow, ...]:
        """The simulated layouts than which none is both faster and smaller, the fastest first."""
        found: list[TuningRow] = []
        for row in sorted(self.rows, key=lambda row: (row.iteration_time, row.memory)):
            if not found or row.memory < found[-1].memory:
                found.append(row)
        return tuple(found)

    def frame(self) -> Any:  # noqa: ANN401 - pandas is untyped and slow to import
        """The rows as a pandas table."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        return pd.DataFrame([self._row(row) for row in self.rows])

    def _row(self, row: TuningRow) -> dict[str, Any]:
        return row.as_data() | {"layout_bound_s": self.certificate, "gap": self.gap(row), "own_gap": self.own_gap(row)}

    def as_data(self) -> dict[str, Any]:
        """Plain numbers and text, as `pipesim tune --json` prints them."""
        front = {id(row) for row in self.front()}
        return {
            "origin": self.origin,
            "notes": list(self.notes),
            "objective": self.objective,
            "counts": self.counts.as_data(),
            "refusals": list(self.refusals),
            "complete": self.is_complete,
            "layout_bound_s": self.certificate,
            "bound_s": self.own_bound,
            "rows": [self._row(row) | {"on_front": id(row) in front} for row in self.rows],
        }


def command_of(simulation: Simulation) -> str:
    """The words of `pipesim simulate` for a simulation of names and numbers."""
    found, plain, known = ["pipesim", "simulate"], defaults(), settings_of(Simulation)
    found += [str(value) for value in (simulation.trace, simulation.cluster) if value is not None]
    for name, about in known.items():
        value = getattr(simulation, name)
        if name in {"trace", "cluster"} or value == plain[name] or (name == "planner" and value == "megatron"):
            continue
        flag = about.flag or f"--{name.replace('_', '-')}"
        if about.kind is bool:
            found.append(flag if value else f"--no-{flag[2:]}")
        else:
            found += [flag, str(value)]
    return shlex.join(found)
