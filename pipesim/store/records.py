"""What a store holds, and the SQL of it: experiments, their points, and results by key."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
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

_TEXT = json.JSONEncoder(separators=(",", ":")).encode


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
    more = [f"r.{name} AS {name}" for name in ("error", "engine", "seconds", "finished")]
    columns = ", ".join(["p.number AS number", *axes, *metrics, *more])
    return (
        f"SELECT {columns} FROM main.points p LEFT JOIN main.results r ON r.key = p.key "  # noqa: S608 - quoted names
        f"WHERE p.experiment = {number} ORDER BY p.number"
    )


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def joined(names: Iterable[str]) -> str:
    """A set of metrics as one text, the same for the same set."""
    return " ".join(sorted(names))


# --- digests ---------------------------------------------------------------------------------------------------------


def row_digest(row: Mapping[str, Any]) -> bytes:
    """A digest of all that a row holds but for its digest; columns without a value do not count.

    So a column that is added to a table, empty in older rows, changes no digest.
    """
    held = {name.lower(): _plain(value) for name, value in row.items() if value is not None and name != DIGEST}
    return _digest(_TEXT(sorted(held.items())).encode())


class PointsDigest:
    """A digest of the points of an experiment, made while they pass by in the order of their numbers."""

    def __init__(self, axes: Sequence[str]) -> None:
        self._hash = hashlib.blake2b(_TEXT(list(axes)).encode(), digest_size=16)

    def add(self, number: int, key: bytes, values: Sequence[Any]) -> None:
        """Count one more point in."""
        self._hash.update(_TEXT([number, _plain(key), *map(_plain, values)]).encode())

    def value(self) -> bytes:
        """The digest of all points so far."""
        return self._hash.digest()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a cell holds
    """A value as JSON has it and as SQLite gives it back: true is 1, bytes are marked as such."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return int(value) if isinstance(value, bool) else value
