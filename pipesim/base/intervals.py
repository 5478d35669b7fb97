"""Overlapping spans assigned to tracks, so that spans on a track do not overlap.

    spans      a |-----|                 track 0   a |-----|  c |-----|
               b    |------|             track 1   b    |------|
               c          |-----|

Spans that only touch can share a track.
"""

import heapq

import numpy as np

from pipesim.base.arrays import Ints


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
