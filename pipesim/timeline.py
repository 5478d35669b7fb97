"""When everything happened: start and end of each task of a program, and at which rates transfers ran.

`verify` re-checks a timeline from scratch against the rules of the simulation, without asking the engine that made it.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pipesim import tables, units
from pipesim.errors import CorruptTimelineError, FormatError, InputError, shown, within
from pipesim.program import KINDS, Program
from pipesim.tables import Column, Table

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

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


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Every change of a transfer's rate, in time order: from `time` ns on, `task` runs at `rate` bytes per ns."""

    task: Ints
    time: Ints
    rate: Floats


@dataclass(frozen=True, eq=False)
class Timeline:
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
        size = self.program.size[route.row_of_value()]
        return np.bincount(route.values, size, minlength=len(self.program.media)).astype(np.float64)

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
        if self.program.sharing in {"fifo", "channel"}:
            _verify_one_at_a_time(self)
        else:
            _verify_starts(self, np.flatnonzero(~self.program.is_compute), np.int64(0), "it is ready")
        if self.program.sharing == "fair":
            _verify_rates(self)


def _corrupt(timeline: Timeline, task: int, message: str) -> CorruptTimelineError:
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
        raise _corrupt(timeline, int(np.argmax(bad)), "never ran, or ended before it started")


def _verify_needs(timeline: Timeline) -> None:
    """No task starts before all that it needs has ended."""
    early = timeline.start < timeline.ready
    if early.any():
        task = int(np.argmax(early))
        raise _corrupt(timeline, task, f"starts before what it needs has ended, at {timeline.ready[task]} ns")


def _verify_lanes(timeline: Timeline) -> None:
    """Each lane runs its tasks one at a time, in its order, each as soon as it can."""
    order = timeline.program.order
    task, lane = order.values, order.row_of_value()
    free = np.zeros(len(task), np.int64)
    free[1:] = np.where(lane[1:] == lane[:-1], timeline.end[task[:-1]], 0)
    _verify_starts(timeline, task, free, "its lane's previous task has ended")


def _verify_starts(timeline: Timeline, task: Ints, free: Ints | np.int64, cause: str) -> None:
    """Each of these tasks starts at the moment when it is ready and its lane or links are free."""
    expected = np.maximum(timeline.ready[task], free)
    wrong = timeline.start[task] != expected
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _corrupt(timeline, int(task[row]), f"a start at {expected[row]} ns was expected, when {cause}")


def _flows(program: Program) -> NDArray[np.bool_]:
    """The transfers that share links fairly: they last as long as their rates say."""
    return ~program.is_compute & (program.sharing == "fair") & (program.size > 0) & (program.route.lengths > 0)


def _verify_durations(timeline: Timeline) -> None:
    """Computation takes its time; so do transfers, unless they share links fairly."""
    program = timeline.program
    if program.lane_speeds or program.media_speeds:
        expected = np.array([program.finish(task, int(start)) for task, start in enumerate(timeline.start)])
    else:
        expected = timeline.start + program.duration
    wrong = (timeline.end != expected) & ~_flows(program)
    if wrong.any():
        task = int(np.argmax(wrong))
        raise _corrupt(timeline, task, f"an end at {expected[task]} ns was expected")


def _verify_one_at_a_time(timeline: Timeline) -> None:
    """A link carries one transfer at a time; none overtakes another, none waits without cause."""
    program = timeline.program
    medium, task = program.route.values, program.route.row_of_value()
    # Of those that take no time and pass at once, first what was ready first: nobody can tell otherwise.
    order = np.lexsort((task, timeline.ready[task], timeline.end[task], timeline.start[task], medium))
    medium, task = medium[order], task[order]
    same = np.append(False, medium[1:] == medium[:-1])[: len(task)]
    previous = np.append(-1, task[:-1])[: len(task)]
    overtaken = same & (timeline.ready[task] < timeline.ready[previous])
    if overtaken.any():
        row = int(np.argmax(overtaken))
        raise _corrupt(timeline, int(previous[row]), f"overtakes task {task[row]} on {program.media[medium[row]]}")
    free = np.zeros(len(program), np.int64)
    np.maximum.at(free, task, np.where(same, timeline.end[previous], 0))
    transfers = np.flatnonzero(~program.is_compute)
    _verify_starts(timeline, transfers, free[transfers], "all links of its route are free")


