"""When everything happened: start and end of each task of a program, and at which rates transfers ran.

`verify` re-checks a timeline from scratch against the rules of the simulation, without asking the engine that made it.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from pipesim.base import tables
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import CorruptTimelineError, FormatError, InputError, shown, within
from pipesim.base.shown_values import Displayed
from pipesim.base.tables import Column, Table
from pipesim.core import rates
from pipesim.core.program import KINDS, Program
from pipesim.core.rates import Rates

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    Column("task", int),
    Column("kind", str),
    Column("stage", int),
    Column("microbatch", str, note="empty where a task is not about one"),
    Column("source", str, note="the device, for computation"),
    Column("target", str),
    Column("start_ns", int),
    Column("end_ns", int),
    Column("bytes", float),
)


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(Displayed):
    """Start and end of every task, in nanoseconds. `rates` is there where links were shared fairly."""

    FORMAT: ClassVar[str] = "pipesim.timeline"
    VERSION: ClassVar[int] = 1

    program: Program
    start: Ints
    end: Ints
    engine: str
    rates: Rates | None = None

    @cached_property
    def makespan(self) -> int:
        """The end of the last task: the iteration time, in ns."""
        return int(self.end.max(initial=0))

    @cached_property
    def ready(self) -> Ints:
        """When each task could have started: the end of the last task it needs; lanes not counted."""
        ready = np.zeros(len(self.program), np.int64)
        np.maximum.at(ready, self.program.needs.row_of_value(), self.end[self.program.needs.values])
        return ready

    @cached_property
    def moved(self) -> Floats:
        """Bytes that crossed each medium."""
        route = self.program.route
        return self._on_media(self.program.size[route.row_of_value()])

    @cached_property
    def used(self) -> Floats:
        """Bytes of the capacity of each medium that were used up: those moved, bursts as `Program.used` has them."""
        route = self.program.route
        return self._on_media(self.program.used[route.row_of_value()])

    def _on_media(self, values: Floats) -> Floats:
        """The sum on each medium of values beside those of all routes."""
        program = self.program
        if program.folded is not None:
            values = values * program.folded.alike
        found = np.bincount(program.route.values, values, minlength=len(program.media)).astype(np.float64)
        return program.of_media(found)

    def same_as(self, other: "Timeline") -> bool:
        """Whether every task starts and ends at the same nanosecond."""
        return np.array_equal(self.start, other.start) and np.array_equal(self.end, other.end)

    def table(self) -> Table:
        """One row per task, in columns."""
        program = self.program
        devices, kinds = np.array(program.devices, object), np.array(KINDS, object)
        return {
            "task": np.arange(len(program)),
            "kind": kinds[program.kind],
            "stage": program.stage,
            "microbatch": np.array(["" if m < 0 else str(m) for m in program.microbatch.tolist()], object),
            "source": devices[program.source],
            "target": devices[program.target],
            "start_ns": self.start,
            "end_ns": self.end,
            "bytes": program.size,
        }

    def frame(self) -> "pd.DataFrame":
        """The same as a pandas data frame."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        return pd.DataFrame(self.table())

    def save(self, path: Path | str) -> None:
        """Write the table as .csv or .parquet."""
        path = Path(path)
        if path.suffix not in {".csv", ".parquet"}:
            raise InputError(f"{path}: cannot write a {path.suffix or 'file without suffix'}; use .csv or .parquet")
        tables.write(path, self.table(), {"format": self.FORMAT, "version": str(self.VERSION), "engine": self.engine})

    @classmethod
    def load(cls, path: Path | str, program: Program) -> "Timeline":
        """Read what `save` writes, for the program that it was made from."""
        path = Path(path)
        if path.suffix == ".parquet":
            table, note = tables.read_parquet(path, COLUMNS)
        else:
            table, note = tables.read_csv_with_note(path, COLUMNS)
        with within(str(path)):
            if note.get("format") != cls.FORMAT or not re.fullmatch("[0-9]{1,9}", note.get("version", "")):
                raise FormatError(f"is not a timeline: {shown(note.get('format'))} found; {cls.FORMAT!r} was expected")
            if int(note["version"]) > cls.VERSION:
                raise FormatError(
                    f"{cls.FORMAT} version {note['version']} is newer than this pipesim reads ({cls.VERSION}); "
                    "upgrade pipesim"
                )
            timeline = cls(program, table["start_ns"], table["end_ns"], note.get("engine", ""))
            if len(timeline.start) != len(program):
                raise InputError(f"has {len(timeline.start)} tasks; the program has {len(program)}")
            expected = timeline.table()
            for name in ("task", "kind", "stage", "microbatch", "source", "target"):
                if not np.array_equal(table[name], expected[name]):
                    row = int(np.argmax(table[name] != expected[name]))
                    raise InputError(
                        f"row {row}: {name}: {shown(table[name][row])} found; the program has {expected[name][row]!r}"
                    )
            return timeline

    def verify(self) -> None:
        """Raise CorruptTimelineError unless every rule of the simulation holds."""
        _verify_all_ran(self)
        _verify_needs(self)
        _verify_lanes(self)
        _verify_durations(self)
        self.program.sharing_rule.implementation("verify")(self)


