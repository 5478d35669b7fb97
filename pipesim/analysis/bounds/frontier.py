"""The partial plans that `reach` keeps: one row of least values each, in linked lists by where the plans end."""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing

HEAD = 0  # the column by which rows are graded


class Frontier(NamedTuple):
    """Rows in lists: `first[where]`, then `after[row]`, to -1.

    A list has at most one row of each grade, a range of HEAD, and a row has the least of every column over all the
    partial plans of its grade that end there.
    """

    table: Floats  # [row, column]
    after: Ints  # [row]: the next of its list
    grade: Ints  # [row]
    first: Ints  # [where]
    ends: Ints  # the first row of the list of free ones, or -1; rows that have been in use; rows that are to be added
    found: Ints  # rows that are taken out of a list, by their grade
    label: Floats  # [column]: the row to be added


def frontier_of(lists: int, rows: int, grades: int, width: int) -> Frontier:
    """Empty lists."""
    return Frontier(
        np.empty((rows, width)),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.full(lists, -1),
        np.array([-1, 0, 0]),
        np.empty(grades, np.int64),
        np.empty(width),
    )


@borrowing
def has_room(frontier: Frontier, where: int, each: int) -> bool:
    """Whether so many rows can be added for each row of a list."""
    rows, r = 0, frontier.first[where]
    while r >= 0:
        rows, r = rows + each, frontier.after[r]
    frontier.ends[2] = rows
    return bool(len(frontier.table) - frontier.ends[1] >= rows)


def with_room(frontier: Frontier) -> Frontier:
    """A larger one, if there is no room for what `has_room` was last asked for."""
    used, size = frontier.ends[1], len(frontier.table)
    if size - used >= frontier.ends[2]:
        return frontier
    size = max(2 * size, used + frontier.ends[2])
    table, after, grade = np.empty((size, frontier.table.shape[1])), np.empty(size, np.int64), np.empty(size, np.int64)
    table[:used], after[:used], grade[:used] = frontier.table[:used], frontier.after[:used], frontier.grade[:used]
    return Frontier(table, after, grade, frontier.first, frontier.ends, frontier.found, frontier.label)


@borrowing
def add(frontier: Frontier, where: int, level: int) -> None:
    """Add `label` to a list, or lower its row of the same grade to it."""
    table, after = frontier.table, frontier.after
    r = frontier.first[where]
    while r >= 0 and frontier.grade[r] != level:
        r = after[r]
    if r >= 0:
        for d in range(table.shape[1]):
            table[r, d] = min(table[r, d], frontier.label[d])
        return
    r = frontier.ends[0]
    if r < 0:
        r = frontier.ends[1]
        frontier.ends[1] += 1
    else:
        frontier.ends[0] = after[r]
    for d in range(table.shape[1]):
        table[r, d] = frontier.label[d]
    frontier.grade[r], after[r] = level, frontier.first[where]
    frontier.first[where] = r


@borrowing
def free(frontier: Frontier, r: int) -> None:
    """A row that is in no list may be used again."""
    frontier.after[r] = frontier.ends[0]
    frontier.ends[0] = r


@borrowing
def taken(frontier: Frontier, where: int, most: float) -> int:
    """Empty a list. How many of its rows are needed: these are in `found` from the lowest grade up, the others free.

    Not needed are rows whose HEAD exceeds `most`, and those that are nowhere less than another.
    """
    table, found, grade = frontier.table, frontier.found, frontier.grade
    n, r = 0, frontier.first[where]
    while r >= 0:
        i = n
        while i > 0 and grade[found[i - 1]] > grade[r]:
            found[i] = found[i - 1]
            i -= 1
        found[i] = r
        n, r = n + 1, frontier.after[r]
    frontier.first[where] = -1
    kept = 0
    for i in range(n):
        r = found[i]
        if table[r, HEAD] <= most and is_needed(table, found[:kept], r):
            found[kept] = r
            kept += 1
        else:
            free(frontier, r)
    return kept


@borrowing
def is_needed(table: Floats, others: Ints, r: int) -> bool:
    """Whether row r is less than each of these rows in some column."""
    for other in others:
        d = 0
        while d < table.shape[1] and table[r, d] >= table[other, d]:
            d += 1
        if d == table.shape[1]:
            return False
    return True
