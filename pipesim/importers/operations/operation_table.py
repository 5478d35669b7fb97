"""Tables of operations, CSV (also gzip) or parquet, with any columns; a mapping or a preset states which holds what."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from pipesim.base import files, tables
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.base.tables import Array, Texts
from pipesim.core.recorded_run import KINDS, OTHER, RecordedRun
from pipesim.importers.compressed import beginning, read_inflated
from pipesim.importers.operations.column_mapping import (
    NUMBERS,
    PRESETS,
    TEXTS,
    TIME_UNITS,
    ColumnMapping,
    mapping_named,
)
from pipesim.importers.operations.operation_columns import Members, OperationColumns, RunFacts
from pipesim.importers.operations.run_assembly import NO_FACTS, run_of_operations

_LONGEST = 2.0**53  # whole numbers in columns of floats are exact up to here
_PARQUET = b"PAR1"
_HEADINGS = 65536  # bytes in which the first line of a table ends

Columns = dict[str, Array | Texts]


def operation_table(
    path: Path | Sequence[Path],
    *,
    columns: str | ColumnMapping | None = None,
    run: str | None = None,
    facts: RunFacts = NO_FACTS,
) -> RecordedRun:
    """The run in one table, or in several that are read as one.

    `columns` is a mapping, the name of a preset, or a .toml file; default: the preset whose columns the table has.
    `run` is which run to read from a table with several.
    """
    paths = [path] if isinstance(path, Path) else list(path)
    mapping = _mapping(columns, paths[0])
    parts = [_roles(one, mapping) for one in paths]
    with within(str(paths[0])):
        found = parts[0] if len(parts) == 1 else {role: _joined([part[role] for part in parts]) for role in parts[0]}
        found, title = _of_run(found, run, paths[0])
        operations, notes = _operations(found, mapping)
        separate = mapping.separate_clocks or facts.separate_clocks
        about = replace(facts, separate_clocks=separate, notes=(*facts.notes, *notes))
        return run_of_operations(operations, title, about)


def preset_for(path: Path) -> str | None:
    """The preset whose columns a table has, if there is one; None too for what is no table."""
    try:
        found = _headings(path)
    except InputError:
        return None
    return next((name for name, mapping in PRESETS.items() if mapping.fits(found)), None)


def _mapping(columns: str | ColumnMapping | None, path: Path) -> ColumnMapping:
    """The mapping that was asked for, or the preset that fits."""
    if columns is not None:
        return columns if isinstance(columns, ColumnMapping) else mapping_named(columns)
    headings = _headings(path)
    found = next((mapping for mapping in PRESETS.values() if mapping.fits(headings)), None)
    if found is None:
        raise InputError(
            f"{path}: has the columns {shown(', '.join(headings))}, which no preset knows ({', '.join(PRESETS)}); "
            "state what they hold with --columns FILE.toml"
        )
    return found


# --- reading ---------------------------------------------------------------------------------------------------------


def _headings(path: Path) -> list[str]:
    """The headings of a table."""
    if files.read_bytes(path, len(_PARQUET)) == _PARQUET:
        return tables.headings_of_parquet(path)
    first = beginning(path, _HEADINGS).partition("\n")[0].strip()
    if not first or not first.isprintable():
        raise FormatError(f"{path}: is no table: a first line with headings was expected")
    return [cell.strip().strip('"') for cell in first.split(",")]


def _roles(path: Path, mapping: ColumnMapping) -> Columns:
    """What operations have, by its role, from the columns of a file."""
    headings = _headings(path)
    for role, heading in mapping.columns.items():
        if heading not in headings:
            raise InputError(f"{path}: no column {shown(heading)} (for {role}); found {shown(', '.join(headings))}")
    texts = {heading for role, heading in mapping.columns.items() if role in TEXTS}
    wanted = list(dict.fromkeys(mapping.columns.values()))
    is_parquet = files.read_bytes(path, len(_PARQUET)) == _PARQUET
    found = tables.read_arrays(path, wanted, texts) if is_parquet else _read_csv(path, wanted, texts)
    with within(str(path)):
        if not len(cast("Array", found[mapping.columns["step"]])):
            raise InputError("no operations found; a row for each was expected")
        read: Columns = {}
        for role, heading in mapping.columns.items():
            column = found[heading]
            if role in TEXTS:
                read[role] = column
            elif role in NUMBERS:
                read[role] = _whole(heading, column)
            else:
                read[role] = _numbers(heading, column)
        return read


def _read_csv(path: Path, wanted: Sequence[str], texts: set[str]) -> Columns:
    """These columns of a CSV file."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    data = read_inflated(path)
    with within(str(path)):
        try:
            # All columns are read, although few are wanted: with `usecols`, rows with too many cells are cut silently.
            frame = pd.read_csv(io.BytesIO(data), dtype=dict.fromkeys(texts, "category"), skipinitialspace=True)
        except (ValueError, OverflowError, pd.errors.ParserError) as error:
            raise FormatError(f"is not a readable table: {' '.join(str(error).split())[:200]}") from None
        if isinstance(frame.index, pd.MultiIndex) or not isinstance(frame.index, pd.RangeIndex):
            raise FormatError("is not a readable table: rows have more cells than there are headings")
        found: Columns = {}
        for name in wanted:
            if name in texts:
                values = tuple(str(value) for value in frame[name].cat.categories)
                found[name] = Texts(frame[name].cat.codes.to_numpy().astype(np.int64), values)
            else:
                found[name] = frame[name].to_numpy()
        return found


