"""Integrity of a file of results: every row is compared with its digest.

SQLite has no checksums: one flipped bit in a number is another number.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from pipesim.base.errors import FormatError, InputError
from pipesim.studies.store.database import VERSION, Database, reason
from pipesim.studies.store.records import (
    DIGEST,
    FROM_VERSION_1,
    TABLES,
    Damage,
    PointsDigest,
    digester,
    quoted,
    row_digest,
)

_POINTS = "points digest"


def check(database: Database, name: str | None = None) -> Damage:
    """The damage to the structure of the file, to results, to the rows of experiments, and to points.

    With `name`, only the points of that experiment are checked.
    """
    with database.reading():
        structure = _structure(database)
        if structure:
            return Damage(0, 0, 0, database.version == 1, structure, (), ())
        try:
            return _rows_checked(database, name)
        except FormatError as error:
            return Damage(0, 0, 0, database.version == 1, error.message.removeprefix(f"{database.path}: "), (), ())
        except KeyError as error:  # the name of a column was changed
            return Damage(0, 0, 0, database.version == 1, f"a table has no column {error}", (), ())


def _structure(database: Database) -> str:
    """The first fault that SQLite finds in the file."""
    try:
        (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        refused = database.unreadable(error)
        if not isinstance(refused, FormatError):
            raise refused from None
        return reason(error)
    return reason(found) if found != "ok" else _columns_missing(database)


def _columns_missing(database: Database) -> str:
    """The first missing column: a flipped bit in the name of a column makes it unreadable."""
    with closing(sqlite3.connect(":memory:")) as blank:
        blank.executescript(TABLES)
        for table in ("experiments", "points", "results"):
            there = {row[1:] for row in database.ask(f"PRAGMA table_info({table})")}
            for _, *column in blank.execute(f"PRAGMA table_info({table})"):
                if tuple(column) not in there and not (database.version == 1 and column[0] in {DIGEST, _POINTS}):
                    return f"table {table} has no column {column[0]} {column[1]}"
    return ""


def _rows_checked(database: Database, name: str | None) -> Damage:
    plain = database.version == 1
    results, keys = 0, list[Any]()
    columns = names_of(database, "results")
    digest, stored, key = digester(columns), columns.index(DIGEST) if not plain else 0, columns.index("key")
    for row in database.stream("SELECT * FROM results"):
        results += 1
        if not plain and row[stored] != digest(row):
            keys.append(row[key])
    experiments, points, names = 0, 0, list[Any]()
    for row in list(rows_of(database, "experiments")):
        experiments += 1
        right = plain or row[DIGEST] == row_digest(row)
        if right and name in {None, row["name"]}:
            count, found = _points(database, row["id"], row["axes"])
            points += count
            right = plain or found == row[_POINTS]
        if not right:
            names.append(row["name"])
    return Damage(results, experiments, points, plain, "", tuple(keys), tuple(names))


def rows_of(database: Database, table: str, where: str = "", values: Any = ()) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - SQL parameters
    """Rows of a table with the names of their columns."""
    names = names_of(database, table)
    for row in database.stream(f"SELECT * FROM {table} {where}", values):  # noqa: S608 - our own tables
        yield dict(zip(names, row, strict=True))


def names_of(database: Database, table: str) -> list[str]:
    """The names of a table's columns."""
    return [row[1] for row in database.ask(f"PRAGMA table_info({table})")]


def _points(database: Database, number: int, axes: str) -> tuple[int, bytes]:
    """The number of points of an experiment, and their digest."""
    names = axes_of(axes)
    digest, count = PointsDigest(names), 0
    columns = ", ".join(["number", "key", *map(quoted, names)])
    query = f"SELECT {columns} FROM points WHERE experiment = ? ORDER BY number"  # noqa: S608 - quoted names
    for point in database.stream(query, (number,)):
        digest.add(point)
        count += 1
    return count, digest.value()


def axes_of(text: str) -> tuple[str, ...]:
    """The names in a column with several."""
    return tuple(map(str, json.loads(text)))


# --- writing ---------------------------------------------------------------------------------------------------------


def seal(database: Database, number: int, points: bytes | None = None) -> None:
    """Write the digest of an experiment's row, and that of its points if they are new."""
    if points is not None:
        update = f"UPDATE experiments SET {quoted(_POINTS)} = ? WHERE id = ?"  # noqa: S608 - our own name
        database.execute(update, (points, number))
    (row,) = rows_of(database, "experiments", "WHERE id = ?", (number,))
    update = f"UPDATE experiments SET {quoted(DIGEST)} = ? WHERE id = ?"  # noqa: S608 - our own name
    database.execute(update, (row_digest(row), number))


def upgrade(database: Database) -> None:
    """Upgrade a file of version 1: every row gets the digest of its present values."""
    found = _structure(database)
    if found:
        raise refusal(database, Damage(0, 0, 0, True, found, (), ()))
    with database.writing():
        if database.one("PRAGMA user_version")[0] == 1:  # no other process was faster
            for statement in FROM_VERSION_1:
                database.execute(statement)
            lines = [(row_digest(row), row["key"]) for row in rows_of(database, "results")]
            update = f"UPDATE results SET {quoted(DIGEST)} = ? WHERE key = ?"  # noqa: S608 - our own name
            database.connection.executemany(update, lines)
            for row in list(rows_of(database, "experiments")):
                seal(database, row["id"], _points(database, row["id"], row["axes"])[1])
            database.execute(f"PRAGMA user_version = {VERSION}")
    database.version = VERSION


def drop(database: Database) -> None:
    """Delete damaged rows, so that they are computed and written again."""
    with database.writing():
        damage = _rows_checked(database, None)
        for key in damage.keys:
            database.execute("DELETE FROM results WHERE key IS ?", (key,))
        for name in damage.names:
            database.execute("DELETE FROM experiments WHERE name IS ?", (name,))
        database.execute("DELETE FROM points WHERE experiment NOT IN (SELECT id FROM experiments)")


def refusal(database: Database, damage: Damage) -> InputError:
    """The error for reading a damaged file."""
    if damage.structure:
        return FormatError(
            f"{database.path}: is damaged: {damage.structure}; restore a copy, or move it away and sweep again"
        )
    parts = [f"{len(damage.keys):,} of {damage.results:,} results (keys {_some(damage.keys)})"] if damage.keys else []
    parts += [f"the points of experiment {name!r}" for name in damage.names]
    return FormatError(
        f"{database.path}: {' and '.join(parts)} do not agree with their digests: the file was changed or damaged; "
        "`pipesim sweep` computes the damaged ones again"
    )


def _some(keys: tuple[Any, ...]) -> str:
    return ", ".join(key.hex() if isinstance(key, bytes) else repr(key) for key in keys[:3]) + (
        ", ..." if len(keys) > 3 else ""
    )
