"""Exports of Nsight Systems (`nsys export --type sqlite`), as the events of a profile of PyTorch.

    NVTX_EVENTS                      ranges; operators where they are named as by torch.autograd.profiler.emit_nvtx
    CUPTI_ACTIVITY_KIND_RUNTIME      launches
    CUPTI_ACTIVITY_KIND_KERNEL, ...  kernels, copies and memsets on streams, linked to launches by correlationId

Tables are there only if they have rows, and columns differ between versions: what is missing is left out.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import files
from pipesim.base.arrays import Ints
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.importers.kineto.events import (
    COMMUNICATION_KERNELS,
    DEVICE,
    LAUNCH,
    OP,
    RANGE,
    Events,
    MemoryEvents,
)

MAGIC = b"SQLite format 3\0"
_RANGES = (59, 60, 70, 71)  # push and pop, start and end; each also with text that is registered
_OPERATOR = re.compile(r"(?P<name>[\w:. ]+?)(?:, op_id = [0-9]+)?, seq = (?P<sequence>[0-9]{1,15})\b")
_DEVICE = {"KERNEL": "shortName", "MEMCPY": "", "MEMSET": ""}
_LONGEST = 10**15  # ns: 11 days
_LAST = 2**62
_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"


@dataclass(slots=True)
class _EventRows:
    """Columns under construction."""

    names: dict[str, int] = field(default_factory=dict)
    threads: dict[tuple[str, int, int], int] = field(default_factory=dict)
    rows: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)

    def add(  # noqa: PLR0917 - a row
        self, category: int, name: str, thread: tuple[str, int, int], start: int, end: int, correlation: int = -1,
        sequence: int = -1,
    ) -> None:  # fmt: skip
        """Add an event."""
        number = self.names.setdefault(name, len(self.names))
        place = self.threads.setdefault(thread, len(self.threads))
        self.rows.append((category, number, place, start, end, correlation, sequence))


def is_nsight(data: bytes) -> bool:
    """Whether a file begins as a database does."""
    return data.startswith(MAGIC)


def nsight_events(path: Path) -> Events:
    """The events of an export."""
    files.read_bytes(path, len(MAGIC))  # refuses what cannot be read, with the reason
    with within(str(path)), _opened(path) as database:
        tables = {str(name): _columns(database, str(name)) for (name,) in database.execute(_TABLES)}
        rows = _EventRows()
        texts = _texts(database, tables)
        _add_ranges(rows, database, tables, texts)
        _add_launches(rows, database, tables, texts)
        _add_device(rows, database, tables, texts)
        if not rows.rows:
            raise FormatError(
                "has no NVTX ranges and no kernels; an export of Nsight Systems with both was expected "
                "(nsys profile --trace cuda,nvtx, then nsys export --type sqlite)"
            )
        return _events(path, rows, _gpu(database, tables), _epoch(database, tables))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, which is not written to; its errors are those of the file."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda data: data.decode("utf-8", errors="replace")
            yield database
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise FormatError(f"is not a readable export of Nsight Systems: {str(error)[:200]}") from None


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    quoted = table.replace('"', '""')
    return {str(row[1]) for row in database.execute(f'PRAGMA table_info("{quoted}")')}


def _select(
    database: sqlite3.Connection, table: str, wanted: tuple[str, ...], known: set[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows with these columns of a table; None where it does not have one."""
    columns = ", ".join(f'"{name}"' if name in known else "NULL" for name in wanted)
    yield from database.execute(f'SELECT {columns} FROM "{table}"')  # noqa: S608 - names of this module


def _whole(value: Any, least: int = -1) -> int:  # noqa: ANN401 - a cell
    """A whole number, -1 where there is none."""
    return value if type(value) is int and least <= value < _LAST else -1


def _span(start: Any, end: Any, what: str) -> tuple[int, int]:  # noqa: ANN401 - cells
    """Start and end in ns."""
    if not (type(start) is int and type(end) is int and 0 <= start <= end < _LAST and end - start <= _LONGEST):
        raise InputError(
            f"{what}: start {shown(start)}, end {shown(end)} found; ns, one after the other, were expected"
        )
    return start, end


def _texts(database: sqlite3.Connection, tables: dict[str, set[str]]) -> dict[int, str]:
    if "StringIds" not in tables:
        return {}
    return {
        _whole(number): str(text)
        for number, text in _select(database, "StringIds", ("id", "value"), tables["StringIds"])
    }


