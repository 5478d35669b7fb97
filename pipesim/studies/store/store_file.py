"""An open results file: writing, checking and reading results."""

import dataclasses
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from pipesim.base import lookup
from pipesim.base.errors import FormatError, InputError, UnknownNameError, shown
from pipesim.studies.store import database, integrity
from pipesim.studies.store.database import Clock, Connect, Database
from pipesim.studies.store.records import (
    DIGEST,
    POINTS_INDEX,
    Damage,
    Experiment,
    PointsDigest,
    Result,
    Status,
    joined,
    quoted,
    row_digest,
    select_rows,
)

_MOST_VARIABLES = 500  # in one statement


class Store:
    """An open results file."""

    def __init__(self, db: Database) -> None:
        self.path = db.path
        self._db = db

    @classmethod
    def open(
        cls, path: Path | str, *, create: bool = False, connect: Connect | None = None, clock: Clock | None = None
    ) -> Self:
        """Open a results file; without `create` it must exist, and may be read-only."""
        store = cls(
            database.opened(Path(path), create=create, connect=connect or sqlite3.connect, clock=clock or Clock())
        )
        try:
            if create and store._db.version < database.VERSION:
                integrity.upgrade(store._db)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the file; the last process to close it merges the write-ahead log into it."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- checking ----------------------------------------------------------------------------------------------------

    def check(self) -> Damage:
        """The rows that differ from their digests, and faults in the structure of the file."""
        return integrity.check(self._db)

    def repair(self) -> Damage:
        """Delete damaged rows, which are then computed again; a file with a damaged structure is refused."""
        damage = integrity.check(self._db)
        if damage.structure:
            raise integrity.refusal(self._db, damage)
        if damage.found:
            integrity.drop(self._db)
            left = integrity.check(self._db)
            if left.found:
                raise integrity.refusal(
                    self._db, dataclasses.replace(left, structure=left.structure or "rows out of order")
                )
        return damage

    # --- writing -----------------------------------------------------------------------------------------------------

    def enlist(self, experiment: Experiment, points: Iterable[tuple[int, bytes, Sequence[Any]]]) -> None:
        """Write all points of an experiment: number, key, values of the axes. It replaces one of the same name."""
        with self._db.writing():
            self._need_columns("points", experiment.axes)
            self._need_columns("results", experiment.metrics)
            known = self._row_of(experiment.name)
            if known is not None and known[1] == experiment.digest:
                self._db.execute("UPDATE experiments SET begun = ? WHERE id = ?", (self._db.clock.now(), known[0]))
                integrity.seal(self._db, known[0])
                self._make_view(experiment, known[0])
                return
            number = self._replace(experiment)
            integrity.seal(self._db, number, self._put_points(experiment.axes, number, points))
            self._make_view(experiment, number)

    def _put_points(
        self, axes: Sequence[str], number: int, points: Iterable[tuple[int, bytes, Sequence[Any]]]
    ) -> bytes:
        """Write the points of an experiment that has none yet; returns their digest."""
        columns = ", ".join(["experiment", "number", "key", *map(quoted, axes)])
        marks = ", ".join("?" * (2 + len(axes)))
        digest = PointsDigest(axes)
        # Keys come in no order: an index over all of them at once takes a third of the time of one that grows.
        alone = self._db.one("SELECT 1 FROM points LIMIT 1") is None
        if alone:
            self._db.execute("DROP INDEX IF EXISTS points_by_key")
        insert = f"INSERT INTO points ({columns}) VALUES ({number:d}, {marks})"  # noqa: S608 - quoted names
        self._db.connection.executemany(insert, _digested(points, digest))
        if alone:
            self._db.execute(POINTS_INDEX)
        return digest.value()

    def lists(self, experiment: Experiment) -> bool:
        """Whether the points under this name are those of this experiment."""
        known = self._row_of(experiment.name)
        return known is not None and known[1] == experiment.digest

    def _replace(self, e: Experiment) -> int:
        known = self._row_of(e.name)
        if known is not None:
            self._db.execute("DELETE FROM points WHERE experiment = ?", (known[0],))
            self._db.execute("DELETE FROM experiments WHERE id = ?", (known[0],))
        values = (e.name, e.digest, e.text, json.dumps(e.axes), json.dumps(e.metrics), self._db.clock.now())
        into = "INSERT INTO experiments (name, digest, text, axes, metrics, begun) VALUES (?, ?, ?, ?, ?, ?)"
        found = self._db.execute(into, values).lastrowid
        return int(found or 0)

    def _need_columns(self, table: str, names: Sequence[str]) -> None:
        there = self._columns(table)
        for name in names:
            if name.lower() not in there:
                self._db.execute(f"ALTER TABLE {table} ADD COLUMN {quoted(name)}")

    def _make_view(self, experiment: Experiment, number: int) -> None:
        self._db.execute("DROP VIEW IF EXISTS rows")
        self._db.execute(f"CREATE VIEW rows AS {select_rows(experiment, number)}")

    def commit(self, metrics: Sequence[str], results: Sequence[Result]) -> None:
        """Write the results of a chunk atomically; other metrics of existing rows are kept."""
        with self._db.writing():
            names = self._columns("results")
            known = {row["key"]: row for row in self._whole([result.key for result in results])}
            now = self._db.clock.now()
            lines = [
                self._line(known.get(r.key), r, [names[m.lower()] for m in metrics], metrics, now) for r in results
            ]
            self._put(list(names.values()), lines)

    @staticmethod
    def _line(
        known: dict[str, Any] | None, result: Result, columns: Sequence[str], metrics: Sequence[str], now: float
    ) -> dict[str, Any]:
        """A row of results; its former values are kept if they agree with their digest."""
        kept = known if known is not None and known[DIGEST] == row_digest(known) else {"measured": ""}
        values = result.values or [None] * len(columns)
        return {
            **kept,
            "key": result.key,
            "measured": joined({*str(kept["measured"]).split(), *metrics}),
            "error": result.error,
            "refused": int(result.refused),
            "engine": result.engine,
            "seconds": float(result.seconds),
            "finished": float(now),
            **dict(zip(columns, map(_stored, values), strict=True)),
        }

    def has_others(self, name: str) -> bool:
        """Whether there are results of no point of this experiment."""
        query = (
            "SELECT 1 FROM results r WHERE NOT EXISTS "
            "(SELECT 1 FROM points p WHERE p.key = r.key AND p.experiment = ?) LIMIT 1"
        )
        return self._db.one(query, (self._known(name)[0],)) is not None

    def copy_results(self, keys: Iterable[tuple[bytes, bytes]]) -> None:
        """Copy the result of each first key to the second one, if that has none."""
        with self._db.writing():
            names = integrity.names_of(self._db, "results")
            pairs = iter(keys)
            while part := list(islice(pairs, _MOST_VARIABLES)):
                there = self._measured([new for _, new in part])
                wanted = {old: new for old, new in part if new not in there}
                found = [row for row in self._whole(list(wanted)) if row[DIGEST] == row_digest(row)]
                self._put(names, [{**row, "key": wanted[row["key"]]} for row in found])

    def _put(self, columns: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> None:
        """Write rows of results, each with its digest."""
        self._db.connection.executemany(
            f"INSERT OR REPLACE INTO results ({', '.join(map(quoted, columns))}) "  # noqa: S608 - quoted names
            f"VALUES ({', '.join('?' * len(columns))})",
            [[row_digest(line) if name == DIGEST else line.get(name) for name in columns] for line in lines],
        )

    def _whole(self, keys: Sequence[bytes]) -> Iterator[dict[str, Any]]:
        """The existing rows of results with these keys."""
        for start in range(0, len(keys), _MOST_VARIABLES):
            part = keys[start : start + _MOST_VARIABLES]
            yield from integrity.rows_of(self._db, "results", f"WHERE key IN ({', '.join('?' * len(part))})", part)

    def _columns(self, table: str) -> dict[str, str]:
        """The names of the columns of a table, by their lower case, since SQL ignores case."""
        return {name.lower(): name for name in integrity.names_of(self._db, table)}

    # --- reading -----------------------------------------------------------------------------------------------------

    def pending(self, name: str, engine: str, *, retry: bool = False) -> Iterator[tuple[int, bytes]]:
        """Number and key of every point without a result, equal ones once.

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
        return self._db.stream(query, (number, *enough, *(() if retry else (engine,))))

    def done_of(self, keys: Sequence[bytes], metrics: Sequence[str]) -> set[bytes]:
        """Which of these keys have a result with all these metrics."""
        return {key for key, measured in self._measured(keys).items() if measured >= set(metrics)}

    def prepare(self, metrics: Sequence[str]) -> None:
        """Make room for metrics of results that belong to no experiment."""
        with self._db.writing():
            self._need_columns("results", metrics)

    def values_of(self, keys: Sequence[bytes], metrics: Sequence[str]) -> dict[bytes, list[Any]]:
        """These metrics of the results of these keys; of those without an error that agree with their digests."""
        return {
            row["key"]: [row[name] for name in metrics]
            for row in self._whole(keys)
            if row["error"] is None and row[DIGEST] == row_digest(row) and set(metrics) <= {*row["measured"].split()}
        }

    def _measured(self, keys: Sequence[bytes]) -> dict[bytes, frozenset[str]]:
        found: dict[bytes, frozenset[str]] = {}
        for start in range(0, len(keys), _MOST_VARIABLES):
            part = keys[start : start + _MOST_VARIABLES]
            query = f"SELECT key, measured FROM results WHERE key IN ({', '.join('?' * len(part))})"  # noqa: S608 - marks only
            found |= {key: frozenset(str(text).split()) for key, text in self._db.ask(query, part)}
        return found

    def _enough(self, metrics: Sequence[str]) -> list[str]:
        """The sets of metrics, as in results, that contain all of these."""
        kinds = [str(text) for (text,) in self._db.ask("SELECT DISTINCT measured FROM results")]
        return [text for text in kinds if set(text.split()) >= set(metrics)]

    def experiments(self) -> list[Experiment]:
        """All experiments in this file, the last one first."""
        names = self._db.ask("SELECT name FROM experiments ORDER BY begun DESC, id DESC")
        return [self._known(name)[1] for (name,) in names]

    def experiment(self, name: str | None = None) -> Experiment:
        """The experiment of this name, or the last one."""
        if name is not None:
            return self._known(name)[1]
        found = self.experiments()
        if not found:
            raise InputError(f"{self.path}: has no experiment yet")
        return found[0]

    def status(self, name: str) -> Status:
        """The progress of an experiment."""
        number, experiment = self._known(name)
        enough = self._enough(experiment.metrics)
        now = self._db.clock.now()
        total, done, failed, last, recent = self._db.one(
            "SELECT count(*), count(r.key), count(r.error), max(r.finished), sum(r.finished BETWEEN ? AND ?) FROM "  # noqa: S608 - marks only
            "(SELECT DISTINCT key FROM points WHERE experiment = ?) p LEFT JOIN results r ON r.key = p.key "
            f"AND r.measured IN ({', '.join('?' * len(enough))})",
            (now - 60, now, number, *enough),
        )
        ago = None if last is None else now - last
        ahead = max(0.0, -(ago or 0.0))
        return Status(name, total, done, failed, None if ago is None else max(0.0, ago), (recent or 0) / 60, ahead)

    def rows(self, name: str, query: str | None = None, *, unfinished: bool = False) -> tuple[list[str], list[Any]]:
        """Columns and rows of an experiment, in the order of its grid; those without result only with `unfinished`.

        `query` is a condition (`gpus > 8 and error is null`), or a SELECT over the table `rows`; it can only read.
        A file in which anything is damaged is refused.
        """
        with self._db.reading():
            damage = integrity.check(self._db, name)
            if damage.found:
                raise integrity.refusal(self._db, damage)
            number, experiment = self._known(name)
            return self._selected(experiment, number, query, unfinished=unfinished)

    def _selected(
        self, experiment: Experiment, number: int, query: str | None, *, unfinished: bool
    ) -> tuple[list[str], list[Any]]:
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
            self._db.execute(f"CREATE TEMP VIEW rows AS {select_rows(experiment, number)}")
            self._db.execute("PRAGMA query_only = ON")
            found = self._db.execute(text)
            return [column[0] for column in found.description or ()], found.fetchall()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            known = ", ".join([*experiment.axes, *experiment.metrics, "error"])
            raise InputError(f"query {shown(query)}: {database.reason(error)}; columns are {known}") from None
        finally:
            self._db.execute("PRAGMA query_only = OFF")

    def _known(self, name: str) -> tuple[int, Experiment]:
        row = self._row_of(name)
        if row is None:
            names = [str(found) for (found,) in self._db.ask("SELECT name FROM experiments")]
            raise UnknownNameError(f"{self.path}: unknown experiment {name!r}; {lookup.suggest(name, names)}")
        number, digest, text, axes, metrics = row
        try:
            columns = [tuple(map(str, json.loads(names))) for names in (axes, metrics)]
        except (ValueError, TypeError) as error:
            raise FormatError(f"{self.path}: is damaged: {error}") from None
        return int(number), Experiment(name, str(digest), str(text), *columns)

    def _row_of(self, name: str) -> Any:  # noqa: ANN401 - a row of columns of several types, or None
        return self._db.one("SELECT id, digest, text, axes, metrics FROM experiments WHERE name = ?", (name,))


def _digested(
    points: Iterable[tuple[int, bytes, Sequence[Any]]], digest: PointsDigest
) -> Iterator[tuple[int, bytes, Any]]:
    """The rows of points, added to a digest as they are written."""
    for number, key, values in points:
        point = (number, key, *map(_stored, values))
        digest.add(point)
        yield point


def _stored(value: Any) -> Any:  # noqa: ANN401 - a number, text or None
    """A value as SQLite gives it back."""
    if isinstance(value, bool):
        return int(value)
    return None if isinstance(value, float) and math.isnan(value) else value
