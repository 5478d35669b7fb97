"""In what order: for each device (rank) its actions, written as in torch.distributed.pipelining.

    0F2     stage 0, forward of microbatch 2          F forward    B whole backward
    3B0     stage 3, backward of microbatch 0         I gradient of the input    W gradient of the weights

The text form has one line per rank, cells separated by commas:

    0F0,0F1,0B0,0B1
    1F0,1B0,1F1,1B1
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim import files, serial
from pipesim.errors import DeadlockError, InputError, ScheduleError, within
from pipesim.plan import Plan

LETTERS = "FBIW"
FORWARD, BACKWARD, INPUT, WEIGHT = range(4)

Ints = NDArray[np.int64]


class Action(NamedTuple):
    """One cell of a schedule."""

    stage: int
    kind: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{LETTERS[self.kind]}{self.microbatch}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """For each rank the order of its actions, in columns: row r of `rows` holds positions in the columns."""

    FORMAT: ClassVar[str] = "pipesim.schedule"
    VERSION: ClassVar[int] = 1

    starts: Ints
    stage: Ints
    kind: Ints
    microbatch: Ints

    @classmethod
    def of(cls, rows: Sequence[Iterable[tuple[int, int, int]]]) -> "Schedule":
        """From the actions of each rank as (stage, kind, microbatch)."""
        return cls.of_arrays([np.array(list(row), np.int64).reshape(-1, 3) for row in rows])

    @classmethod
    def of_arrays(cls, rows: Sequence[Ints]) -> "Schedule":
        """From one array per rank with columns stage, kind, microbatch."""
        lengths = np.array([len(row) for row in rows], np.int64)
        every = np.concatenate(rows) if rows else np.zeros((0, 3), np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return cls(starts, *(np.ascontiguousarray(column) for column in every.T))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)

    __hash__ = None  # type: ignore[assignment]  # arrays inside may not be keys

    def __str__(self) -> str:
        return "\n".join(",".join(map(str, row)) for row in self.rows)

    @property
    def rows(self) -> list[list[Action]]:
        """The actions of each rank."""
        every = [
            Action(*cell)
            for cell in zip(self.stage.tolist(), self.kind.tolist(), self.microbatch.tolist(), strict=True)
        ]
        return [every[a:b] for a, b in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)]

    @cached_property
    def rank(self) -> Ints:
        """The rank of each action."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))

    def save(self, path: Path | str) -> None:
        """Write the text form (.csv, as PyTorch reads it), or the same rows under a format version (.json, .toml)."""
        path = Path(path)
        if path.suffix == ".csv":
            files.write_text(path, f"{self}\n")
        else:
            serial.save(_Rows(tuple(str(self).split("\n"))), path)

    @classmethod
    def load(cls, path: Path | str) -> "Schedule":
        """Read what `save` writes."""
        path = Path(path)
        if path.suffix == ".csv":
            text = files.read_text(path).removesuffix("\n")
        else:
            text = "\n".join(line.replace("\n", "\\n") for line in serial.load(_Rows, path).rows)
        with within(str(path)):
            return parse(text)


@dataclass(frozen=True, slots=True)
class _Rows:
    FORMAT: ClassVar[str] = Schedule.FORMAT
    VERSION: ClassVar[int] = Schedule.VERSION

    rows: tuple[str, ...]


_CELL = re.compile(rf"\s*(\d{{1,9}})([{LETTERS}])(\d{{1,9}})\s*")


def parse(text: str) -> Schedule:
    """The schedule in text form; blank cells are skipped."""
    if not text.strip():
        raise InputError("is empty; one line of cells such as 0F0,0F1,0B0,0B1 per rank was expected")
    return Schedule.of([_parse_row(line, number) for number, line in enumerate(text.split("\n"), 1)])


