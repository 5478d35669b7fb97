"""What a store holds, and the SQL of it: experiments, their points, and results by key."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

TABLES = """
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    axes TEXT NOT NULL, metrics TEXT NOT NULL, begun REAL NOT NULL
);
CREATE TABLE points (
    experiment INTEGER NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, PRIMARY KEY (experiment, number)
) WITHOUT ROWID;
CREATE INDEX points_by_key ON points (key);
CREATE TABLE results (
    key BLOB PRIMARY KEY, measured TEXT NOT NULL, error TEXT, refused INTEGER NOT NULL,
    engine TEXT NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL
) WITHOUT ROWID;
"""
# Columns that tables and the view have of themselves; no axis and no metric may be called so.
RESERVED = frozenset("number error key engine seconds finished measured refused experiment".split())  # noqa: SIM905 - names read best in one line


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
    last_s: float | None  # how long ago the last result came
    per_second: float  # in the last minute

    @property
    def left(self) -> int:
        """How many results are still to be computed."""
        return self.total - self.done


def select_rows(experiment: Experiment, number: int) -> str:
    """Points beside their results."""
    axes = [f"p.{quoted(name)}" for name in experiment.axes]
    metrics = [f"r.{quoted(name)}" for name in experiment.metrics]
    columns = ", ".join(["p.number", *axes, *metrics, "r.error", "r.engine", "r.seconds", "r.finished"])
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
