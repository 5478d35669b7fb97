"""Plain CSV with one row per layer and any headings; an option maps headings to columns of a trace."""

import csv
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import files, lookup, units
from pipesim.base.checks import check_not_negative, check_whole
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.base.tables import Table
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import LAYER_COLUMNS, Trace
from pipesim.importers.detect import first_line

KNOWN = {column.name: column for column in LAYER_COLUMNS}
_TIME = re.compile(r"(\w+)_(ms|us|ns)")
_TEXTS = {name for name, column in KNOWN.items() if column.type is str}
_TIMES = {name for name in KNOWN if name.endswith("_s")}
_SIZES = {name for name in KNOWN if name.endswith("_bytes")}
_LAYER_NAME = "layer {}"


def is_table(_: bytes, text: str) -> bool:
    """Whether the first line has a heading for the time of the forward."""
    headings = {cell.strip().strip('"') for cell in first_line(text).split(",")}
    return bool(headings & {f"forward_{unit}" for unit in ("s", "ms", "us", "ns")})


@ImporterInfo(
    recognises=is_table,
    otherwise="has no heading such as 'forward_s' or 'forward_ms'",
    example={
        "times.csv": (
            'name,forward_ms,backward_ms,output_bytes,inputs,sample\n"conv, 3x3",1.5,2.5,4096,,0\nfc,0.5,1,100,0,0'
        )
    },
)
def csv_table(
    path: Path | Sequence[Path],
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str = "s",
    size_unit: str = "B",
    delimiter: str = ",",
    samples: int = 1,
    backward_factor: float | None = None,
    output_bytes: int | str = 0,
) -> Trace:
    """The trace in a table with a heading.

    `columns` maps columns of a trace (forward_s, backward_s, output_bytes, name, ...) to headings of the table:
    `columns={"forward_s": "fwd time"}`, times in `time_unit` and sizes in `size_unit`. Headings with the name of a
    column of a trace need not be mapped; of these, forward_ms, forward_us and the like are in the unit they name. Other
    columns are ignored. Without a column for the layer, rows are numbered in order, from 0 for each device kind,
    microbatch size and sample. Several files are read as one. Without a column for the backward, it is
    `backward_factor` times the forward; without one for the output, it is `output_bytes`.
    """
    _check_options(delimiter, samples, backward_factor)
    with within("output_bytes"):
        outputs = round(min(units.size(output_bytes), 2.0**62))
    scales = {"time": _unit(units.duration, "time", time_unit), "size": _unit(units.size, "size", size_unit)}
    wanted = _mapping(columns or {})
    paths = [path] if isinstance(path, Path) else list(path)
    tables = [_read(one, wanted, scales, delimiter) for one in paths]
    with within(str(paths[0])):
        table = _joined(paths, tables)
        return Trace(paths[0].stem, "csv", samples, _completed(table, backward_factor, outputs))


def _check_options(delimiter: str, samples: int, backward_factor: float | None) -> None:
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise InputError(f"delimiter = {shown(delimiter)} found; one character such as ',' or ';' was expected")
    check_whole("samples", samples)
    if backward_factor is not None:
        check_not_negative("backward_factor", backward_factor)


def _unit(read: Callable[[str], float], what: str, name: str) -> float:
    if not name.isalpha():
        example = "'s' or 'ms'" if what == "time" else "'B' or 'MB'"
        raise InputError(f"{what}_unit = {shown(name)} found; a unit such as {example} was expected")
    return read(f"1{name}")