def _add_ranges(
    rows: _EventRows, database: sqlite3.Connection, tables: dict[str, set[str]], texts: dict[int, str]
) -> None:
    """Ranges of NVTX; an event without an end is none."""
    if "NVTX_EVENTS" not in tables:
        return
    wanted = ("start", "end", "eventType", "text", "textId", "globalTid")
    for start, end, sort, text, number, thread in _select(database, "NVTX_EVENTS", wanted, tables["NVTX_EVENTS"]):
        if end is None or (sort is not None and sort not in _RANGES):
            continue
        name = str(text) if text is not None else texts.get(_whole(number), "")
        begin, stop = _span(start, end, "NVTX_EVENTS")
        operator = _OPERATOR.match(name)
        if operator:
            rows.add(OP, operator["name"], ("cpu", _whole(thread), 0), begin, stop, -1, int(operator["sequence"]))
        else:
            rows.add(RANGE, name[:500], ("cpu", _whole(thread), 0), begin, stop)


def _add_launches(
    rows: _EventRows, database: sqlite3.Connection, tables: dict[str, set[str]], texts: dict[int, str]
) -> None:
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    if table not in tables:
        return
    wanted = ("start", "end", "correlationId", "globalTid", "nameId")
    for start, end, correlation, thread, number in _select(database, table, wanted, tables[table]):
        begin, stop = _span(start, end, table)
        rows.add(LAUNCH, texts.get(_whole(number), ""), ("cpu", _whole(thread), 0), begin, stop, _whole(correlation))


def _add_device(
    rows: _EventRows, database: sqlite3.Connection, tables: dict[str, set[str]], texts: dict[int, str]
) -> None:
    """Kernels, copies and memsets of one process."""
    processes = set[int]()
    for sort, naming in _DEVICE.items():
        table = f"CUPTI_ACTIVITY_KIND_{sort}"
        if table not in tables:
            continue
        wanted = ("start", "end", "correlationId", "deviceId", "streamId", naming, "globalPid")
        for start, end, correlation, device, stream, number, process in _select(database, table, wanted, tables[table]):
            begin, stop = _span(start, end, table)
            name = texts.get(_whole(number), sort.lower()) if naming else sort.lower()
            processes.add(_whole(process))
            rows.add(DEVICE, name[:500], ("gpu", _whole(device), _whole(stream)), begin, stop, _whole(correlation))
    if len(processes) > 1:
        raise InputError(f"records {len(processes)} processes with GPUs; one export for each rank was expected")


def _gpu(database: sqlite3.Connection, tables: dict[str, set[str]]) -> str:
    """The name of the first GPU."""
    if "TARGET_INFO_GPU" not in tables:
        return ""
    found = next(iter(_select(database, "TARGET_INFO_GPU", ("name",), tables["TARGET_INFO_GPU"])), ("",))
    return str(found[0] or "")[:80]


def _epoch(database: sqlite3.Connection, tables: dict[str, set[str]]) -> int:
    """When the session began, in ns since the epoch; 0 where it is not recorded."""
    table = "TARGET_INFO_SESSION_START_TIME"
    if table not in tables:
        return 0
    found = next(iter(_select(database, table, ("utcEpochNs",), tables[table])), (0,))
    return max(_whole(found[0]), 0) if _whole(found[0]) < 2**61 else 0


def _events(path: Path, rows: _EventRows, gpu: str, epoch: int) -> Events:
    category, name, thread, start, end, correlation, sequence = np.array(rows.rows, np.int64).T
    first = int(start.min())
    if int(end.max()) - first > _LONGEST:
        raise FormatError("its events are more than 11 days apart; the times of one run were expected")
    order = np.lexsort((-end, start, thread))
    none = np.zeros(0, np.int64)
    named = re.search(r"rank[-_]?([0-9]{1,9})", path.name)
    names = tuple(rows.names)
    moves = np.array([any(part in one.lower() for part in COMMUNICATION_KERNELS) for one in names], bool)
    details: dict[int, dict[str, Any]] = {
        int(row): {} for row in np.flatnonzero((category[order] == DEVICE) & moves[name[order]])
    }
    return Events(
        path=str(path), names=names, category=category[order], name=name[order], thread=thread[order],
        start=start[order] - first, end=end[order] - first, correlation=correlation[order], sequence=sequence[order],
        size=_unknown(len(order)), details=details, memory=MemoryEvents(none, none, none, none, none.astype(bool)),
        rank=int(named[1]) if named else None, world=1, device=gpu, origin=epoch + first,
    )  # fmt: skip


def _unknown(count: int) -> Ints:
    return np.full(count, -1, np.int64)
