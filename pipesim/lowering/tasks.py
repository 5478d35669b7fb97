"""The columns of a program under construction."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints, Ragged
from pipesim.lowering.setup import Fold

Column = NDArray[Any]


# Sorts of tasks, by what those that are alike have in common.
RANK_TASKS, STEPS, MESSAGES, GATHERS, RINGS, PAUSES = range(6)

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
    alike: list[Ints] = field(default_factory=list)  # beside the media of `routes`, in a folded program
    classes: list[Ints] = field(default_factory=list)  # [task, 4]: what tasks that are alike have in common
    collectives: int = 0  # how many have been added
    count: int = 0

    def add(self, count: int, **columns: Column | float) -> Ints:
        """Add tasks; returns their indices."""
        values = _BLANK | columns
        for name, value in values.items():
            column = value if isinstance(value, np.ndarray) else np.full(count, value)
            self.columns.setdefault(name, []).append(column)
        self.count += count
        return np.arange(self.count - count, self.count)

    def add_routes(self, routes: Ragged, fold: Fold | None, streams: Ints) -> None:
        """The media of the transfers just added; in a folded program those that represent those of these streams."""
        if fold is None or fold.expanded:
            self.routes.append(routes)
        else:
            self.routes.append(fold.route.take(streams))
            self.alike.append(fold.alike.take(streams).values)

    def name_classes(self, sort: int, *columns: Ints | int) -> None:
        """State by up to three numbers which of the tasks just added are alike, among those of a sort."""
        count = len(self.columns["kind"][-1])
        named = np.zeros((count, 4), np.int64)
        for n, column in enumerate((sort, *columns)):
            named[:, n] = column
        self.classes.append(named)


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
