"""Nested intervals on threads: the label of the innermost interval around an instant.

intervals   |------------- a --------------|
                |--- b ---|    |- c -|
label       a a a b b b b b a a a c c c a a      -1 where there is none
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ints

NO_OWNER = -1


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """For each thread: times, and the label from each time until the next."""

    threads: dict[int, tuple[Ints, Ints]]

    def at(self, thread: Ints, time: Ints) -> Ints:
        """The label at each of these instants."""
        found = np.full(len(thread), NO_OWNER, np.int64)
        for number, (times, labels) in self.threads.items():
            rows = np.flatnonzero(thread == number)
            place = np.searchsorted(times, time[rows], side="right") - 1
            found[rows] = np.where(place >= 0, labels[np.maximum(place, 0)], NO_OWNER)
        return found


def owners(thread: Ints, start: Ints, end: Ints, label: Ints) -> Owners:
    """From intervals in any order; of two with the same start the shorter is inside, of two equal ones the later."""
    order = np.lexsort((-end, start, thread))
    thread, start, end, label = thread[order], start[order], end[order], label[order]
    threads = {}
    for number in np.unique(thread).tolist():
        rows = slice(*np.searchsorted(thread, [number, number + 1]).tolist())
        threads[number] = _steps(start[rows].tolist(), end[rows].tolist(), label[rows].tolist())
    return Owners(threads)


def _steps(starts: list[int], ends: list[int], labels: list[int]) -> tuple[Ints, Ints]:
    """Walk over the intervals by their start, with the open ones on a stack."""
    times: list[int] = []
    label_at: list[int] = []
    open_: list[tuple[int, int]] = []  # (end, label)

    def close(until: float) -> None:
        while open_ and open_[-1][0] <= until:
            now = open_.pop()[0]
            while open_ and open_[-1][0] <= now:  # intervals that cross: this one has ended before
                open_.pop()
            change(now, open_[-1][1] if open_ else NO_OWNER)

    def change(time: int, label: int) -> None:
        if times and times[-1] == time:
            label_at[-1] = label
        else:
            times.append(time)
            label_at.append(label)

    for start, end, label in zip(starts, ends, labels, strict=True):
        close(start)
        open_.append((end, label))
        change(start, label)
    close(float("inf"))
    return np.array(times, np.int64), np.array(label_at, np.int64)


def outermost(thread: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Which intervals are inside no earlier one of their thread; sorted by thread, then start, the longer first."""
    return parents(thread, start, end) < 0


def parents(thread: Ints, start: Ints, end: Ints) -> Ints:
    """For each interval the innermost one around it on its thread, -1 where there is none; sorted as above."""
    found = np.full(len(start), -1, np.int64)
    open_: list[tuple[int, int]] = []  # (end, row)
    before = -1
    for row, (lane, begin, stop) in enumerate(zip(thread.tolist(), start.tolist(), end.tolist(), strict=True)):
        if lane != before:
            open_.clear()
            before = lane
        while open_ and open_[-1][0] <= begin:
            open_.pop()
        around = (other for last, other in reversed(open_) if last >= stop)  # others cross this one's end
        found[row] = next(around, -1)
        open_.append((stop, row))
    return found


def inside(thread: Ints, time: Ints, around: tuple[Ints, Ints, Ints]) -> Ints:
    """For each instant the number of the innermost of the intervals (thread, start, end) around it, or -1."""
    lanes, start, end = around
    return owners(lanes, start, end, np.arange(len(start))).at(thread, time)
