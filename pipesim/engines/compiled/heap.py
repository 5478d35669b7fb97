"""A binary heap of (time, code) in two arrays: what happens next."""

from pipesim.base.arrays import Ints
from pipesim.base.kernels import compiled


@compiled
def push(times: Ints, codes: Ints, size: int, time: int, code: int) -> int:
    """Add an entry; there must be room. Returns the new size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if times[above] <= time:
            break
        times[at], codes[at] = times[above], codes[above]
        at = above
    times[at], codes[at] = time, code
    return size + 1


@compiled
def drop(times: Ints, codes: Ints, size: int) -> int:
    """Take the first entry away. Returns the new size."""
    size -= 1
    time, code = times[size], codes[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and times[below + 1] < times[below]:
            below += 1
        if times[below] >= time:
            break
        times[at], codes[at] = times[below], codes[below]
        at = below
    times[at], codes[at] = time, code
    return size
