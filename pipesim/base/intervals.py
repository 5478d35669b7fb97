"""Spans that overlap in time, dealt out to tracks on which none overlaps another.

    spans      a |-----|                 track 0   a |-----|  c |-----|
               b    |------|             track 1   b    |------|
               c          |-----|

Spans that only touch may share a track.
"""

import heapq

import numpy as np

from pipesim.base.arrays import Ints


def tracks(row: Ints, start: Ints, end: Ints) -> Ints:
    """For each span the lowest track of its row that is free when it starts; rows are apart from each other."""
    track = np.zeros(len(row), np.int64)
    if not len(row):
        return track
    order = np.lexsort((end, start, row))
    # One long axis, row after row, so that one running maximum serves all rows.
    apart = row[order] * (int(end.max()) + 1)
    begins, ends = start[order] + apart, end[order] + apart
    free = np.concatenate([[True], begins[1:] >= np.maximum.accumulate(ends)[:-1]])
    cluster = np.cumsum(free) - 1
    crowded = np.flatnonzero((np.bincount(cluster) > 1)[cluster])  # most spans are alone: the loop is for the others
    track[order[crowded]] = _dealt(begins[crowded].tolist(), ends[crowded].tolist())
    return track


def _dealt(begins: list[int], ends: list[int]) -> list[int]:
    """The tracks of spans in order of their begin: the lowest that is free, or a new one."""
    dealt: list[int] = []
    busy: list[tuple[int, int]] = []  # heap of (end, track)
    free: list[int] = []  # heap of tracks
    for begin, end in zip(begins, ends, strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        track = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, track))
        dealt.append(track)
    return dealt
