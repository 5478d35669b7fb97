"""The columns of a program under construction."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ints, Ragged

Column = NDArray[Any]


@dataclass
class Tasks:
    """Columns under construction: arrays that are put one after the other."""

    columns: dict[str, list[Column]] = field(default_factory=dict)
    routes: list[Ragged] = field(default_factory=list)  # the media of each transfer, in blocks
    needs: list[tuple[Ints, Ints]] = field(default_factory=list)  # (task, what it waits for)
    channels: list[tuple[str, float]] = field(default_factory=list)  # under `channel`: the abstract media
    ring_of: dict[int, Ints] = field(default_factory=dict)  # stage -> its all-reduce tasks
    optimizer_of: dict[int, int] = field(default_factory=dict)  # slot -> its optimizer task
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
