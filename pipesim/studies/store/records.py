"""What a store holds, and the SQL of it: experiments, their points, and results by key."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# A digest has a name that no axis and no metric can have, for those are identifiers.
DIGEST = "row digest"
TABLES = f"""
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    axes TEXT NOT NULL, metrics TEXT NOT NULL, begun REAL NOT NULL, "points digest" BLOB, "{DIGEST}" BLOB
);
CREATE TABLE points (
    experiment INTEGER NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, PRIMARY KEY (experiment, number)
) WITHOUT ROWID;
CREATE INDEX points_by_key ON points (key);
CREATE TABLE results (
    key BLOB PRIMARY KEY, measured TEXT NOT NULL, error TEXT, refused INTEGER NOT NULL,
    engine TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL, "{DIGEST}" BLOB
) WITHOUT ROWID;
"""
# What makes a file of version 1, which had no digests, one of version 2.
FROM_VERSION_1 = (
    f'ALTER TABLE results ADD COLUMN "{DIGEST}" BLOB',
    'ALTER TABLE experiments ADD COLUMN "points digest" BLOB',
    f'ALTER TABLE experiments ADD COLUMN "{DIGEST}" BLOB',
)
# Columns that tables and the view have of themselves; no axis and no metric may be called so.
RESERVED = frozenset("number error key engine seconds finished measured refused experiment".split())  # noqa: SIM905 - names read best in one line

_LENGTH = 16  # bytes of a digest


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a store knows of an experiment: its axes and metrics are columns of its rows."""

    name: str
    digest: str
    text: str
    axes: tuple[str, ...]
    metrics: tuple[str, ...]


class Result(NamedTuple):
    """The line of one key."""

    key: bytes
    values: Sequence[Any]
    error: str | None
    refused: bool
    engine: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """How far an experiment is; points that are equal count once."""

    name: str
    total: int
    done: int
    failed: int
    last_s: float | None  # how long ago the last result came; 0 if it is dated after this clock's time
    per_second: float  # in the last minute
    ahead_s: float = 0.0  # how far the newest result is dated after this clock's time

    @property
    def left(self) -> int:
        """How many results are still to be computed."""
        return self.total - self.done


@dataclass(frozen=True, slots=True)
class Damage:
    """What a check of a file found: counts of what was looked at, and what does not agree with its digest."""

    results: int
    experiments: int
    points: int
    undigested: bool  # written by a version that kept no digests
    structure: str  # the first thing that SQLite says is wrong with the file; empty: nothing
    keys: tuple[Any, ...]  # of damaged results, as they stand there
    names: tuple[Any, ...]  # of experiments whose points, or whose own row, are damaged

    @property
    def found(self) -> bool:
        """Whether anything is damaged."""
        return bool(self.structure or self.keys or self.names)


def select_rows(experiment: Experiment, number: int) -> str:
    """Points beside their results."""
    # Named as the experiment names them: SQL takes columns for the same that differ in upper and lower case.
    axes = [f"p.{quoted(name)} AS {quoted(name)}" for name in experiment.axes]
    metrics = [f"r.{quoted(name)} AS {quoted(name)}" for name in experiment.metrics]
    more = [f"r.{name} AS {name}" for name in ("error", "engine", "seconds")]
    # Finished is what has all metrics: beside those of another experiment, some may still be to be computed.
    has = [f"instr(' ' || r.measured || ' ', {_literal(f' {name} ')})" for name in experiment.metrics]
    finished = f"CASE WHEN {' AND '.join(has) or '1'} THEN r.finished END AS finished"
    columns = ", ".join(["p.number AS number", *axes, *metrics, *more, finished])
    return (
        f"SELECT {columns} FROM main.points p LEFT JOIN main.results r ON r.key = p.key "  # noqa: S608 - quoted names
        f"WHERE p.experiment = {number} ORDER BY p.number"
    )


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    """Text as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"


def joined(names: Iterable[str]) -> str:
    """A set of metrics as one text, the same for the same set."""
    return " ".join(sorted(names))


# --- digests ---------------------------------------------------------------------------------------------------------


def row_digest(row: Mapping[str, Any]) -> bytes:
    """A digest of all that a row holds but for its digest; columns without a value do not count.

    So a column that is added to a table, empty in older rows, changes no digest.
    """
    return digester(list(row))(list(row.values()))


def digester(columns: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    """A function that makes the digests of rows with these columns."""
    names = [name.lower() for name in columns]
    order = sorted((name, index) for index, name in enumerate(names) if name != DIGEST)

    def digest(row: Sequence[Any]) -> bytes:
        held = [(name, row[index]) for name, index in order if row[index] is not None]
        return hashlib.blake2b(_text(held), digest_size=_LENGTH).digest()

    return digest


class PointsDigest:
    """A digest of the points of an experiment, made while they pass by in the order of their numbers."""

    def __init__(self, axes: Sequence[str]) -> None:
        self._hash = hashlib.blake2b(_text(tuple(axes)), digest_size=_LENGTH)

    def add(self, point: tuple[Any, ...]) -> None:
        """Count one more point in: its number, its key, and the values of the axes."""
        self._hash.update(_text(point))

    def value(self) -> bytes:
        """The digest of all points so far."""
        return self._hash.digest()


def _text(values: Sequence[Any]) -> bytes:
    """Numbers, text and bytes so that what differs reads differently; the same in every version of Python."""
    return ascii(values).encode()
