"""Levels of detail of a chart: what each row looks like in so many stretches of equal time.

Of each stretch of each row: the kind of task that takes most of it, and the part of it that any task takes, in 255ths.
"""

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints
from pipesim.core.program import KINDS
from pipesim.core.timeline import Timeline

Bytes = NDArray[np.uint8]
FINE, COARSE = 4096, 512  # stretches
_MOST = 2**23  # cells of a level


def levels(timeline: Timeline, row: Ints, task: Ints, rows: int) -> list[tuple[Bytes, Bytes]]:
    """The coarse and the fine level as (kind, part), [row, stretch] each."""
    fine = FINE
    while fine > COARSE and rows * fine > _MOST:
        fine //= 2
    kinds = timeline.program.kind[task]
    start, end = timeline.start[task], timeline.end[task]
    taken, width = {}, max(timeline.makespan, 1) / fine
    for kind in range(len(KINDS)):
        of_kind = kinds == kind
        if of_kind.any():
            where = row[of_kind] * fine
            found = _taken(where, start[of_kind], end[of_kind], count=fine, cells=rows * fine, width=width)
            taken[kind] = found.reshape(rows, fine)
    counts = sorted({COARSE, *(fine // n for n in (1, 2, 4) if fine // n > COARSE)})
    return [_level({kind: _merged(part, count) for kind, part in taken.items()}) for count in counts]


def _merged(taken: Floats, count: int) -> Floats:
    """The mean of neighbouring stretches."""
    return np.asarray(taken.reshape(len(taken), count, -1).mean(axis=2), np.float64)


def _level(taken: dict[int, Floats]) -> tuple[Bytes, Bytes]:
    shape = next(iter(taken.values())).shape
    most, kind, total = np.zeros(shape), np.zeros(shape, np.uint8), np.zeros(shape)
    for number, part in taken.items():
        larger = part > most
        most[larger], kind[larger] = part[larger], number
        total += part
    return kind, np.rint(255 * np.minimum(total, 1)).astype(np.uint8)


def _taken(where: Ints, start: Ints, end: Ints, *, count: int, cells: int, width: float) -> Floats:
    """The part of each stretch that spans take, which start in the row at `where`; those at the same time add up."""
    first, last = (np.minimum((time / width).astype(np.int64), count - 1) for time in (start, end))
    lengths = last - first + 1
    span = np.repeat(np.arange(len(where)), lengths)
    at = first[span] + np.arange(len(span)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    inside = np.minimum(end[span], (at + 1) * width) - np.maximum(start[span], at * width)
    return np.asarray(np.bincount(where[span] + at, np.maximum(inside, 0) / width, minlength=cells), np.float64)
