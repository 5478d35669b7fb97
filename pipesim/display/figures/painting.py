"""Rasterisation of many spans and steps, so that the cost of a figure depends on its pixels, not on their number.

Spans narrower than a pixel are mixed to their average colour:

    columns      |    |    |    |    |
    spans        |FF|BBBB|FF|BBBB|FF |
    painted      | fb | bf | fb | b. |       each colour in proportion to its time; '.' idle

Of the steps within a pixel, the first, the last, the lowest and the highest are kept.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints


class Spans(NamedTuple):
    """Spans in strips, begin and end in pixels, coloured by a position in a palette. They do not overlap."""

    strip: Ints
    begin: Floats
    end: Floats
    color: Ints


def is_wide(spans: Spans, most: int) -> NDArray[np.bool_]:
    """Which spans are drawn as boxes: those at least a pixel wide, but at most `most`, the widest."""
    width = spans.end - spans.begin
    if np.count_nonzero(width >= 1) <= most:
        return width >= 1
    return width > float(np.partition(width, -most)[-most])


def paint(spans: Spans, wide: NDArray[np.bool_], shape: tuple[int, int], palette: Floats, idle: Floats) -> Floats:
    """Red, green, blue and alpha of each (strip, column). Alpha is 0 where there are no narrow spans."""
    light = np.stack([_cover(spans, palette[spans.color, channel], shape) for channel in range(3)], axis=-1)
    total = _cover(spans, np.ones(len(spans.strip)), shape)[..., None]
    mixed = (light + np.maximum(1 - total, 0) * idle) / np.maximum(total, 1)
    narrow = Spans(spans.strip[~wide], spans.begin[~wide], spans.end[~wide], spans.color[~wide])
    touched = _cover(narrow, np.ones(len(narrow.strip)), shape) > 0
    return np.concatenate([np.clip(mixed, 0, 1), touched[..., None]], axis=-1)


def _cover(spans: Spans, weight: Floats, shape: tuple[int, int]) -> Floats:
    """Per (strip, column): the sum over spans of weight times the part of the column that a span covers.

    A span covers part of its first column, part of its last, and all between them. Those are added as differences, +1
    after the first and -1 at the last, whose cumulative sum is taken along the row.
    """
    columns = shape[1]
    first = np.clip(np.floor(spans.begin), 0, columns - 1).astype(np.int64)
    last = np.clip(np.ceil(spans.end) - 1, first, columns - 1).astype(np.int64)
    at_first = np.minimum(spans.end, first + 1) - spans.begin
    at_last = np.where(last > first, spans.end - last, 0)
    base, cells = spans.strip * columns, shape[0] * columns
    cover = _sums(base + first, weight * at_first, cells) + _sums(base + last, weight * at_last, cells)
    long = last > first + 1
    if long.any():
        base, weight = base[long], weight[long]
        change = _sums(base + first[long] + 1, weight, cells) - _sums(base + last[long], weight, cells)
        cover += np.cumsum(change)
    return cover.reshape(shape)


def _sums(cell: Ints, weight: Floats, cells: int) -> Floats:
    """The sum of the weights in each cell."""
    return np.bincount(cell, weight, cells).astype(np.float64, copy=False)


def thin_steps(time: Ints, value: Floats, columns: int, horizon: int) -> tuple[Ints, Floats]:
    """A step curve that looks the same on this many columns of pixels, with at most four points in each."""
    if len(time) <= 4 * columns:
        return time, value
    column = time * columns // max(1, horizon)
    first = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
    last = np.append(first[1:], len(time)) - 1
    by_value = np.lexsort((value, column))  # sorted by value within each column
    kept = np.unique(np.concatenate([first, last, by_value[first], by_value[last]]))
    return time[kept], value[kept]