def _numbers(heading: str, column: Array | Texts) -> Array:
    """A column of numbers; a text among them is refused with its row."""
    values = cast("Array", column)
    if values.dtype.kind in "iuf":
        return values
    wrong = next((row for row, value in enumerate(values.tolist()) if not isinstance(value, int | float)), 0)
    what = shown(values[wrong]) if len(values) else "nothing"
    raise InputError(f"column {heading!r}: row {wrong}: {what} found; a number was expected")


def _whole(heading: str, column: Array | Texts) -> Ints:
    """A column of whole numbers; missing ones are -1."""
    values = _numbers(heading, column)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1.0, values.astype(np.float64))
        wrong = (np.abs(values) > _LONGEST) | (np.floor(values) != values)
    else:
        wrong = values > np.uint64(np.iinfo(np.int64).max) if values.dtype.kind == "u" else np.zeros(len(values), bool)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"column {heading!r}: row {at}: {values[at]} found; a whole number was expected")
    return values.astype(np.int64)


def _joined(parts: Sequence[Array | Texts]) -> Array | Texts:
    """Columns of several files, one after the other."""
    if not isinstance(parts[0], Texts):
        return np.concatenate(cast("list[Array]", list(parts)))
    texts = cast("list[Texts]", list(parts))
    place = {value: at for at, value in enumerate(dict.fromkeys(value for part in texts for value in part.values))}
    codes = [np.array([*(place[value] for value in part.values), -1], np.int64)[part.codes] for part in texts]
    return Texts(np.concatenate(codes), tuple(place))


def _of_run(found: Columns, run: str | None, path: Path) -> tuple[Columns, str]:
    """The rows of one run, and a name for it."""
    title = path.name.partition(".")[0]
    runs = found.get("run")
    if not isinstance(runs, Texts):
        if run is not None:
            raise InputError(f"run = {shown(run)} found, and no column that states which run an operation is of")
        return found, title
    present = [runs.values[code] for code in np.unique(runs.codes).tolist() if code >= 0]
    if run is None and len(present) == 1:
        run = present[0]
    if run is None or run not in present:
        raise InputError(
            f"run = {shown(run)} found; one of {shown(', '.join(present))} was expected: one of them is read"
        )
    rows = runs.codes == runs.values.index(run)
    kept: Columns = {
        role: Texts(column.codes[rows], column.values) if isinstance(column, Texts) else column[rows]
        for role, column in found.items()
    }
    return kept, run


