"""A binary heap of (time, code): what happens next.

row 0          the number of entries, and nothing
row i          time and code of entry i, from 1 on; no entry is earlier than entry i // 2
"""

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.kernels import borrowing


def empty_heap(room: int) -> Ints:
    """No entries, and room for so many."""
    heap = np.empty((room + 1, 2), np.int64)
    heap[0, 0] = 0
    return heap


@borrowing
def push(heap: Ints, time: int, code: int) -> None:
    """Add an entry; there must be room."""
    at = heap[0, 0] + 1
    heap[0, 0] = at
    while at > 1:
        above = at >> 1
        if heap[above, 0] <= time:
            break
        heap[at, 0], heap[at, 1] = heap[above, 0], heap[above, 1]
        at = above
    heap[at, 0], heap[at, 1] = time, code


@borrowing
def pop(heap: Ints) -> int:
    """Remove the first entry and return its code."""
    size = heap[0, 0] - 1
    heap[0, 0] = size
    first: int = heap[1, 1]
    time, code = heap[size + 1, 0], heap[size + 1, 1]
    at = 1
    while True:
        below = 2 * at
        if below > size:
            break
        if below < size and heap[below + 1, 0] < heap[below, 0]:
            below += 1
        if heap[below, 0] >= time:
            break
        heap[at, 0], heap[at, 1] = heap[below, 0], heap[below, 1]
        at = below
    heap[at, 0], heap[at, 1] = time, code
    return first
