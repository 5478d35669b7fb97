"""Schedules: for each device (rank) its actions in order, written as in torch.distributed.pipelining.

    0F2     stage 0, forward of microbatch 2          F forward    B whole backward
    3B0     stage 3, backward of microbatch 0         I gradient of the input    W gradient of the weights
    (0F5;7B3)OVERLAP_F_B     an overlapped pair: both start and end together

The text form has one line per rank, cells separated by commas:

    0F0,0F1,0B0,0B1
    1F0,1B0,1F1,1B1

A rank without actions is a line with only a comma, or a blank line before other ranks; blank lines at the end are
ignored. Cells such as 1SEND_F1, 0RECV_B2 or 0REDUCE_GRAD are communication between the actions. They follow from the
order and from the plan: readers skip them, and `legality.with_messages` writes them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base import files, serialisation
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError, within
from pipesim.base.shown_values import Displayed

if TYPE_CHECKING:
    import pandas as pd

LETTERS = "FBIW"
FORWARD, BACKWARD, INPUT, WEIGHT = range(4)

# The part of a stage's stash that the gradient of the input releases; the gradient of the weights releases the rest.
RELEASED_BY_INPUT = 0.5


class Action(NamedTuple):
    """One cell of a schedule."""

    stage: int
    kind: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{LETTERS[self.kind]}{self.microbatch}"


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Displayed):
    """The actions of all ranks in columns; rank r has positions starts[r] to starts[r + 1] - 1.

    `paired` marks an action that forms an overlapped pair with the one after it.

    >>> print(ps.Schedule.of([[(0, 0, 0), (0, 1, 0)], [(1, 0, 0), (1, 1, 0)]]))
    0F0,0B0
    1F0,1B0
    """

    FORMAT: ClassVar[str] = "pipesim.schedule"
    VERSION: ClassVar[int] = 1

    starts: Ints
    stage: Ints
    kind: Ints
    microbatch: Ints
    paired: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Sequence[Iterable[tuple[int, int, int]]]) -> "Schedule":
        """From the actions of each rank as (stage, kind, microbatch)."""
        return cls.of_arrays([np.array(list(row), np.int64).reshape(-1, 3) for row in rows])

    @classmethod
    def of_arrays(cls, rows: Sequence[Ints]) -> "Schedule":
        """From one array per rank with columns stage, kind, microbatch, and optionally paired."""
        for rank, row in enumerate(rows):
            if row.ndim != 2 or row.shape[1] not in {3, 4}:  # 3 or 4 columns
                raise InputError(f"rank {rank}: an array of shape {row.shape} found; 3 or 4 columns were expected")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
        every = np.zeros((int(starts[-1]), 4), np.int64)  # without a fourth column, no action is paired
        for row, start in zip(rows, starts[:-1].tolist(), strict=True):
            every[start : start + len(row), : row.shape[1]] = row
        stage, kind, microbatch, paired = np.ascontiguousarray(every.T)
        return cls(starts, stage, kind, microbatch, paired != 0)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)

    __hash__ = None  # type: ignore[assignment]  # arrays are not hashable

    def __str__(self) -> str:
        return text_of(self.cells)

    @property
    def cells(self) -> list[list[str]]:
        """The text of every cell of each rank: an action, or an overlapped pair."""
        paired = np.split(self.paired, self.starts[1:-1]) if len(self) else []
        return [_texts(row, both.tolist()) for row, both in zip(self.rows, paired, strict=True)]

    @property
    def rows(self) -> list[list[Action]]:
        """The actions of each rank."""
        every = [
            Action(*cell)
            for cell in zip(self.stage.tolist(), self.kind.tolist(), self.microbatch.tolist(), strict=True)
        ]
        return [every[a:b] for a, b in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)]

    def part(self, rank: int) -> list[tuple[int, int, int, bool]]:
        """Stage, kind, microbatch of each action of a rank, and whether it is paired with the next."""
        rows = slice(int(self.starts[rank]), int(self.starts[rank + 1]))
        columns = (self.stage, self.kind, self.microbatch, self.paired)
        return list(zip(*(column[rows].tolist() for column in columns), strict=True))

    def frame(self) -> "pd.DataFrame":
        """A row for each action, in the order of each rank."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        names = ("rank", "stage", "kind", "microbatch", "paired")
        found = {name: getattr(self, name) for name in names}
        return pd.DataFrame(found | {"kind": [LETTERS[kind] for kind in self.kind.tolist()]})

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
            serialisation.save(_Rows(tuple(str(self).split("\n"))), path)

    @classmethod
    def load(cls, path: Path | str) -> "Schedule":
        """Read what `save` writes."""
        path = Path(path)
        if path.suffix == ".csv":
            text = files.read_text(path, files.RECORDING)
        else:
            text = "\n".join(line.replace("\n", "\\n") or "," for line in serialisation.load(_Rows, path).rows)
        with within(str(path)):
            return parse(text)


@dataclass(frozen=True, slots=True)
class _Rows:
    FORMAT: ClassVar[str] = Schedule.FORMAT
    VERSION: ClassVar[int] = Schedule.VERSION

    rows: tuple[str, ...]


def _texts(row: list[Action], paired: list[bool]) -> list[str]:
    if not any(paired):
        return list(map(str, row))
    second = [False, *paired[:-1]]
    return [f"({row[i]};{row[i + 1]}){OVERLAP}" if paired[i] else str(row[i]) for i in range(len(row)) if not second[i]]


OVERLAP = "OVERLAP_F_B"
_ACTION = rf"\s*([0-9]{{1,9}})([{LETTERS}])([0-9]{{1,9}})\s*"
_CELL = re.compile(_ACTION)
_PAIR = re.compile(rf"\s*\({_ACTION};{_ACTION}\)\s*{OVERLAP}\s*")
_MESSAGE = re.compile(
    r"\s*[0-9]{1,9}(?:(?:SEND|RECV)_[FB][0-9]{1,9}|UNSHARD[0-9]{0,9}|RESHARD[0-9]{0,9}|REDUCE_GRAD[0-9]{0,9})\s*"
)


def text_of(cells: list[list[str]]) -> str:
    """The text form of the cells of each rank."""
    return "\n".join(",".join(row) or "," for row in cells)


def parse(text: str) -> Schedule:
    """The schedule in text form; blank cells, communication, and blank lines at the end are skipped."""
    if not text.strip():
        raise InputError("is empty; one line of cells such as 0F0,0F1,0B0,0B1 per rank was expected")
    rows = [_parse_row(line, number) for number, line in enumerate(text.rstrip().split("\n"), 1)]
    return Schedule.of_arrays([np.array(row, np.int64).reshape(-1, 4) for row in rows])


def _parse_row(line: str, number: int) -> list[tuple[int, int, int, bool]]:
    """Stage, kind, microbatch of each action, and whether it is paired with the next."""
    row: list[tuple[int, int, int, bool]] = []
    for column, cell in enumerate(line.split(","), 1):
        if match := _CELL.fullmatch(cell):
            row.append((int(match[1]), LETTERS.index(match[2]), int(match[3]), False))
        elif match := _PAIR.fullmatch(cell):
            row.append((int(match[1]), LETTERS.index(match[2]), int(match[3]), True))
            row.append((int(match[4]), LETTERS.index(match[5]), int(match[6]), False))
        elif cell.strip() and not _MESSAGE.fullmatch(cell):
            raise InputError(
                f"line {number}: cell {column}: {cell.strip()[:40]!r} found; stage, one of {', '.join(LETTERS)}, and "
                f"microbatch were expected, such as 0F0, or two of them such as (0F5;7B3){OVERLAP}"
            )
    return row