def _parse_row(line: str, number: int) -> list[Action]:
    row = []
    for column, cell in enumerate(line.split(","), 1):
        if not cell.strip():
            continue
        match = _CELL.fullmatch(cell)
        if match is None:
            raise InputError(
                f"line {number}: cell {column}: {cell.strip()[:40]!r} found; stage, one of {', '.join(LETTERS)}, and "
                "microbatch were expected, such as 0F0"
            )
        row.append(Action(int(match[1]), LETTERS.index(match[2]), int(match[3])))
    return row


def check(schedule: Schedule, plan: Plan) -> None:
    """Refuse a schedule that does not do each action of the plan once, on its device, in a possible order."""
    if len(schedule) != len(plan.devices):
        raise ScheduleError(
            f"{len(schedule)} ranks found; {len(plan.devices)} were expected, one per device of the plan"
        )
    _check_places(schedule, plan)
    _check_complete(schedule, plan)
    _check_order(schedule, plan)


def _check_places(schedule: Schedule, plan: Plan) -> None:
    """Every action names a stage that its rank holds and a microbatch that passes there."""
    for rank, row in enumerate(np.split(np.arange(len(schedule.stage)), schedule.starts[1:-1])):
        stage, microbatch = schedule.stage[row], schedule.microbatch[row]
        wrong = ~np.isin(stage, plan.chunks[rank])
        if wrong.any():
            raise _bad_cell(schedule, rank, int(np.argmax(wrong)), f"{plan.devices[rank]} does not hold this stage")
        for n in plan.chunks[rank]:
            passing = plan.microbatches_of(n, plan.stages[n].devices.index(plan.devices[rank]))
            stray = (stage == n) & ~(
                (microbatch < plan.microbatches) & (microbatch % passing.step == passing.start % passing.step)
            )
            if stray.any():
                reason = (
                    f"this microbatch does not pass through {plan.devices[rank]} (microbatches: {plan.microbatches})"
                )
                raise _bad_cell(schedule, rank, int(np.argmax(stray)), reason)


def _check_complete(schedule: Schedule, plan: Plan) -> None:
    """Per rank, stage and microbatch: one F, and either one B or one I and one W."""
    slots = [(rank, n) for rank, held in enumerate(plan.chunks) for n in held]
    passing = [plan.microbatches_of(n, plan.stages[n].devices.index(plan.devices[rank])) for rank, n in slots]
    present = np.unique(schedule.microbatch)
    if len(present) < plan.microbatches:  # found before any memory is taken for that many
        absent = int(np.argmin(np.append(present, -1) == np.arange(len(present) + 1)))
        where = next(slot for slot, microbatches in enumerate(passing) if absent in microbatches)
        raise _incomplete(plan, *slots[where], absent, [0, 0, 0, 0])
    slot_of = np.zeros((len(plan.devices), len(plan.stages)), np.int64)
    slot_of[tuple(np.array(slots).T)] = np.arange(len(slots))
    cell = slot_of[schedule.rank, schedule.stage] * plan.microbatches + schedule.microbatch
    counts = np.stack(
        [np.bincount(cell[schedule.kind == kind], minlength=len(slots) * plan.microbatches) for kind in range(4)]
    )
    required = np.zeros((len(slots), plan.microbatches), bool)
    for slot, microbatches in enumerate(passing):
        required[slot, microbatches.start :: microbatches.step] = True
    once = required.ravel()
    right = (counts[0] == once) & (counts[1] + counts[2] == once) & (counts[2] == counts[3])
    if not right.all():
        slot, microbatch = divmod(int(np.argmin(right)), plan.microbatches)
        raise _incomplete(plan, *slots[slot], microbatch, counts[:, np.argmin(right)].tolist())


def _incomplete(plan: Plan, rank: int, stage: int, microbatch: int, counts: list[int]) -> ScheduleError:
    cells = [Action(stage, kind, microbatch) for kind in range(4)]
    found = " and ".join(f"{count} x {cell}" for count, cell in zip(counts, cells, strict=True) if count)
    return ScheduleError(
        f"rank {rank} ({plan.devices[rank]}), stage {stage}, microbatch {microbatch}: {found or 'nothing'} found; one "
        f"{cells[FORWARD]} and one {cells[BACKWARD]} (or one {cells[INPUT]} and one {cells[WEIGHT]}) were expected"
    )


