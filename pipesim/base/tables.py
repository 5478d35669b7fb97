"""Tables of typed columns, read from and written to CSV and parquet with errors that name line and field."""

import csv
import io
import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipesim.base import files, units
from pipesim.base.errors import FormatError, InputError, MissingExtraError, within

Array = NDArray[Any]
Table = dict[str, Array]

_INT64 = 2**63
# Control characters, line separators, and surrogates, which UTF-8 cannot write.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its type, and the value of missing cells.

    Missing floats are NaN; a column without default is required. Numbers are finite and not negative.
    """

    name: str
    type: type[int] | type[float] | type[str]
    default: int | float | str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of few different texts: per row a position in `values`, -1 where there is none."""

    codes: NDArray[np.int64]
    values: tuple[str, ...]


def _missing(column: Column, length: int) -> Array:
    """The values of a column that a file does not have."""
    if column.default is None and length:
        raise InputError(f"missing column {column.name!r}")
    dtype: Any = object if column.type is str else (np.int64 if column.type is int else np.float64)
    return np.full(length, column.type() if column.default is None else column.default, dtype)


def checked(columns: Sequence[Column], values: Mapping[str, Any]) -> Table:
    """A table with all these columns from a mapping with some; types, lengths, signs are checked."""
    known = {column.name: column for column in columns}
    for name in values:
        if name not in known:
            raise InputError(f"unknown column {name[:60]!r}; known are {', '.join(known)}")
    lengths = {len(value) for value in values.values()}
    if len(lengths) > 1:
        raise InputError(f"columns have different lengths: { {name: len(value) for name, value in values.items()} }")
    length = lengths.pop() if lengths else 0
    return {
        column.name: _as_array(column, values[column.name]) if column.name in values else _missing(column, length)
        for column in columns
    }


def _as_array(column: Column, values: Any) -> Array:  # noqa: ANN401 - any sequence of cells
    if column.type is str:
        return _texts(column, [column.default if value is None else value for value in values], None)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"column {column.name!r}: {_first_line(error)}") from None
    if not len(values):
        array = np.zeros(0)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InputError(f"column {column.name!r}: has type {array.dtype}; numbers were expected")
    if array.dtype.kind == "f" and column.default is not None:
        array = np.where(np.isnan(array), column.default, array)
    if column.type is float:
        return _checked_numbers(column, array.astype(np.float64), None)
    with np.errstate(invalid="ignore"):  # the remainder of an infinity is NaN, which is refused too
        whole = (array % 1 == 0) & (array < _INT64)
    if not whole.all():
        row = int(np.argmin(whole))
        raise InputError(f"row {row}: {column.name}: {array[row]} found; a whole number below 2^63 was expected")
    return _checked_numbers(column, array.astype(np.int64), None)


def _texts(column: Column, cells: Sequence[Any], lines: Sequence[int] | None) -> Array:
    """Cells of text; empty ones become the default. Control characters would break lines and messages."""
    row = next((row for row, cell in enumerate(cells) if not isinstance(cell, str)), None)
    if row is None:
        broken = {cell for cell in set(cells) if _CONTROL.search(cell)}
        row = next((row for row, cell in enumerate(cells) if cell in broken), None) if broken else None
    if row is not None:
        where = f"line {lines[row]}" if lines is not None else f"row {row}"
        raise InputError(f"{where}: {column.name}: {str(cells[row])[:60]!r} found; text in one line was expected")
    return np.array([cell or column.default or "" for cell in cells], dtype=object)


def _checked_numbers(column: Column, array: Array, lines: Sequence[int] | None) -> Array:
    bad = array < 0
    if column.type is float:
        bad |= np.isinf(array)
        if column.default is None:
            bad |= np.isnan(array)
    if bad.any():
        row = int(np.argmax(bad))
        where = f"line {lines[row]}" if lines is not None else f"row {row}"
        raise InputError(f"{where}: {column.name}: {array[row]} found; a finite number, not negative, was expected")
    return array


def read(path: Path, columns: Sequence[Column]) -> Table:
    """The table in a .csv or .parquet file."""
    return read_parquet(path, columns)[0] if path.suffix == ".parquet" else read_csv(path, columns)


