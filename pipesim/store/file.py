"""A results file that is open: what is put into it, and what is asked of it."""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from pipesim import lookup
from pipesim.errors import FormatError, InputError, UnknownNameError, shown
from pipesim.store.records import TABLES, Experiment, Result, Status, joined, quoted, select_rows

_MARK = 0x50495045  # the application id in the file's header: "PIPE"
_VERSION = 1
_PATIENCE = 600.0  # seconds; somebody else may be writing a large grid
_MOST_VARIABLES = 500  # in one statement


class Store:
    """A results file that is open."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    @classmethod
    def open(cls, path: Path | str, *, create: bool = False) -> Self:
        """Open a results file; without `create` it must be there."""
        path = Path(path)
        if not create and not path.is_file():
            raise InputError(f"{path}: no such file; `pipesim sweep` makes it")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            store = cls(path, sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None))
        except (sqlite3.Error, OSError) as error:
            raise FormatError(f"{path}: cannot be opened: {error}") from None
        try:
            store._prepare()
        except FormatError:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Let go of the file; whoever closes it last folds the log of changes into it."""
        self._db.close()

    def _prepare(self) -> None:
        self._ask("PRAGMA synchronous = NORMAL")  # what is committed outlives the process, which is what is asked
        # One statement, so that it sees a file either before somebody else makes it, or after.
        mark, version, tables = self._one(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        )
        if (mark, version) == (_MARK, _VERSION):
            return
        if mark == _MARK:
            raise FormatError(f"{self.path}: version {version} of a file of results; {_VERSION} is what is read here")
        if mark or tables:
            raise FormatError(f"{self.path}: is a database of something else than pipesim")
        self._keep_log()
        with self._writing():
            if not self._one("SELECT count(*) FROM sqlite_master")[0]:  # nobody was faster
                for statement in TABLES.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {_MARK}")
                self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def _keep_log(self) -> None:
        """Write-ahead logging; SQLite does not wait by itself while somebody else makes the same file."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error as error:
                if time.monotonic() > until or not isinstance(error, sqlite3.OperationalError):
                    raise FormatError(f"{self.path}: cannot be written: {error}") from None
                time.sleep(0.02)
            else:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- writing -----------------------------------------------------------------------------------------------------

    def enlist(self, experiment: Experiment, points: Iterable[tuple[int, bytes, Sequence[Any]]]) -> None:
        """Put down all points of an experiment: number, key, values of the axes. It replaces one of the same name."""
        known = self._row_of(experiment.name)
        if known is not None and known[1] == experiment.digest:
            with self._writing():
                self._db.execute("UPDATE experiments SET begun = ? WHERE id = ?", (time.time(), known[0]))
                self._make_view(experiment, known[0])
            return
        with self._writing():
            self._need_columns("points", experiment.axes)
            self._need_columns("results", experiment.metrics)
            number = self._replace(experiment)
            columns = ", ".join(["experiment", "number", "key", *map(quoted, experiment.axes)])
            marks = ", ".join("?" * (3 + len(experiment.axes)))
            lines = ((number, n, key, *values) for n, key, values in points)
            self._db.executemany(f"INSERT INTO points ({columns}) VALUES ({marks})", lines)  # noqa: S608 - quoted names
            self._make_view(experiment, number)

    def _replace(self, e: Experiment) -> int:
        known = self._row_of(e.name)
        if known is not None:
            self._db.execute("DELETE FROM points WHERE experiment = ?", (known[0],))
            self._db.execute("DELETE FROM experiments WHERE id = ?", (known[0],))
        values = (e.name, e.digest, e.text, json.dumps(e.axes), json.dumps(e.metrics), time.time())
        into = "INSERT INTO experiments (name, digest, text, axes, metrics, begun) VALUES (?, ?, ?, ?, ?, ?)"
        found = self._db.execute(into, values).lastrowid
        return int(found or 0)

    def _need_columns(self, table: str, names: Sequence[str]) -> None:
        there = {row[1].lower() for row in self._db.execute(f"PRAGMA table_info({table})")}
        for name in names:
            if name.lower() not in there:
                self._db.execute(f"ALTER TABLE {table} ADD COLUMN {quoted(name)}")

    def _make_view(self, experiment: Experiment, number: int) -> None:
        self._db.execute("DROP VIEW IF EXISTS rows")
        self._db.execute(f"CREATE VIEW rows AS {select_rows(experiment, number)}")

    def commit(self, metrics: Sequence[str], results: Sequence[Result]) -> None:
        """Keep the results of a chunk, all or none; numbers that a line has beside these metrics stay."""
        names = list(map(quoted, metrics))
        columns = ["key", "measured", "error", "refused", "engine", "seconds", "finished", *names]
        updates = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
        with self._writing():
            known = self._measured([result.key for result in results])
            now = time.time()
            lines = [
                (
                    r.key, joined(known.get(r.key, frozenset()) | set(metrics)), r.error, r.refused, r.engine,
                    r.seconds, now, *(r.values or [None] * len(names)),
                )
                for r in results
            ]  # fmt: skip
            self._db.executemany(
                f"INSERT INTO results ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "  # noqa: S608 - quoted names
                f"ON CONFLICT (key) DO UPDATE SET {updates}",
                lines,
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, whole or not at all; waits while somebody else writes."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: cannot be written: {error}") from None

    # --- reading -----------------------------------------------------------------------------------------------------

    def pending(self, name: str, engine: str, *, retry: bool = False) -> list[tuple[int, bytes]]:
        """Number and key of every point that has no result yet, equal ones once.

        What one engine refused another may know. With `retry` failures count as no results.
        """
        number, experiment = self._known(name)
        enough = self._enough(experiment.metrics)
        again = "error IS NOT NULL" if retry else "refused AND engine != ?"
        lacks = f"r.key IS NULL OR r.measured NOT IN ({', '.join('?' * len(enough))}) OR {again}"
        query = (
            "SELECT min(p.number), p.key FROM points p LEFT JOIN results r ON r.key = p.key "  # noqa: S608 - marks only
            f"WHERE p.experiment = ? AND ({lacks}) GROUP BY p.key ORDER BY 1"
        )
        return self._ask(query, (number, *enough, *(() if retry else (engine,))))

    def done_of(self, keys: Sequence[bytes], metrics: Sequence[str]) -> set[bytes]:
        """Which of these keys have a result with all these metrics."""
        return {key for key, measured in self._measured(keys).items() if measured >= set(metrics)}

    def _measured(self, keys: Sequence[bytes]) -> dict[bytes, frozenset[str]]:
        found: dict[bytes, frozenset[str]] = {}
        for start in range(0, len(keys), _MOST_VARIABLES):
            part = keys[start : start + _MOST_VARIABLES]
            query = f"SELECT key, measured FROM results WHERE key IN ({', '.join('?' * len(part))})"  # noqa: S608 - marks only
            found |= {key: frozenset(str(text).split()) for key, text in self._ask(query, part)}
        return found

    def _enough(self, metrics: Sequence[str]) -> list[str]:
        """The sets of metrics, as results name them, that have all of these."""
        kinds = [str(text) for (text,) in self._ask("SELECT DISTINCT measured FROM results")]
        return [text for text in kinds if set(text.split()) >= set(metrics)]

    def experiments(self) -> list[Experiment]:
        """All that was run into this file, the last one first."""
        names = self._ask("SELECT name FROM experiments ORDER BY begun DESC, id DESC")
        return [self._known(name)[1] for (name,) in names]

    def experiment(self, name: str | None = None) -> Experiment:
        """The experiment of this name, or the one that was run last."""
        if name is not None:
            return self._known(name)[1]
        found = self.experiments()
        if not found:
            raise InputError(f"{self.path}: holds no experiment yet")
        return found[0]

    def status(self, name: str) -> Status:
        """How far an experiment is."""
        number, experiment = self._known(name)
        enough = self._enough(experiment.metrics)
        now = time.time()
        total, done, failed, last, recent = self._one(
            "SELECT count(*), count(r.key), count(r.error), max(r.finished), sum(r.finished > ?) FROM "  # noqa: S608 - marks only
            "(SELECT DISTINCT key FROM points WHERE experiment = ?) p LEFT JOIN results r ON r.key = p.key "
            f"AND r.measured IN ({', '.join('?' * len(enough))})",
            (now - 60, number, *enough),
        )
        return Status(name, total, done, failed, None if last is None else now - last, (recent or 0) / 60)

    def rows(self, name: str, query: str | None = None, *, unfinished: bool = False) -> tuple[list[str], list[Any]]:
        """Columns and rows of an experiment, in the order of its grid; those without result only if asked for.

        `query` is a condition (`gpus > 8 and error is null`), or a SELECT over the table `rows`; it can only read.
        """
        number, experiment = self._known(name)
        whole = "" if unfinished else " WHERE finished IS NOT NULL"
        columns = ", ".join(map(quoted, [*experiment.axes, *experiment.metrics, "error"]))
        text = f"SELECT {columns} FROM (SELECT * FROM rows{whole})"  # noqa: S608 - quoted names
        if query is not None and query.split(maxsplit=1)[:1] and query.split()[0].lower() in {"select", "with"}:
            text = query
        elif query is not None:
            text += f" WHERE {query}"
        if text is not query:
            text += " ORDER BY number"
        try:
            self._db.execute("DROP VIEW IF EXISTS temp.rows")
            self._db.execute(f"CREATE TEMP VIEW rows AS {select_rows(experiment, number)}")
            self._db.execute("PRAGMA query_only = ON")
            found = self._db.execute(text)
            return [column[0] for column in found.description or ()], found.fetchall()
        except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:
            known = ", ".join([*experiment.axes, *experiment.metrics, "error"])
            raise InputError(f"query {shown(query)}: {error}; columns are {known}") from None
        finally:
            self._db.execute("PRAGMA query_only = OFF")

    def _known(self, name: str) -> tuple[int, Experiment]:
        row = self._row_of(name)
        if row is None:
            names = [str(found) for (found,) in self._ask("SELECT name FROM experiments")]
            raise UnknownNameError(f"{self.path}: no experiment is called {name!r}; {lookup.suggest(name, names)}")
        number, digest, text, axes, metrics = row
        try:
            columns = [tuple(map(str, json.loads(names))) for names in (axes, metrics)]
        except (ValueError, TypeError) as error:
            raise FormatError(f"{self.path}: is damaged: {error}") from None
        return int(number), Experiment(name, str(digest), str(text), *columns)

    def _row_of(self, name: str) -> Any:  # noqa: ANN401 - a row of columns of several types, or None
        return self._one("SELECT id, digest, text, axes, metrics FROM experiments WHERE name = ?", (name,))

    def _one(self, query: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 - as `_row_of`
        return next(iter(self._ask(query, values)), None)

    def _ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows that a question of our own has for an answer."""
        try:
            return self._db.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise FormatError(f"{self.path}: is not a file of results, or damaged: {error}") from None
