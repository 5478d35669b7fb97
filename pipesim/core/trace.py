"""Recorded times and sizes of the layers of a model, and of transfers; every sample is kept.

A trace is a folder: `trace.toml` has the origin of the recording, `layers.csv` (or `.parquet`) one row per layer,
device kind, microbatch size and sample, `transfers.csv` (optional) one row per timed transfer. In seconds and bytes.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pipesim.base import files, lookup, serialisation, tables
from pipesim.base.errors import InputError, UnknownNameError, within
from pipesim.base.shown_values import Displayed
from pipesim.base.tables import Table
from pipesim.core.teams import Widths
from pipesim.core.trace_tables import (
    ANY_KIND,
    JOINT,
    LAYER_COLUMNS,
    LONGEST_S,
    NO_INPUTS,
    TRANSFER_COLUMNS,
    WIDTHS,
    check_layers,
    check_samples,
    first_rows,
    parse_inputs,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ANY_KIND",
    "JOINT",
    "LAYER_COLUMNS",
    "NO_INPUTS",
    "TRANSFER_COLUMNS",
    "OptimizerStep",
    "Trace",
    "TraceHeader",
    "is_usual",
    "parse_inputs",
]

_ABOUT = ("model", "source", "microbatch_size", "machine", "command", "precision")
# Facts that a trace has beside times; left out of trace.toml where they have these values.
_FACTS: dict[str, Any] = {"sequence": 0, "sequence_parallel": False, "samples": "", "notes": ()}
# What it means that no layer has any of these bytes.
_LACKING = {
    "output_bytes": "transfers between stages will take no time",
    "parameter_bytes": "all-reduces and parameter memory will be left out",
    "stash_bytes": "activations will be left out of memory",
}
# Columns that are left out of a file where all rows have these values.
_USUAL = {"tensor": 1, "context": 1, "expert": 1, "core_stash_bytes": 0}


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """The cost of an optimizer step: seconds, and bytes of optimizer state, per byte of parameters."""

    name: str
    s_per_byte: float
    state_per_byte: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.s_per_byte <= LONGEST_S and 0 <= self.state_per_byte < 2.0**63):
            raise InputError(
                f"optimizer {self.name!r}: s_per_byte {self.s_per_byte}, state_per_byte {self.state_per_byte} found; "
                "finite numbers, not negative, were expected"
            )


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """The keys of trace.toml."""

    FORMAT: ClassVar[str] = "pipesim.trace"
    VERSION: ClassVar[int] = 1

    model: str
    source: str
    microbatch_size: int
    machine: str = ""
    command: str = ""
    precision: str = ""
    units: Literal["seconds, bytes"] = "seconds, bytes"
    sequence: int | None = None
    sequence_parallel: bool | None = None
    samples: str | None = None
    notes: tuple[str, ...] | None = None
    optimizers: tuple[OptimizerStep, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Displayed):
    """A recorded model: columns of layers, columns of transfers, and their origin; validated on construction."""

    FORMAT: ClassVar[str] = TraceHeader.FORMAT
    VERSION: ClassVar[int] = TraceHeader.VERSION

    model: str
    source: str
    microbatch_size: int
    layers: Table
    transfers: Table = field(default_factory=dict)
    machine: str = ""
    command: str = ""
    precision: str = ""
    optimizers: tuple[OptimizerStep, ...] = ()
    sequence: int = 0
    """Tokens of a sample; 0 where a sample is none, or where it is not known."""
    sequence_parallel: bool = False
    """Whether tensors between layers are divided over the GPUs of a team."""
    samples: str = ""
    """What rows with the same sample number have in common, in all layers: the `microbatch`, the `step`, or nothing
    that is known: they are repetitions."""
    notes: tuple[str, ...] = ()
    """What is not known or was assumed, in sentences: shown beside every result."""

    def __post_init__(self) -> None:
        if not 1 <= self.microbatch_size < 2**63:
            raise InputError(f"microbatch_size = {self.microbatch_size} found; 1 to 2^63 - 1 was expected")
        _check_optimizers(self.optimizers)
        if not 0 <= self.sequence < 2**63:
            raise InputError(f"sequence = {self.sequence} found; 0 (unknown) to 2^63 - 1 tokens were expected")
        layers = tables.checked(LAYER_COLUMNS, self.layers)
        size = layers["microbatch_size"]
        layers["microbatch_size"] = np.where(size == 0, self.microbatch_size, size)
        check_layers(layers)
        check_samples(self.samples, layers)
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "transfers", tables.checked(TRANSFER_COLUMNS, self.transfers))

    @property
    def layer_count(self) -> int:
        """Number of layers of the model."""
        return int(self.layers["layer"].max()) + 1

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """The device kinds that were timed, in order of first appearance."""
        return tuple(dict.fromkeys(self.layers["device_kind"]))

    @property
    def widths(self) -> tuple[Widths, ...]:
        """The widths that were timed, in order of first appearance."""
        rows = zip(*(self.layers[name].tolist() for name in WIDTHS), strict=True)
        return tuple(dict.fromkeys(Widths(*row) for row in rows))

    def rows_at(self, widths: Widths) -> NDArray[np.bool_]:
        """Which rows were timed at these widths."""
        at: NDArray[np.bool_] = np.ones(len(self.layers["layer"]), bool)
        for name, width in widths.by_name.items():
            at &= self.layers[name] == width
        return at

    def stated_at(self, tensor: int | None = None, context: int | None = None, expert: int | None = None) -> "Trace":
        """The same trace, stated to be timed at these widths; None leaves a width as it is."""
        rows = len(self.layers["layer"])
        given = {"tensor": tensor, "context": context, "expert": expert}
        columns = {name: np.full(rows, width) for name, width in given.items() if width is not None}
        return replace(self, layers=self.layers | columns) if columns else self

    @cached_property
    def lacking(self) -> tuple[str, ...]:
        """What was not recorded, and what that means for results, in sentences."""
        layers, found = self.layers, []
        for name, effect in _LACKING.items():
            if not layers[name].any():
                found.append(f"no layer has {name}: {effect}")
        whole = np.where(np.isnan(layers["backward_s"]), layers["backward_input_s"], layers["backward_s"])
        if not whole.any() and layers["forward_s"].any():
            found.append("the profile is forward only: backwards take no time")
        if ANY_KIND in self.device_kinds:
            found.append("times name no kind of device: they are used for devices of any kind")
        return tuple(found)

    def frame(self) -> "pd.DataFrame":
        """A row for each layer, device kind, microbatch size and sample."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        return pd.DataFrame(dict(self.layers))

    def optimizer(self, name: str) -> OptimizerStep:
        """The recorded optimizer of this name."""
        found = {step.name: step for step in self.optimizers}
        if name not in found:
            known = lookup.suggest(name, found) if found else "it has none"
            raise UnknownNameError(f"the trace of {self.model!r} has no optimizer {name!r}; {known}")
        return found[name]

    def inputs(self) -> list[tuple[int, ...] | None]:
        """The inputs of each layer; None where that is only the layer before."""
        first = first_rows(self.layers["layer"])
        return [parse_inputs(text, layer) for layer, text in enumerate(self.layers["inputs"][first])]

    def save(self, path: Path | str, suffix: Literal[".csv", ".parquet"] = ".csv") -> None:
        """Write the folder; an existing trace there is replaced."""
        header = TraceHeader(
            self.model,
            self.source,
            self.microbatch_size,
            self.machine,
            self.command,
            self.precision,
            optimizers=self.optimizers or None,
            **{name: value for name, usual in _FACTS.items() if (value := getattr(self, name)) != usual},
        )
        with files.atomic_folder(Path(path), "trace.toml") as folder:
            serialisation.save(header, folder / "trace.toml")
            tables.write(folder / f"layers{suffix}", _without_empty(self.layers))
            if len(self.transfers["bytes"]):
                tables.write(folder / f"transfers{suffix}", self.transfers)

    @classmethod
    def load(cls, path: Path | str) -> "Trace":
        """Read the folder that `save` writes."""
        folder = Path(path)
        header = serialisation.load(TraceHeader, folder / "trace.toml")
        layers_file = _table_file(folder, "layers")
        if layers_file is None:
            raise InputError(f"{folder}: has neither layers.csv nor layers.parquet")
        layers = tables.read(layers_file, LAYER_COLUMNS)
        transfers_file = _table_file(folder, "transfers")
        transfers = tables.read(transfers_file, TRANSFER_COLUMNS) if transfers_file else {}
        about: dict[str, Any] = {name: getattr(header, name) for name in _ABOUT}
        about |= {name: value for name in _FACTS if (value := getattr(header, name)) is not None}
        with within(str(layers_file)):
            return cls(layers=layers, transfers=transfers, optimizers=header.optimizers or (), **about)

    def same_as(self, other: "Trace") -> bool:
        """Whether both traces are equal."""
        return all(getattr(self, name) == getattr(other, name) for name in (*_ABOUT, *_FACTS, "optimizers")) and all(
            _same(mine[name], theirs[name])
            for mine, theirs in ((self.layers, other.layers), (self.transfers, other.transfers))
            for name in mine
        )


def is_usual(name: str, values: NDArray[Any]) -> bool:
    """Whether a column that traces of pipesim 0.1 did not have holds what it holds where nothing is stated."""
    if name in _USUAL:
        return bool((values == _USUAL[name]).all())
    return name == "core_recompute_s" and bool(np.isnan(values).all())


def _check_optimizers(optimizers: tuple[OptimizerStep, ...]) -> None:
    names = [step.name for step in optimizers]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"optimizers: duplicate name {double!r}")


def _table_file(folder: Path, stem: str) -> Path | None:
    return next(
        (folder / (stem + suffix) for suffix in (".csv", ".parquet") if (folder / (stem + suffix)).exists()), None
    )


def _without_empty(layers: Table) -> Table:
    """Leave out optional columns that were never recorded."""
    return {
        name: values
        for name, values in layers.items()
        if not (values.dtype.kind == "f" and len(values) and np.isnan(values).all()) and not is_usual(name, values)
    }


def _same(mine: NDArray[Any], theirs: NDArray[Any]) -> bool:
    return np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
