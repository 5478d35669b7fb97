"""The columns of a program under construction."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints, Ragged

Column = NDArray[Any]


Sort = Literal["all_reduce", "reduce_scatter", "all_gather"]


class RingTasks(NamedTuple):
    """Collectives of one sort: in each, some GPUs exchange in a ring, with a task for each edge in its order."""

    sort: Sort
    first: Ints  # the task of the first edge of each ring; the last edge leads back to the first GPU
    length: Ints  # GPUs
    part: Floats  # bytes of one message, of which an edge carries length - 1, or for an all-reduce twice as many


@dataclass
class Tasks:
    """Columns under construction: arrays that are put one after the other."""

    columns: dict[str, list[Column]] = field(default_factory=dict)
    routes: list[Ragged] = field(default_factory=list)  # the media of each transfer, in blocks
    needs: list[tuple[Ints, Ints]] = field(default_factory=list)  # (task, what it waits for)
    channels: list[tuple[str, float]] = field(default_factory=list)  # under `channel`: the abstract media
    ring_of: dict[int, Ints] = field(default_factory=dict)  # stage -> its all-reduce tasks
    optimizer_of: dict[int, int] = field(default_factory=dict)  # slot -> its optimizer task
    ends: list[tuple[Ints, Ints, Ints]] = field(
        default_factory=list
    )  # (message, its source, its target): GPUs by index
    rings: list[RingTasks] = field(default_factory=list)
    norm: int | None = None  # the task with which all GPUs sum the norm of the gradients
    count: int = 0

    def add(self, count: int, **columns: Column | float) -> Ints:
        """Add tasks; returns their indices."""
        values = _BLANK | columns
        for name, value in values.items():
            column = value if isinstance(value, np.ndarray) else np.full(count, value)
            self.columns.setdefault(name, []).append(column)
        self.count += count
        return np.arange(self.count - count, self.count)


_BLANK: dict[str, Column | float] = {
    "kind": -1,
    "stage": -1,
    "microbatch": -1,
    "lane": -1,
    "source": -1,
    "target": -1,
    "duration": 0,
    "delay": 0,
    "size": 0.0,
    "limit": np.inf,
    "memory_start": 0,
    "memory_end": 0,
}