def _mapping(columns: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(columns, Mapping):
        raise InputError(f"columns = {shown(columns)} found; a mapping such as {{'forward_s': 'fwd'}} was expected")
    for name, heading in columns.items():
        if name not in KNOWN:
            raise InputError(f"columns: a trace has no {shown(name)}; {lookup.suggest(str(name), list(KNOWN))}")
        if not isinstance(heading, str):
            raise InputError(f"columns: {name}: {shown(heading)} found; a heading was expected")
    return dict(columns)


# --- one file --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a trace: its position in the file, the factor for its numbers, and its values."""

    name: str
    at: int
    heading: str
    scale: float = 1.0
    numbers: "array[float]" = field(default_factory=lambda: array("d"))
    texts: list[str] = field(default_factory=list)


def _read(path: Path, wanted: dict[str, str], scales: Mapping[str, float], delimiter: str) -> list[_Column]:
    text = files.read_text(path, files.RECORDING)
    with within(str(path)):
        reader = csv.reader(_lines(text), delimiter=delimiter, strict=True)
        try:
            header = next((row for row in reader if row), None)
            if header is None:
                raise FormatError("is empty; a line with the headings was expected")
            found = _found([heading.strip() for heading in header], wanted, scales)
            for row in reader:
                if row:
                    _add(found, row, len(header), reader.line_num)
        except csv.Error as error:
            raise FormatError(f"line {reader.line_num}: is not CSV: {error}") from None
        if not any(column.numbers for column in found):
            raise FormatError("has no rows below its headings; one per layer was expected")
        return found


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, each with its line break."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _found(header: list[str], wanted: dict[str, str], scales: Mapping[str, float]) -> list[_Column]:
    """The columns of a trace in the file: those that are mapped, then those with the names of a trace."""
    times = Counter(header)
    found = []
    for name, heading in wanted.items():
        if heading not in header:
            raise FormatError(f"columns: {name}: no heading {shown(heading)}; {lookup.suggest(heading, header)[:300]}")
        scale = scales["time"] if name in _TIMES else scales["size"] if name in _SIZES else 1.0
        found.append(_Column(name, header.index(heading), heading, scale))
    taken = {column.at for column in found}
    for at, heading in enumerate(header):
        name, scale = _own_name(heading)
        if at not in taken and name in KNOWN and name not in wanted:
            found.append(_Column(name, at, heading, scale))
    twice = next((column.heading for column in found if times[column.heading] > 1), None)
    if twice is not None:
        raise FormatError(f"duplicate heading {shown(twice)}")
    names = [column.name for column in found]
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        headings = ", ".join(repr(column.heading) for column in found if column.name == again)
        raise FormatError(f"{again}: the headings {headings} are both for it; choose one with columns=...")
    if "forward_s" not in names:
        raise FormatError(
            f"no column for forward_s; name it with columns={{'forward_s': ...}}; found {', '.join(header)[:300]}"
        )
    return found


def _own_name(heading: str) -> tuple[str, float]:
    """The column of a trace for a heading that names its unit, and the seconds of that unit."""
    timed = _TIME.fullmatch(heading)
    if timed and f"{timed[1]}_s" in _TIMES:
        return f"{timed[1]}_s", units.duration(f"1{timed[2]}")
    return heading, 1.0


def _add(found: list[_Column], row: list[str], width: int, line: int) -> None:
    if len(row) != width:
        raise FormatError(f"line {line}: {len(row)} cells found; {width} were expected, as in the heading")
    for column in found:
        cell = row[column.at].strip()
        if column.name in _TEXTS:
            if not cell.isprintable():
                raise FormatError(f"line {line}: {column.heading}: {shown(cell)} found; text in one line was expected")
            column.texts.append(cell)
        else:
            column.numbers.append(_number(cell, column, line))


def _number(cell: str, column: _Column, line: int) -> float:
    default = KNOWN[column.name].default
    if not cell and default is not None:
        return float(default)
    whole = KNOWN[column.name].type is int
    try:
        number = units.number(cell) * column.scale
    except ValueError:
        number = -1.0
    if not 0 <= number < (2**63 if whole else np.inf):
        raise FormatError(
            f"line {line}: {column.heading}: {shown(cell)} found; a finite number, not negative, was expected"
        )
    if whole and column.name not in _SIZES and number % 1:
        raise FormatError(f"line {line}: {column.heading}: {shown(cell)} found; a whole number was expected")
    return round(number) if whole else number


# --- all files -------------------------------------------------------------------------------------------------------


def _joined(paths: Sequence[Path], tables: Sequence[list[_Column]]) -> Table:
    """The rows of all files, one after the other."""
    names = {column.name for column in tables[0]}
    for path, table in zip(paths, tables, strict=True):
        if (others := {column.name for column in table}) != names:
            differing = ", ".join(sorted(others ^ names))
            raise FormatError(f"{path}: columns for {differing} are in one file and not in the other, {paths[0]}")
    joined: Table = {}
    for name in (column.name for column in tables[0]):
        columns = [next(column for column in table if column.name == name) for table in tables]
        if name in _TEXTS:
            joined[name] = np.array([text for column in columns for text in column.texts], object)
        else:
            numbers = np.concatenate([np.frombuffer(column.numbers, np.float64) for column in columns])
            joined[name] = numbers.astype(np.int64) if KNOWN[name].type is int else numbers
    return joined


def _completed(table: Table, backward_factor: float | None, output_bytes: int) -> Table:
    """The table with the columns that a trace needs and the file does not have."""
    rows = len(table["forward_s"])
    if "layer" not in table:
        table = {"layer": _numbered(table, rows)} | table
    if "name" not in table:
        table["name"] = np.array([_LAYER_NAME.format(layer) for layer in table["layer"].tolist()], object)
    if not {"backward_s", "backward_input_s"} & table.keys():
        if backward_factor is None:
            raise FormatError(
                "no column for backward_s; name it with columns={'backward_s': ...}, or state how many "
                "times the forward it takes with backward_factor=..."
            )
        with np.errstate(over="ignore"):  # the trace refuses what is infinite
            table["backward_s"] = table["forward_s"] * backward_factor
    if "output_bytes" not in table:
        table["output_bytes"] = np.full(rows, output_bytes, np.int64)
    if "stash_bytes" not in table:
        table["stash_bytes"] = table["output_bytes"]
    return table


def _numbered(table: Table, rows: int) -> Any:  # noqa: ANN401 - a column
    """Numbers of rows, from 0 for each device kind, microbatch size and sample."""
    keys = [table[name].tolist() for name in ("device_kind", "microbatch_size", "sample") if name in table]
    if not keys:
        return np.arange(rows)
    count: dict[tuple[Any, ...], int] = {}
    layer = np.zeros(rows, np.int64)
    for row, key in enumerate(zip(*keys, strict=True)):
        layer[row] = count[key] = count.get(key, -1) + 1
    return layer