def _check_order(schedule: Schedule, plan: Plan) -> None:
    """Run the schedule without clock or costs: whoever can go on, goes on; all must come to their end.

    What an action waits for is a count: how many replicas have done an action of that stage and microbatch.
    """
    stages, microbatches = len(plan.stages), plan.microbatches
    copies = [len(stage.devices) if plan.replicas == "split" else 1 for stage in plan.stages]
    done = [[0] * (stages * microbatches) for _ in range(2)]  # forwards; backwards (B or I)
    mine: list[set[int]] = [set() for _ in plan.devices]  # what each rank itself has done: stage, kind, microbatch
    rows = schedule.rows
    position = [0] * len(rows)
    waiting: dict[tuple[int, int], list[int]] = {}
    ready = list(range(len(rows)))
    while ready:
        rank = ready.pop()
        while position[rank] < len(rows[rank]):
            stage, kind, microbatch = rows[rank][position[rank]]
            slot = stage * microbatches + microbatch
            own = _needs_own(kind)
            if own is not None and (slot * 4 + own) not in mine[rank]:
                break
            before = _needs_other(stage, kind, stages)
            if before is not None and done[kind != FORWARD][before * microbatches + microbatch] < copies[before]:
                waiting.setdefault((kind != FORWARD, before * microbatches + microbatch), []).append(rank)
                break
            position[rank] += 1
            mine[rank].add(slot * 4 + (INPUT if kind == BACKWARD else kind))
            if kind != WEIGHT:
                done[kind != FORWARD][slot] += 1
                if done[kind != FORWARD][slot] == copies[stage]:
                    ready += waiting.pop((kind != FORWARD, slot), [])
    if any(at < len(row) for at, row in zip(position, rows, strict=True)):
        raise DeadlockError(_stuck_table(rows, position, plan))


def _needs_own(kind: int) -> int | None:
    """The kind of action that the same rank must have done before, on the same stage and microbatch."""
    return {FORWARD: None, BACKWARD: FORWARD, INPUT: FORWARD, WEIGHT: INPUT}[kind]


def _needs_other(stage: int, kind: int, stages: int) -> int | None:
    """The stage whose action on the same microbatch must come before."""
    if kind == FORWARD:
        return stage - 1 if stage > 0 else None
    return stage + 1 if kind != WEIGHT and stage < stages - 1 else None


def _stuck_table(rows: list[list[Action]], position: list[int], plan: Plan, around: int = 3) -> str:
    lines = ["the order is impossible: every rank below waits for another (>waiting cell<)"]
    for rank, (row, at) in enumerate(zip(rows, position, strict=True)):
        if at == len(row):
            continue
        cells = [f">{cell}<" if i == at else str(cell) for i, cell in enumerate(row)][
            max(0, at - around) : at + around + 1
        ]
        lines.append(f"  rank {rank}: {' '.join(cells)}   waits for {_awaited(row, at, plan)}")
    return "\n".join(lines)


def _awaited(row: list[Action], at: int, plan: Plan) -> str:
    stage, kind, microbatch = row[at]
    own = _needs_own(kind)
    done = {(cell.stage, INPUT if cell.kind == BACKWARD else cell.kind, cell.microbatch) for cell in row[:at]}
    if own is not None and (stage, own, microbatch) not in done:
        return f"{Action(stage, own, microbatch)}, which comes later on the same rank"
    before = _needs_other(stage, kind, len(plan.stages))
    assert before is not None  # noqa: S101 - an action that waits for nothing is never stuck
    return f"{before}{'F' if kind == FORWARD else 'B'}{microbatch} of {', '.join(plan.stages[before].devices)}"


def _bad_cell(schedule: Schedule, rank: int, column: int, reason: str) -> ScheduleError:
    cell = schedule.rows[rank][column]
    return ScheduleError(f"rank {rank}, cell {column + 1}: {cell} found; {reason}")
