"""Whose an instant on a thread is: the innermost of the marks that are laid over it.

marks       |------------- a --------------|
                |--- b ---|    |- c -|
owner       a a a b b b b b a a a c c c a a      -1 where there is none
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ints

NOBODY = -1


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """Per thread, from each time on until the next, a label."""

    threads: dict[int, tuple[Ints, Ints]]

    def at(self, thread: Ints, time: Ints) -> Ints:
        """The label at each of these instants."""
        found = np.full(len(thread), NOBODY, np.int64)
        for number, (times, labels) in self.threads.items():
            rows = np.flatnonzero(thread == number)
            place = np.searchsorted(times, time[rows], side="right") - 1
            found[rows] = np.where(place >= 0, labels[np.maximum(place, 0)], NOBODY)
        return found


def owners(thread: Ints, start: Ints, end: Ints, label: Ints) -> Owners:
    """From marks in any order; of two that start together the shorter is inside, of two alike the later."""
    order = np.lexsort((-end, start, thread))
    thread, start, end, label = thread[order], start[order], end[order], label[order]
    threads = {}
    for number in np.unique(thread).tolist():
        rows = slice(*np.searchsorted(thread, [number, number + 1]).tolist())
        threads[number] = _steps(start[rows].tolist(), end[rows].tolist(), label[rows].tolist())
    return Owners(threads)


def _steps(starts: list[int], ends: list[int], labels: list[int]) -> tuple[Ints, Ints]:
    """Walk over the marks by their start, with those under way on a stack."""
    times: list[int] = []
    owner: list[int] = []
    under_way: list[tuple[int, int]] = []  # (end, label)

    def close(until: float) -> None:
        while under_way and under_way[-1][0] <= until:
            now = under_way.pop()[0]
            while under_way and under_way[-1][0] <= now:  # marks that cross: this one has ended before
                under_way.pop()
            say(now, under_way[-1][1] if under_way else NOBODY)

    def say(time: int, label: int) -> None:
        if times and times[-1] == time:
            owner[-1] = label
        else:
            times.append(time)
            owner.append(label)

    for start, end, label in zip(starts, ends, labels, strict=True):
        close(start)
        under_way.append((end, label))
        say(start, label)
    close(float("inf"))
    return np.array(times, np.int64), np.array(owner, np.int64)


def outermost(thread: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Which intervals lie in no earlier one of their thread; sorted by thread, then start, the longer first."""
    return parents(thread, start, end) < 0


def parents(thread: Ints, start: Ints, end: Ints) -> Ints:
    """For each interval the innermost one around it on its thread, -1 where there is none; sorted as above."""
    found = np.full(len(start), -1, np.int64)
    under_way: list[tuple[int, int]] = []  # (end, row)
    before = -1
    for row, (lane, begin, stop) in enumerate(zip(thread.tolist(), start.tolist(), end.tolist(), strict=True)):
        if lane != before:
            under_way.clear()
            before = lane
        while under_way and under_way[-1][0] <= begin:
            under_way.pop()
        around = (other for last, other in reversed(under_way) if last >= stop)  # others cross this one's end
        found[row] = next(around, -1)
        under_way.append((stop, row))
    return found


def inside(thread: Ints, time: Ints, around: tuple[Ints, Ints, Ints]) -> Ints:
    """For each instant the number of the innermost of the intervals (thread, start, end) around it, or -1."""
    lanes, start, end = around
    return owners(lanes, start, end, np.arange(len(start))).at(thread, time)
