"""One SQLite file, for writing or only reading, with readable errors and atomic changes.

Time and connections are arguments, so that tests can set the clock, fill the disk and end the process at any step.
"""

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipesim.base.errors import FormatError, InputError
from pipesim.studies.store.records import TABLES

MARK = 0x50495045  # the application id in the file's header: "PIPE"
VERSION = 2
_PATIENCE = 600.0  # seconds; another process may be writing a large grid
_BUSY, _READONLY, _CANTOPEN = 5, 8, 14  # codes of SQLite
# Errors that are not about the content of the file: memory, input and output, space, and the three above.
_SURROUNDINGS = frozenset({3, _BUSY, 6, 7, _READONLY, 10, 13, _CANTOPEN})

_LONGEST = 300  # characters of a message of SQLite

Connect = Callable[..., sqlite3.Connection]


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of day, a monotonic time, and waiting."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Database:
    """An open file. `version` is that of its tables, `copy` the folder of a copy that is read instead."""

    def __init__(self, path: Path, connection: sqlite3.Connection, clock: Clock) -> None:
        self.path, self.clock = path, clock
        self.version = VERSION
        self.connection = connection
        self.copy: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Close the file; the last process to close it merges the write-ahead log into it."""
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()

    def execute(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute one statement; errors are those of SQLite."""
        return self.connection.execute(query, values)

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query of this package."""
        return list(self.stream(query, values))

    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """As `ask`, row by row."""
        try:
            yield from self.execute(query, values)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self.unreadable(error) from None

    def one(self, query: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 - columns of several types, or None
        """The first row of a query; None if there is none."""
        return next(iter(self.ask(query, values)), None)

    def unreadable(self, error: Exception) -> InputError:
        """The error for a file that cannot be read: because of its content, or of the system."""
        if _code(error) in _SURROUNDINGS:
            return InputError(f"{self.path}: cannot be read: {reason(error)}")
        return FormatError(f"{self.path}: is not a file of results, or damaged: {reason(error)}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A read transaction: queries inside see the file as it is now, while other processes write."""
        if self.connection.in_transaction:
            yield
            return
        try:
            self.execute("BEGIN")
        except sqlite3.Error as error:
            raise self.unreadable(error) from None
        try:
            yield
        finally:
            with suppress(sqlite3.Error):
                self.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One atomic write transaction; waits while another process writes."""
        try:
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has ended it already; the first error is raised
                    self.execute("ROLLBACK")
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: cannot be written: {reason(error)}") from None


def opened(path: Path, *, create: bool, connect: Connect, clock: Clock) -> Database:
    """Open a file of results; with `create`, a missing one is created."""
    if not create and not path.is_file():
        raise InputError(f"{path}: no such file; `pipesim sweep` creates it")
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        database = Database(path, connect(path, timeout=_PATIENCE, isolation_level=None), clock)
    except (sqlite3.Error, OSError) as error:
        raise FormatError(f"{path}: cannot be opened: {error}") from None
    try:
        return _prepared(database, connect, create=create)
    except BaseException:
        database.close()
        raise


def _prepared(database: Database, connect: Connect, *, create: bool) -> Database:
    try:
        database.execute("PRAGMA synchronous = NORMAL")  # what is committed survives the end of the process
        found = _header(database)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if create or _code(error) not in {_READONLY, _CANTOPEN}:
            raise database.unreadable(error) from None
        database.close()
        database = _read_only(database.path, connect, database.clock)
        found = _header(database)
    _check_header(database, *found, create=create)
    return database


def _header(database: Database) -> Any:  # noqa: ANN401 - three numbers
    # One statement, so that it sees a file either before or after another process creates it.
    return database.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()


def _check_header(database: Database, mark: int, version: int, tables: int, *, create: bool) -> None:
    """Refuse files that are not results; initialise an empty file."""
    if mark == MARK and version in {1, VERSION}:
        database.version = version
    elif mark == MARK:
        raise FormatError(f"{database.path}: version {version} of a file of results found; 1 to {VERSION} was expected")
    elif mark or tables:
        raise FormatError(f"{database.path}: is a database of another program than pipesim")
    elif create:
        _make(database)
    else:
        raise InputError(f"{database.path}: is empty; `pipesim sweep` fills it")


def _read_only(path: Path, connect: Connect, clock: Clock) -> Database:
    """Open a file where nothing can be written. SQLite writes beside a file even to read it, unless it is immutable.

    SQLite does not read the write-ahead log of an immutable file: if there is one, a copy of both is read.
    """
    log, copy = path.with_name(path.name + "-wal"), None
    try:
        if log.exists() and log.stat().st_size:
            copy = tempfile.TemporaryDirectory(prefix="pipesim-")
            for file in (path, log):
                shutil.copyfile(file, Path(copy.name) / file.name)
            connection = connect(Path(copy.name) / path.name, timeout=_PATIENCE, isolation_level=None)
        else:
            where = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            connection = connect(where, timeout=_PATIENCE, isolation_level=None, uri=True)
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    database = Database(path, connection, clock)
    database.copy = copy
    return database


def _make(database: Database) -> None:
    """Create the tables of a file that has none."""
    _keep_log(database)
    with database.writing():
        if not database.one("SELECT count(*) FROM sqlite_master")[0]:  # no other process was faster
            for statement in TABLES.split(";\n"):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {MARK}")
            database.execute(f"PRAGMA user_version = {VERSION}")


def _keep_log(database: Database) -> None:
    """Enable write-ahead logging; SQLite does not wait by itself while another process creates the same file."""
    until = database.clock.monotonic() + _PATIENCE
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            if database.clock.monotonic() > until or _code(error) != _BUSY:
                raise FormatError(f"{database.path}: cannot be written: {error}") from None
            database.clock.sleep(0.02)
        else:
            return


def reason(error: object) -> str:
    """A message of SQLite in one line; it may quote parts of a damaged file."""
    text = " ".join(str(error).split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_LONGEST]


def _code(error: Exception) -> int:
    """The primary error code of SQLite."""
    return int(getattr(error, "sqlite_errorcode", None) or 1) & 0xFF
