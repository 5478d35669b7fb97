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
    """Columns under construction: values of blocks of tasks that are put one after the other."""

    columns: dict[str, list[tuple[int, int, Column | float]]] = field(default_factory=dict)  # (first, behind, values)
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
    last: int = 0  # of them, those that were added last

    def add(self, count: int, **columns: Column | float) -> Ints:
        """Add tasks; returns their indices."""
        first, self.last = self.count, count
        self.count += count
        for name, value in columns.items():
            self.columns.setdefault(name, []).append((first, self.count, value))
        return np.arange(first, self.count)

    def finished(self) -> dict[str, Column]:
        """The columns of all tasks, each written once; the parts that they consist of are given up."""
        return {name: self._finished(name, blank) for name, blank in _BLANK.items()}

    def _finished(self, name: str, blank: float) -> Column:
        column, written = np.empty(self.count, np.float64 if name in _FLOATS else np.int64), 0
        for first, behind, values in self.columns.pop(name, []):
            column[written:first] = blank
            column[first:behind] = values
            written = behind
        column[written:] = blank
        return column

    def awaited(self) -> tuple[Ints, Ints]:
        """What waits, and for what, as far as it has been added; some of it more than once."""
        waiting, awaited = (np.concatenate(side) for side in zip(*self.needs, strict=True))
        return waiting, awaited

    def add_routes(self, routes: Ragged, fold: Fold | None, streams: Ints) -> None:
        """The media of the transfers just added; in a folded program those that represent those of these streams."""
        if fold is None or fold.expanded:
            self.routes.append(routes)
        else:
            self.routes.append(fold.route.take(streams))
            self.alike.append(fold.alike.take(streams).values)

    def name_classes(self, sort: int, *columns: Ints | int) -> None:
        """State by up to three numbers which of the tasks just added are alike, among those of a sort."""
        named = np.zeros((self.last, 4), np.int64)
        for n, column in enumerate((sort, *columns)):
            named[:, n] = column
        self.classes.append(named)


_FLOATS = {"size", "limit"}
_BLANK: dict[str, float] = {
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