def read_csv(path: Path, columns: Sequence[Column]) -> Table:
    """The table in a CSV file with a header line. Lines that start with # before the header are comments."""
    text = files.read_text(path, files.RECORDING)
    with within(str(path)):
        return parse_csv(text, columns)


def read_csv_with_note(path: Path, columns: Sequence[Column]) -> tuple[Table, dict[str, str]]:
    """As `read_csv`, with the key=value pairs in the comment lines."""
    text = files.read_text(path, files.RECORDING)
    comments = itertools.takewhile(lambda line: line.startswith("#"), text.split("\n"))
    words = [word.partition("=") for line in comments for word in line[1:].split()]
    with within(str(path)):
        return parse_csv(text, columns), {key: value for key, _, value in words}


def parse_csv(text: str, columns: Sequence[Column]) -> Table:
    """The table in CSV text; see `read_csv`."""
    comments, start = 0, 0
    while text.startswith("#", start):
        start = text.find("\n", start) + 1 or len(text)
        comments += 1
    reader = csv.reader(io.StringIO(text[start:]), strict=True)
    try:
        header = next(reader, None)
        if not header:
            raise FormatError(f"is empty; a header line with {', '.join(c.name for c in columns)} was expected")
        names = [name.strip() for name in header]
        _check_header(names, columns)
        lines, records = _records(reader, len(names), comments)
    except csv.Error as error:
        raise FormatError(f"line {reader.line_num + comments}: is not CSV: {error}") from None
    cells = dict(zip(names, zip(*records, strict=True), strict=True)) if records else {}
    return {
        column.name: _parse_cells(column, cells[column.name], lines)
        if column.name in cells
        else _missing(column, len(records))
        for column in columns
    }


def _records(reader: Any, width: int, above: int) -> tuple[list[int], list[list[str]]]:  # noqa: ANN401 - a csv.reader
    """The line and the cells of each record; blank lines are skipped. An invalid one is refused."""
    lines: list[int] = []
    records: list[list[str]] = []
    for record in reader:
        line = reader.line_num + above
        if record and len(record) != width:
            raise InputError(f"line {line}: {len(record)} cells found; {width} were expected, as in the header")
        if record:
            lines.append(line)
            records.append(record)
    return lines, records


def _check_header(names: list[str], columns: Sequence[Column]) -> None:
    known = {column.name for column in columns}
    for name in names:
        if name not in known:
            raise InputError(f"unknown column {name[:60]!r}; known are {', '.join(c.name for c in columns)}")
        if names.count(name) > 1:
            raise InputError(f"duplicate column {name!r} in the header")
    for column in columns:
        if column.default is None and column.name not in names:
            raise InputError(f"missing column {column.name!r}; found {', '.join(names)}")


def _parse_cells(column: Column, cells: Sequence[str], lines: Sequence[int]) -> Array:
    if column.type is str:
        return _texts(column, cells, lines)
    parse = _parse_int if column.type is int else _parse_float
    values = []
    for line, cell in zip(lines, cells, strict=True):
        try:
            values.append(parse(cell, column))
        except ValueError:
            what = "a whole number" if column.type is int else "a number"
            raise InputError(f"line {line}: {column.name}: {cell[:60]!r} found; {what} was expected") from None
    return _checked_numbers(column, np.array(values, np.int64 if column.type is int else np.float64), lines)


def _parse_int(cell: str, column: Column) -> int:
    if not cell.strip() and isinstance(column.default, int):
        return column.default
    value = units.whole(cell)
    if abs(value) >= _INT64:
        raise ValueError(cell)
    return value


def _parse_float(cell: str, column: Column) -> float:
    if not cell.strip() and column.default is not None:
        return float(column.default)
    value = units.number(cell)
    if not math.isfinite(value):
        raise ValueError(cell)
    return value


