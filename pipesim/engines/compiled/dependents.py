"""Which tasks depend on a task: the inverse of `needs`."""

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ints
from pipesim.base.kernels import compiled

Shorts = NDArray[np.int32]


@compiled
def dependents_of(starts: Ints, values: Ints, tasks: int) -> tuple[Shorts, Shorts]:
    """As `Ragged.inverse`, by counting: the dependents of task t are found[first[t] : first[t + 1]], in order."""
    first = np.zeros(tasks + 1, np.int32)
    for need in values:
        first[need + 1] += 1
    for t in range(tasks):
        first[t + 1] += first[t]
    place, found = first[:-1].copy(), np.empty(len(values), np.int32)
    for t in range(len(starts) - 1):
        for at in range(starts[t], starts[t + 1]):
            need = values[at]
            found[place[need]] = t
            place[need] += 1
    return first, found
