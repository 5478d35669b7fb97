"""Intervals of time: their union, how much time they cover, and tracks on which none overlaps another.

    spans      a |-----|                 track 0   a |-----|  c |-----|        union   |----------------|
               b    |------|             track 1   b    |------|
               c          |-----|

Intervals that touch are joined in a union, and may share a track.
"""

import heapq
from itertools import pairwise

import numpy as np

from pipesim.base.arrays import Ints

_FITS = 2**62  # times of all labels, one after the other, fit into 64 bits


def tracks(row: Ints, start: Ints, end: Ints) -> Ints:
    """For each span the lowest track of its row that is free when it starts; each row has its own tracks."""
    track = np.zeros(len(row), np.int64)
    if not len(row):
        return track
    order = np.lexsort((end, start, row))
    # Rows are shifted one after the other on one axis, so that one running maximum works for all rows.
    shift = row[order] * (int(end.max()) + 1)
    begins, ends = start[order] + shift, end[order] + shift
    free = np.concatenate([[True], begins[1:] >= np.maximum.accumulate(ends)[:-1]])
    cluster = np.cumsum(free) - 1
    crowded = np.flatnonzero((np.bincount(cluster) > 1)[cluster])  # most spans overlap no other; loop over the rest
    track[order[crowded]] = _assigned(begins[crowded].tolist(), ends[crowded].tolist())
    return track


def _assigned(begins: list[int], ends: list[int]) -> list[int]:
    """The tracks of spans that are sorted by their begin: the lowest free one, or a new one."""
    assigned: list[int] = []
    busy: list[tuple[int, int]] = []  # heap of (end, track)
    free: list[int] = []  # heap of tracks
    for begin, end in zip(begins, ends, strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        track = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, track))
        assigned.append(track)
    return assigned


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Intervals that overlap or touch, joined, in order of time."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > reach[:-1])
    return start[first], reach[np.append(first[1:], True)]


def covered(start: Ints, end: Ints) -> int:
    """For how long at least one of the intervals lasts."""
    start, end = union(start, end)
    return int((end - start).sum())


def covered_by_label(label: Ints, start: Ints, end: Ints, count: int) -> Ints:
    """For each label 0, 1, ..., count - 1: for how long at least one of its intervals lasts."""
    found = np.zeros(count, np.int64)
    if not len(label):
        return found
    span = int(end.max()) - int(start.min()) + 1
    if count * span < _FITS:  # labels one after the other on one axis: one union for all
        shift = label * span - start.min()
        start, end = union(start + shift, end + shift)
        np.add.at(found, start // span, end - start)
        return found
    order = np.argsort(label, kind="stable")
    label, start, end = label[order], start[order], end[order]
    bounds = np.searchsorted(label, np.arange(count + 1))
    return np.array([covered(start[a:b], end[a:b]) for a, b in pairwise(bounds.tolist())], np.int64)
