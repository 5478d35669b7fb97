"""Rows of a store and their SQL: experiments, their points, and results by key."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# The name of a digest has a blank, so that no axis or metric has it.
DIGEST = "row digest"
POINTS_INDEX = "CREATE INDEX points_by_key ON points (key)"
TABLES = f"""
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    axes TEXT NOT NULL, metrics TEXT NOT NULL, begun REAL NOT NULL, "points digest" BLOB, "{DIGEST}" BLOB
);
CREATE TABLE points (
    experiment INTEGER NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, PRIMARY KEY (experiment, number)
) WITHOUT ROWID;
{POINTS_INDEX};
CREATE TABLE results (
    key BLOB PRIMARY KEY, measured TEXT NOT NULL, error TEXT, refused INTEGER NOT NULL,
    engine TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL, "{DIGEST}" BLOB
) WITHOUT ROWID;
"""
# Upgrades a file of version 1, which had no digests, to version 2.
FROM_VERSION_1 = (
    f'ALTER TABLE results ADD COLUMN "{DIGEST}" BLOB',
    'ALTER TABLE experiments ADD COLUMN "points digest" BLOB',
    f'ALTER TABLE experiments ADD COLUMN "{DIGEST}" BLOB',
)
# Columns of tables and the view; axes and metrics must have other names.
RESERVED = frozenset("number error key engine seconds finished measured refused experiment".split())  # noqa: SIM905 - names read best in one line

_LENGTH = 16  # bytes of a digest


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment in a store; its axes and metrics are columns of its rows."""

    name: str
    digest: str
    text: str
    axes: tuple[str, ...]
    metrics: tuple[str, ...]


class Result(NamedTuple):
    """The row of one key."""

    key: bytes
    values: Sequence[Any]
    error: str | None
    refused: bool
    engine: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of an experiment; equal points count once."""

    name: str
    total: int
    done: int
    failed: int
    last_s: float | None  # age of the last result; 0 if its date is after the time of this clock
    per_second: float  # in the last minute
    ahead_s: float = 0.0  # by how much the date of the newest result is after the time of this clock

    def __repr__(self) -> str:
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"Sweep {self.name}: {self.done:,} of {self.total:,} points done{failed}"

    @property
    def left(self) -> int:
        """The number of results that are not computed yet."""
        return self.total - self.done


@dataclass(frozen=True, slots=True)
class Damage:
    """The result of a check: the number of checked rows, and those that differ from their digests."""

    results: int
    experiments: int
    points: int
    undigested: bool  # written by a version without digests
    structure: str  # the first fault that SQLite finds in the file; empty: none
    keys: tuple[Any, ...]  # of damaged results, as read
    names: tuple[Any, ...]  # of experiments whose points or row are damaged

    @property
    def found(self) -> bool:
        """Whether anything is damaged."""
        return bool(self.structure or self.keys or self.names)


def select_rows(experiment: Experiment, number: int) -> str:
    """The query of points with their results."""
    # With the names in the experiment: in SQL, names that differ only in case are equal.
    axes = [f"p.{quoted(name)} AS {quoted(name)}" for name in experiment.axes]
    metrics = [f"r.{quoted(name)} AS {quoted(name)}" for name in experiment.metrics]
    more = [f"r.{name} AS {name}" for name in ("error", "engine", "seconds")]
    # A result with the metrics of another experiment only is not finished.
    has = [f"instr(' ' || r.measured || ' ', {_literal(f' {name} ')})" for name in experiment.metrics]
    finished = f"CASE WHEN {' AND '.join(has) or '1'} THEN r.finished END AS finished"
    columns = ", ".join(["p.number AS number", *axes, *metrics, *more, finished])
    return (
        f"SELECT {columns} FROM main.points p LEFT JOIN main.results r ON r.key = p.key "  # noqa: S608 - quoted names
        f"WHERE p.experiment = {number} ORDER BY p.number"
    )


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    """Text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def joined(names: Iterable[str]) -> str:
    """A set of metrics as one text, independent of their order."""
    return " ".join(sorted(names))


# --- digests ---------------------------------------------------------------------------------------------------------


def row_digest(row: Mapping[str, Any]) -> bytes:
    """A digest of a row without its digest column; columns without a value do not count.

    So a column that is added to a table, empty in older rows, changes no digest.
    """
    return digester(list(row))(list(row.values()))


def digester(columns: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    """A function for the digests of rows with these columns."""
    names = [name.lower() for name in columns]
    order = sorted((name, index) for index, name in enumerate(names) if name != DIGEST)

    def digest(row: Sequence[Any]) -> bytes:
        held = [(name, row[index]) for name, index in order if row[index] is not None]
        return hashlib.blake2b(_text(held), digest_size=_LENGTH).digest()

    return digest


class PointsDigest:
    """A digest of the points of an experiment, updated in the order of their numbers."""

    def __init__(self, axes: Sequence[str]) -> None:
        self._hash = hashlib.blake2b(_text(tuple(axes)), digest_size=_LENGTH)

    def add(self, point: tuple[Any, ...]) -> None:
        """Add a point: its number, its key, and the values of the axes."""
        self._hash.update(_text(point))

    def value(self) -> bytes:
        """The digest of all points so far."""
        return self._hash.digest()


def _text(values: Sequence[Any]) -> bytes:
    """An unambiguous representation of numbers, text and bytes, the same in every version of Python."""
    return ascii(values).encode()