def _verify_rates(timeline: Timeline) -> None:
    """Rates begin after the delay, carry every transfer's bytes, and fit limits and links at all times."""
    program, rates = timeline.program, timeline.rates
    if rates is None:
        raise CorruptTimelineError("no rates were kept; a timeline with fair sharing cannot be checked without them")
    order = np.lexsort((np.arange(len(rates.task)), rates.time, rates.task))
    task, time, rate = rates.task[order], rates.time[order], rates.rate[order]
    last = np.append(task[1:] != task[:-1], np.ones(len(task[:1]), bool))
    until = np.where(last, timeline.end[task], np.append(time[1:], 0))
    carried = np.bincount(task, rate * (until - time), minlength=len(program))
    flows = _flows(program)
    begun = np.full(len(program), -1, np.int64)
    begun[task[::-1]] = time[::-1]  # of equal keys the last written stays: the first change of each
    late = flows & (begun != timeline.start + program.delay)
    if late.any():
        at = int(np.argmax(late))
        raise _corrupt(timeline, at, f"its rates begin at {begun[at]} ns, which is not the end of its delay")
    if (rate > program.limit[task] * (1 + 1e-9)).any():
        at = int(np.argmax(rate > program.limit[task] * (1 + 1e-9)))
        raise _corrupt(
            timeline, int(task[at]), f"runs at {rate[at]} bytes per ns; its limit is {program.limit[task[at]]}"
        )
    # A completion is rounded up to the next ns: at most one ns at the last rate is carried too much.
    slack = np.bincount(task[last], rate[last], minlength=len(program)) * (1 + 1e-6) + 1e-9 * program.size
    wrong = flows & ((carried < program.size * (1 - 1e-9) - 1e-6 * slack) | (carried > program.size + slack))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise _corrupt(timeline, at, f"its rates carry {carried[at]} bytes; {program.size[at]} were expected")
    _verify_capacity(timeline, task, time, until, rate)


def _verify_capacity(timeline: Timeline, task: Ints, time: Ints, until: Ints, rate: Floats) -> None:
    """Sweep over time, link by link, adding rates that begin and taking away rates that end."""
    program = timeline.program
    lengths = program.route.lengths[task]
    piece = np.repeat(np.arange(len(task)), lengths)
    offset = np.arange(len(piece)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    medium = program.route.values[program.route.starts[task[piece]] + offset]
    lasting = until[piece] > time[piece]
    piece, medium = piece[lasting], medium[lasting]
    # Where a link's own speed changes its load must fit anew: a change of nothing makes that moment looked at.
    turns = [(m, t) for m, speeds in program.media_speeds.items() for t in speeds.times]
    turn = np.array(turns, np.int64).reshape(-1, 2)
    link = np.concatenate([medium, medium, turn[:, 0]])
    when = np.concatenate([time[piece], until[piece], turn[:, 1]])
    change = np.concatenate([rate[piece], -rate[piece], np.zeros(len(turn))])
    order = np.lexsort((when, link))
    link, when = link[order], when[order]
    load = np.cumsum(change[order])  # every rate that begins also ends, so each link's sum starts anew at 0
    settled = np.append((link[1:] != link[:-1]) | (when[1:] != when[:-1]), np.ones(len(link[:1]), bool))
    link, when, load = link[settled], when[settled], load[settled]  # what holds once all of an instant has happened
    capacity = program.capacity[link]
    if turns:
        speed = [program.media_speed(m, t) for m, t in zip(link.tolist(), when.tolist(), strict=True)]
        capacity = capacity * np.array(speed)
    over = load > capacity * (1 + 1e-6)
    if over.any():
        at = int(np.argmax(over))
        raise CorruptTimelineError(
            f"link {program.media[link[at]]} carries {load[at] * units.NS_PER_S:.6g} bytes/s at {when[at]} ns; "
            f"its capacity is {capacity[at] * units.NS_PER_S:.6g}"
        )
