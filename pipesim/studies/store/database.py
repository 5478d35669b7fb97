"""One SQLite file: opened to be written or only read; its errors in words, its changes whole or not at all.

Time and connections are arguments, so that tests can turn the clock, fill the disk and end the process at any step.
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
_PATIENCE = 600.0  # seconds; somebody else may be writing a large grid
_BUSY, _READONLY, _CANTOPEN = 5, 8, 14  # codes of SQLite
# What says nothing about the file's content: no memory, input and output, no space, and the three above.
_SURROUNDINGS = frozenset({3, _BUSY, 6, 7, _READONLY, 10, 13, _CANTOPEN})

_LONGEST = 300  # characters of what SQLite says

Connect = Callable[..., sqlite3.Connection]


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of day, a time that never goes back, and waiting."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Database:
    """An open file. `version` is that of its tables, `copy` the folder of a copy that is read in its place."""

    def __init__(self, path: Path, connection: sqlite3.Connection, clock: Clock) -> None:
        self.path, self.clock = path, clock
        self.version = VERSION
        self.connection = connection
        self.copy: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Let go of the file; the last process to close it folds the log of changes into it."""
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()

    def execute(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """One statement, with the errors that SQLite has for it."""
        return self.connection.execute(query, values)

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows that a question of our own has for an answer."""
        return list(self.stream(query, values))

    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """As `ask`, row by row."""
        try:
            yield from self.execute(query, values)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self.unreadable(error) from None

    def one(self, query: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 - columns of several types, or None
        """The first row of an answer; None if there is none."""
        return next(iter(self.ask(query, values)), None)

    def unreadable(self, error: Exception) -> InputError:
        """Why the file cannot be read: because of what is in it, or of what it lies on."""
        if _code(error) in _SURROUNDINGS:
            return InputError(f"{self.path}: cannot be read: {reason(error)}")
        return FormatError(f"{self.path}: is not a file of results, or damaged: {reason(error)}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is asked inside sees the file as it is now, whatever others write meanwhile."""
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
        """One transaction, whole or not at all; waits while somebody else writes."""
        try:
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has ended it already, and the first error is the reason
                    self.execute("ROLLBACK")
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: cannot be written: {reason(error)}") from None


def opened(path: Path, *, create: bool, connect: Connect, clock: Clock) -> Database:
    """Open a file of results. With `create` it is made if it is missing."""
    if not create and not path.is_file():
        raise InputError(f"{path}: no such file; `pipesim sweep` makes it")
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
        database.execute(
            "PRAGMA synchronous = NORMAL"
        )  # what is committed outlives the process, which is what is asked
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
    # One statement, so that it sees a file either before somebody else makes it, or after.
    return database.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()


def _check_header(database: Database, mark: int, version: int, tables: int, *, create: bool) -> None:
    """Refuse what is no file of results; make one of an empty file."""
    if mark == MARK and version in {1, VERSION}:
        database.version = version
    elif mark == MARK:
        raise FormatError(
            f"{database.path}: version {version} of a file of results; 1 to {VERSION} are what is read here"
        )
    elif mark or tables:
        raise FormatError(f"{database.path}: is a database of something else than pipesim")
    elif create:
        _make(database)
    else:
        raise InputError(f"{database.path}: is empty; `pipesim sweep` fills it")


def _read_only(path: Path, connect: Connect, clock: Clock) -> Database:
    """A file where nothing can be written. SQLite writes beside a file even to read it, unless it is told not to.

    Not to write beside it is also not to read the log of changes: where there is one, a copy of both is read.
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
    """The tables of a file that has none yet."""
    _keep_log(database)
    with database.writing():
        if not database.one("SELECT count(*) FROM sqlite_master")[0]:  # nobody was faster
            for statement in TABLES.split(";\n"):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {MARK}")
            database.execute(f"PRAGMA user_version = {VERSION}")


def _keep_log(database: Database) -> None:
    """Write-ahead logging; SQLite does not wait by itself while somebody else makes the same file."""
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
    """What SQLite says, in one line: it may quote what it found in a damaged file."""
    text = " ".join(str(error).split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_LONGEST]


def _code(error: Exception) -> int:
    """SQLite's code of an error, without what it adds to it."""
    return int(getattr(error, "sqlite_errorcode", None) or 1) & 0xFF
