"""The partial plans that `reach` keeps: one row of least values each, in linked lists by where the plans end."""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing, inlined

HEAD = 0  # the column by which rows are graded


class Frontier(NamedTuple):
    """Rows in lists: `first[where]`, then `after[row]`, to -1, from the highest grade down; and rows `here`, by grade.

    A list has at most one row of each grade, a range of HEAD, and a row has the least of every column over all the
    partial plans of its grade that end there.
    """

    table: Floats  # [row, column]
    after: Ints  # [row]: the next of its list
    grade: Ints  # [row]
    first: Ints  # [where]
    here: Ints  # [grade]: a row, or -1
    ends: Ints  # the first row of the list of free ones, or -1; rows that have been in use; rows that are to be added
    found: Ints  # rows that are needed, from the lowest grade up
    label: Floats  # [column]: the row to be added


def frontier_of(lists: int, rows: int, grades: int, width: int) -> Frontier:
    """Empty lists."""
    return Frontier(
        np.empty((rows, width)),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.full(lists, -1),
        np.full(grades, -1),
        np.array([-1, 0, 0]),
        np.empty(grades, np.int64),
        np.empty(width),
    )


@inlined
@borrowing
def has_room(frontier: Frontier, rows: int) -> bool:
    """Whether so many rows can be added."""
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
    return frontier._replace(table=table, after=after, grade=grade)


@inlined
@borrowing
def add(frontier: Frontier, where: int, level: int) -> None:
    """Add `label` to a list, or lower its row of the same grade to it."""
    after, grade = frontier.after, frontier.grade
    before, r = -1, frontier.first[where]
    while r >= 0 and grade[r] > level:
        before, r = r, after[r]
    if r >= 0 and grade[r] == level:
        lower(frontier, r)
        return
    new = filled(frontier, level)
    after[new] = r
    if before < 0:
        frontier.first[where] = new
    else:
        after[before] = new


@inlined
@borrowing
def add_here(frontier: Frontier, level: int) -> None:
    """The same for the rows `here`."""
    if frontier.here[level] >= 0:
        lower(frontier, frontier.here[level])
    else:
        frontier.here[level] = filled(frontier, level)


@inlined
@borrowing
def lower(frontier: Frontier, r: int) -> None:
    """Lower every column of a row to `label`."""
    table, label = frontier.table, frontier.label
    for d in range(table.shape[1]):
        table[r, d] = min(table[r, d], label[d])


@inlined
@borrowing
def filled(frontier: Frontier, level: int) -> int:
    """A row that was free, with the columns of `label`."""
    r: int = frontier.ends[0]
    if r < 0:
        r = frontier.ends[1]
        frontier.ends[1] += 1
    else:
        frontier.ends[0] = frontier.after[r]
    for d in range(frontier.label.shape[0]):
        frontier.table[r, d] = frontier.label[d]
    frontier.grade[r] = level
    return r


@inlined
@borrowing
def free(frontier: Frontier, r: int) -> None:
    """A row that is in no list may be used again."""
    frontier.after[r] = frontier.ends[0]
    frontier.ends[0] = r


@inlined
@borrowing
def thinned(frontier: Frontier, where: int, most: float) -> bool:
    """Free those rows of a list that are not needed, and turn it round; whether there are any that are.

    Not needed are rows whose HEAD exceeds `most`, and those that are nowhere less than one of a lower grade.
    """
    found, after = frontier.found, frontier.after
    n, r = 0, frontier.first[where]
    while r >= 0:
        found[n] = r
        n, r = n + 1, after[r]
    for i in range(n // 2):
        found[i], found[n - 1 - i] = found[n - 1 - i], found[i]
    kept, r = needed(frontier, n, most), -1
    for i in range(kept - 1, -1, -1):
        after[found[i]], r = r, found[i]
    frontier.first[where] = r
    return kept > 0


@inlined
@borrowing
def taken(frontier: Frontier, most: float) -> int:
    """Put the rows `here` that are needed into `found`, and free the others; how many are needed."""
    here, found, n = frontier.here, frontier.found, 0
    for level in range(here.shape[0]):
        if here[level] >= 0:
            found[n] = here[level]
            here[level] = -1
            n += 1
    return needed(frontier, n, most)


@inlined
@borrowing
def needed(frontier: Frontier, n: int, most: float) -> int:
    """Move the needed ones of the first n rows in `found` to its beginning, and free the others; how many they are."""
    table, found, kept = frontier.table, frontier.found, 0
    for i in range(n):
        r = found[i]
        if table[r, HEAD] <= most and is_needed(table, found[:kept], r):
            found[kept] = r
            kept += 1
        else:
            free(frontier, r)
    return kept


@borrowing
def free_all(frontier: Frontier, where: int) -> None:
    """Empty a list."""
    r = frontier.first[where]
    while r >= 0:
        after = frontier.after[r]
        free(frontier, r)
        r = after
    frontier.first[where] = -1


@inlined
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