def format_csv(table: Mapping[str, Array], comment: str = "") -> str:
    """CSV text whose numbers read back exactly; missing floats are empty cells."""
    out = io.StringIO()
    if comment:
        out.write(f"# {comment}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(_cells(values) for values in table.values()), strict=True))
    return out.getvalue()


def _cells(values: Array) -> list[Any]:
    cells: list[Any] = values.tolist()
    if values.dtype.kind == "f":
        return ["" if math.isnan(cell) else repr(cell) for cell in cells]
    return cells


def write(path: Path, table: Mapping[str, Array], note: Mapping[str, str] | None = None) -> None:
    """Write a table in the format of the suffix; `note` goes into a comment line or into the parquet metadata."""
    if path.suffix == ".parquet":
        write_parquet(path, table, note or {})
    else:
        files.write_text(path, format_csv(table, " ".join(f"{key}={value}" for key, value in (note or {}).items())))


def read_parquet(path: Path, columns: Sequence[Column]) -> tuple[Table, dict[str, str]]:
    """The table in a parquet file, with the notes in its metadata."""
    pa, pq = _pyarrow()
    data = files.read_bytes(path, limit=files.RECORDING)
    with within(str(path)):
        with _as_format_error(pa):
            table = _read_table(pq, data)
            found = {name: _from_arrow(table.column(name)) for name in table.column_names}
        metadata = (table.schema.metadata or {}).items()
        note = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in metadata if k != b"pandas"}
        _check_header(list(found), columns)
        return checked(columns, found), note


def read_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of any parquet file, as lists; missing numbers and empty text are None."""
    pa, pq = _pyarrow()
    data = files.read_bytes(path, limit=files.RECORDING)
    with within(str(path)), _as_format_error(pa):
        found: dict[str, list[Any]] = _read_table(pq, data).to_pydict()
    return {name: [_or_none(value) for value in values] for name, values in found.items()}


def headings_of_parquet(path: Path) -> list[str]:
    """The names of the columns of any parquet file."""
    pa, pq = _pyarrow()
    data = files.read_bytes(path, limit=files.RECORDING)
    with within(str(path)), _as_format_error(pa):
        return [str(name) for name in pq.read_schema(io.BytesIO(data)).names]


def read_arrays(path: Path, names: Sequence[str], texts: Collection[str]) -> dict[str, Array | Texts]:
    """These columns of any parquet file: numbers as arrays, NaN where missing, and the named ones as texts."""
    pa, pq = _pyarrow()
    data = files.read_bytes(path, limit=files.RECORDING)
    found: dict[str, Array | Texts] = {}
    with within(str(path)), _as_format_error(pa):
        table = _read_table(pq, data, list(names))
        for name in names:
            column = table.column(name).combine_chunks()
            if name not in texts:
                found[name] = column.to_numpy(zero_copy_only=False)
                continue
            if not pa.types.is_dictionary(column.type):
                column = column.cast(pa.string()).dictionary_encode()
            codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            found[name] = Texts(codes, tuple(str(value) for value in column.dictionary.to_pylist()))
    return found


def _read_table(pq: Any, data: bytes, columns: list[str] | None = None) -> Any:  # noqa: ANN401 - pyarrow is untyped
    """The table in a parquet file, on this thread: others still read a damaged file when its error has been raised."""
    return pq.ParquetFile(io.BytesIO(data), pre_buffer=False).read(columns, use_threads=False)


@contextmanager
def _as_format_error(pa: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    """Errors of pyarrow as an error of the file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, NotImplementedError) as error:
        raise FormatError(f"is not a readable parquet file: {_first_line(error)}") from None


def _or_none(value: Any) -> Any:  # noqa: ANN401 - a cell
    missing = value == "" or (isinstance(value, float) and math.isnan(value))
    return None if missing else value


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]


def _from_arrow(column: Any) -> Array:  # noqa: ANN401 - pyarrow is optional and untyped
    values: Array = column.to_numpy()
    return values


def write_parquet(path: Path, table: Mapping[str, Array], note: Mapping[str, str]) -> None:
    """A parquet file, zstd-compressed; whole numbers are stored as differences, which makes timelines small."""
    pa, pq = _pyarrow()
    arrays = {name: pa.array(values, pa.string() if values.dtype == object else None) for name, values in table.items()}
    content = pa.table(arrays).replace_schema_metadata(dict(note))
    whole = [name for name, values in table.items() if values.dtype.kind in "iu"]
    with files.atomic_write(path) as temporary:
        pq.write_table(
            content,
            temporary,
            compression="zstd",
            use_dictionary=[name for name in table if name not in whole],
            column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        )


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("reading and writing parquet", "parquet") from None
    return pa, pq