class Simulated(Protocol):
    """What has a timeline, as the result of a simulation."""

    @property
    def timeline(self) -> Timeline:
        """When each task ran."""


def timeline_of(simulated: Timeline | Simulated) -> Timeline:
    """The timeline of a result; a timeline as it is."""
    return simulated if isinstance(simulated, Timeline) else simulated.timeline


def verified_if_asked(timeline: Timeline) -> Timeline:
    """The timeline, verified if PIPESIM_VERIFY=1 is in the environment. Every engine returns through here."""
    if os.environ.get("PIPESIM_VERIFY", "0") not in {"", "0"}:
        timeline.verify()
    return timeline


def corrupt(timeline: Timeline, task: int, message: str) -> CorruptTimelineError:
    """An error about one task."""
    span = f"{timeline.start[task]} to {timeline.end[task]} ns"
    return CorruptTimelineError(f"task {task} ({timeline.program.label(task)}, {span}): {message}")


def _verify_all_ran(timeline: Timeline) -> None:
    """Every task ran once: it has a start, and an end not before it."""
    if not len(timeline.start) == len(timeline.end) == len(timeline.program):
        raise CorruptTimelineError(
            f"{len(timeline.start)} starts and {len(timeline.end)} ends for {len(timeline.program)} tasks"
        )
    bad = (timeline.start < 0) | (timeline.end < timeline.start)
    if bad.any():
        raise corrupt(timeline, int(np.argmax(bad)), "never ran, or ended before it started")


def _verify_needs(timeline: Timeline) -> None:
    """No task starts before all that it needs has ended."""
    early = timeline.start < timeline.ready
    if early.any():
        task = int(np.argmax(early))
        raise corrupt(timeline, task, f"starts before what it needs has ended, at {timeline.ready[task]} ns")


def _verify_lanes(timeline: Timeline) -> None:
    """Each lane runs its tasks one at a time, in its order, each as soon as it can."""
    order = timeline.program.order
    task, lane = order.values, order.row_of_value()
    free = np.zeros(len(task), np.int64)
    free[1:] = np.where(lane[1:] == lane[:-1], timeline.end[task[:-1]], 0)
    verify_starts(timeline, task, free, "its lane's previous task has ended")


def verify_starts(timeline: Timeline, task: Ints, free: Ints | np.int64, cause: str) -> None:
    """Each of these tasks starts at the moment when it is ready and its lane or links are free."""
    expected = np.maximum(timeline.ready[task], free)
    wrong = timeline.start[task] != expected
    if wrong.any():
        row = int(np.argmax(wrong))
        raise corrupt(timeline, int(task[row]), f"a start at {expected[row]} ns was expected, when {cause}")


def _verify_durations(timeline: Timeline) -> None:
    """Computation takes its time; so do transfers, unless they share links fairly."""
    program = timeline.program
    if program.lane_speeds or program.media_speeds:
        expected = np.array([program.finish(task, int(start)) for task, start in enumerate(timeline.start)])
    else:
        expected = timeline.start + program.duration
    wrong = (timeline.end != expected) & ~rates.flows(program)
    if wrong.any():
        task = int(np.argmax(wrong))
        raise corrupt(timeline, task, f"an end at {expected[task]} ns was expected")


def verify_transfers_start_when_ready(timeline: Timeline) -> None:
    """No transfer waits for its links."""
    verify_starts(timeline, np.flatnonzero(~timeline.program.is_compute), np.int64(0), "it is ready")
