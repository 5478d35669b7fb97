"""Dumps of pipelines, a JSON file per rank (pp_rank_0.json, ...), as Primus writes them for its viewer.

    {"1": {"total": 7555.9, "memory": 20.1, "fwd_start": [0.05, ...], "fwd_end": [...], "bwd_start": [...], ...},
     "2": ...}

Times are milliseconds since the rank began its forwards and backwards of the iteration. `fwd_minibatch` and `fwd_chunk`
state what each one is; without them the order is Megatron's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from pipesim.base import serialisation
from pipesim.base.arrays import Floats, Ints
from pipesim.base.checks import check_whole
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.base.units import LONGEST_NS
from pipesim.core.recorded_run import BACKWARD, FORWARD, INPUT, WEIGHT, RecordedRun
from pipesim.importers.compressed import beginning, read_inflated
from pipesim.importers.operations.operation_columns import OperationColumns, RunFacts
from pipesim.importers.operations.run_assembly import NO_FACTS, run_of_operations

_RANK = re.compile(r"rank_?(\d{1,6})\.json(\.gz)?")
_PHASES = ("fwd", "bwd", "wgrad")
_NS_PER_MS = 1e6
_SIZES = ("dp_size", "tp_size", "pp_size", "vp_size", "num_mbs")


@dataclass
class _DumpRows:
    """Columns under construction, a piece per phase of an iteration of a rank."""

    pieces: dict[str, list[Ints]] = field(default_factory=dict)

    def add(self, count: int, **columns: Ints | int) -> None:
        """Add rows; a number is that of all of them."""
        for name, value in columns.items():
            self.pieces.setdefault(name, []).append(np.broadcast_to(np.asarray(value, np.int64), count))

    def columns(self) -> dict[str, Any]:
        """All rows."""
        return {name: np.concatenate(parts) for name, parts in self.pieces.items()}


def is_dump(path: Path) -> bool:
    """Whether this is a folder of such files, or one of them, by its name and what its beginning has."""
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if _RANK.search(file.name))
        return bool(found) and is_dump(found[0])
    return bool(_RANK.search(path.name)) and '"fwd_start"' in beginning(path, 65536)


def pipeline_dump(path: Path | Sequence[Path], *, facts: RunFacts = NO_FACTS) -> RecordedRun:
    """The run in the dumps of its ranks, or in a folder of them with config.json."""
    files = _files([path] if isinstance(path, Path) else list(path))
    sizes = _sizes(files[0].parent / "config.json")
    chunks = sizes.get("vp_size") or 1
    found, notes = _DumpRows(), set[str]()
    seen: dict[int, str] = {}
    for place, file in enumerate(files):
        match = _RANK.search(file.name)
        rank = int(match[1]) if match else place
        with within(str(file)):
            if rank in seen:
                raise InputError(f"is of rank {rank}, as is {seen[rank]}; one file for each rank was expected")
            seen[rank] = file.name
            notes |= _add_rank(found, _document(file), rank, len(files), chunks)
    if not found.pieces:
        raise InputError(f"{files[0]}: no forwards and backwards found; lists such as fwd_start were expected")
    with within(str(files[0].parent)):
        columns = found.columns()
        operations = OperationColumns(
            **columns, name=columns["kind"], names=("forward", "backward", "input", "weight"), members=("",) * 4,
            position=columns["rank"], replica=np.zeros(len(columns["rank"]), np.int64),
        )  # fmt: skip
        stated = replace(facts, separate_clocks=True, notes=(*facts.notes, *sorted(notes)))
        return run_of_operations(operations, files[0].absolute().parent.name, stated)


def _files(paths: Sequence[Path]) -> list[Path]:
    """The dumps, also those in folders."""
    found: list[Path] = []
    for path in paths:
        found += sorted(file for file in path.iterdir() if _RANK.search(file.name)) if path.is_dir() else [path]
    if not found:
        raise InputError(f"{paths[0]}: has no files such as pp_rank_0.json; a dump for each rank was expected")
    return found


def _sizes(path: Path) -> dict[str, int]:
    """The sizes in config.json, if it is there."""
    if not path.is_file():
        return {}
    data = serialisation.read_data(path)
    with within(str(path)):
        return {name: check_whole(name, data[name], 1, 2**20) for name in _SIZES if name in data}


def _document(path: Path) -> Mapping[str, Any]:
    data = read_inflated(path)
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise FormatError(f"holds {shown(found)}; iterations by their number were expected")
    return found


def _add_rank(found: _DumpRows, iterations: Mapping[str, Any], rank: int, ranks: int, chunks: int) -> set[str]:
    """Add all iterations of a rank; returns what was assumed."""
    notes = set[str]()
    for number, iteration in iterations.items():
        if not re.fullmatch("[0-9]{1,9}", number) or not isinstance(iteration, dict):
            raise FormatError(f"{shown(number)}: {shown(iteration)} found; an iteration by its number was expected")
        with within(f"iteration {number}"):
            kinds = (FORWARD, INPUT if iteration.get("wgrad_start") else BACKWARD, WEIGHT)
            for phase, kind in zip(_PHASES, kinds, strict=True):
                start, end = (_ns(_times(iteration, f"{phase}_{edge}")) for edge in ("start", "end"))
                if len(start) != len(end):
                    raise InputError(f"{phase}: {len(start)} starts and {len(end)} ends found; as many were expected")
                chunk, microbatch = _places(iteration, phase, start, ranks, chunks)
                if len(start) and not iteration.get(f"{phase}_minibatch"):
                    notes.add("microbatches and chunks by Megatron's order of them")
                found.add(
                    len(start), step=int(number), rank=rank, kind=kind, start=start, end=end, chunk=chunk,
                    microbatch=microbatch,
                )  # fmt: skip
    return notes


def _times(iteration: Mapping[str, Any], name: str) -> Floats:
    """A list of milliseconds."""
    return _list(iteration, name, -LONGEST_NS / _NS_PER_MS, LONGEST_NS / _NS_PER_MS)


def _ns(milliseconds: Floats) -> Ints:
    return np.rint(milliseconds * _NS_PER_MS).astype(np.int64)


def _list(iteration: Mapping[str, Any], name: str, least: float, most: float) -> Floats:
    """A list of numbers in these limits; empty if it is not there."""
    values = iteration.get(name) or []
    if not isinstance(values, list):
        raise InputError(f"{name}: {shown(values)} found; a list was expected")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise InputError(f"{name}: {shown(value)} found; numbers from {least:.3g} to {most:.3g} were expected")
    return np.array(values, np.float64)


def _places(iteration: Mapping[str, Any], phase: str, start: Ints, ranks: int, chunks: int) -> tuple[Ints, Ints]:
    """Chunk and microbatch of each forward or backward of a rank.

    With two chunks and four ranks Megatron runs microbatches 0 to 3 of chunk 0, then of chunk 1, then 4 to 7 of chunk
    0, ...; backwards begin with the last chunk.
    """
    count = len(start)
    microbatch = _list(iteration, f"{phase}_minibatch", 0, 2**20).astype(np.int64)
    if len(microbatch):
        chunk = _list(iteration, f"{phase}_chunk", 0, 2**10).astype(np.int64)
        chunk = chunk if len(chunk) else np.zeros(count, np.int64)
        if not len(microbatch) == len(chunk) == count:
            raise InputError(f"{phase}: {count} times, {len(microbatch)} microbatches, {len(chunk)} chunks found")
        return chunk, microbatch
    at = np.zeros(count, np.int64)
    at[np.argsort(start, kind="stable")] = np.arange(count)
    inside = at % (ranks * chunks)
    chunk = inside // ranks
    chunk = chunk if phase == "fwd" else chunks - 1 - chunk
    return chunk, at // (ranks * chunks) * ranks + inside % ranks
