"""Schedules written as steps: which actions a rank does, how often, in which direction.

    0, 1     the rank's two directions: on a V its first and its second chunk, of two copies its near and its far one
    F0 B1    forwards and whole backwards        I1 W     a backward in two parts; W is the oldest that waits, W0 and
                                                          W1 the oldest of a direction
    F0&B1    a paired forward and backward

DualPipe and DualPipe-V have the same steps with different numbers; see `steps`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT


class RankStep(NamedTuple):
    """Cells that are repeated a number of times."""

    times: int
    cells: str


def steps(ahead: int, near: int, rounds: int, *, apart: bool) -> Iterator[RankStep]:
    """The steps of a rank with `ahead` ranks between it and the middle (or the turn), `near` = its own number + 1.

    fill      F0 alone until the second direction arrives; then both; then its backwards, in two parts
    steady    each forward is paired with a backward of the other direction
    drain     the rest; from the middle on gradients of weights wait, and fill the end
    """
    yield RankStep(2 * ahead, "F0")
    yield RankStep(near, "F0 F1")
    yield RankStep(ahead, "I1 W F1")
    if rounds > 0:
        yield RankStep(1, "F0 B1 F1&B0" if apart else "F0&B1 F1&B0")
        yield RankStep(rounds - 1, "F0&B1 F1&B0")
    yield RankStep(ahead, "B1 F1&B0")
    for turn in range(near):  # whole backwards first, in two parts from the middle on
        late = (2 * turn, 2 * turn + 1)
        yield RankStep(1, " ".join(f"{'I' if at >= near else 'B'}{1 - at % 2}" for at in late))
    yield RankStep(ahead, "W I0")
    yield RankStep(near, "W")


def row(plan: Iterator[RankStep], stage: tuple[int, int], microbatch: Callable[[int, int], int]) -> Ints:
    """The actions of a rank: `stage` of each direction, `microbatch(direction, n)` of its n-th microbatch."""
    done = {(kind, way): 0 for kind in "FB" for way in (0, 1)}
    waiting: deque[tuple[int, int]] = deque()
    cells: list[tuple[int, int, int, bool]] = []

    def take(name: str, *, paired: bool) -> None:
        if name[0] == "W":
            n, m = next(cell for cell in waiting if name == "W" or cell[0] == stage[int(name[1])])
            waiting.remove((n, m))
            cells.append((n, WEIGHT, m, False))
            return
        kind, way = name[0], int(name[1])
        side = "F" if kind == "F" else "B"
        m = microbatch(way, done[side, way])
        done[side, way] += 1
        cells.append((stage[way], {"F": FORWARD, "B": BACKWARD, "I": INPUT}[kind], m, paired))
        if kind == "I":
            waiting.append((stage[way], m))

    for times, text in plan:
        for _ in range(times):
            for cell in text.split():
                first, _, second = cell.partition("&")
                take(first, paired=bool(second))
                if second:
                    take(second, paired=False)
    return np.array(cells, np.int64).reshape(-1, 4)