# --- meaning ---------------------------------------------------------------------------------------------------------


def _operations(found: Columns, mapping: ColumnMapping) -> tuple[OperationColumns, tuple[str, ...]]:
    """Operations in columns, and what is to be noted."""
    operation = cast("Texts", found["operation"])
    kinds, notes = _kinds(operation, mapping)
    name = cast("Texts", found.get("name", operation))
    names, code = (*name.values, ""), np.where(name.codes < 0, len(name.values), name.codes)
    start = _ns(found["start"], mapping)
    end = _ns(found["end"], mapping) if "end" in found else start + _ns(found["duration"], mapping)
    members: dict[int, Members] = {}
    for at, value in enumerate(operation.values):
        known = mapping.kind(value)
        members |= {int(one): known[1] for one in np.unique(code[operation.codes == at])} if known and known[1] else {}
    others = {
        role: cast("Ints", found[role])
        for role in ("position", "replica", "chunk", "stage", "microbatch", "order", "match")
        if role in found
    }
    size = cast("Floats", found["bytes"]).astype(np.float64) if "bytes" in found else None
    return OperationColumns(
        step=cast("Ints", found["step"]), rank=cast("Ints", found["rank"]), kind=kinds, name=code, names=names,
        start=start, end=end, members=tuple(members.get(at, "") for at in range(len(names))), size=size, **others,
    ), notes  # fmt: skip


def _kinds(operation: Texts, mapping: ColumnMapping) -> tuple[Ints, tuple[str, ...]]:
    """The kind of each operation; those that nothing states are `other`, and noted."""
    if (operation.codes < 0).any():
        row = int(np.argmax(operation.codes < 0))
        raise InputError(
            f"column {mapping.columns['operation']!r}: row {row}: nothing found; an operation was expected"
        )
    found = np.array([OTHER if (kind := mapping.kind(value)) is None else kind[0] for value in operation.values])
    count = np.bincount(operation.codes, minlength=len(operation.values))
    unknown = [value for at, value in enumerate(operation.values) if mapping.kind(value) is None and count[at]]
    if len(unknown) == np.count_nonzero(count):
        raise InputError(
            f"column {mapping.columns['operation']!r}: {shown(', '.join(unknown[:5]))} found; state in [operations] "
            f"which of these are {', '.join(KINDS[:4])}, ..."
        )
    notes = (f"operations without a stated kind count as other: {', '.join(unknown[:5])}",) if unknown else ()
    return found.astype(np.int64)[operation.codes], notes


def _ns(column: Array | Texts, mapping: ColumnMapping) -> Ints:
    """Whole nanoseconds; exact where a record has whole numbers."""
    values, scale = cast("Array", column), TIME_UNITS[mapping.time_unit]
    limit = 2.0**62 / scale
    if not (np.abs(values.astype(np.float64)) < limit).all():
        at = int(np.argmin(np.abs(values.astype(np.float64)) < limit))
        raise InputError(
            f"row {at}: the time {values[at]} {mapping.time_unit} found; a finite one, below 146 years, was expected"
        )
    if values.dtype.kind in "iu":
        return values.astype(np.int64) * int(scale)
    return np.rint(values.astype(np.float64) * scale).astype(np.int64)


def table_of_run(run: RecordedRun) -> Mapping[str, Array]:
    """The run as a table that the preset `pipesim` reads."""
    kinds, names = np.array(KINDS, object), np.array(run.names, object)
    return {
        "step": np.array(run.steps)[run.step],
        "rank": np.array(run.ranks)[run.rank],
        "replica": run.replica[run.rank],
        "position": run.position[run.rank],
        "kind": kinds[run.kind],
        "name": names[run.name],
        "stage": run.stage,
        "microbatch": run.microbatch,
        "match": run.match,
        "start_ns": run.start,
        "end_ns": run.end,
        "bytes": run.size,
    }
