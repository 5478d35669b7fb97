"""Repeated blocks: where the four actions of one microbatch stand on a V of chunks; microbatches follow each other.

    chunk 0 goes down the lanes, chunk 1 comes back up; backwards the same way round. Six units hold all of both.

    lane 0   F0 . . . . . . F1 I1 . . . . . . I0           slopes: units from lane to lane, in each of the four passes
    lane 1    . F0 . . . F1 . . . I1 . . I0                gaps: units between two passes, where they turn

Blocks follow each other every six units; weights' gradients fill what is left. The idea is that of "Pipeline
Parallelism with Controllable Memory" (Qi and others, 2024); slopes and gaps here were found by search.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.schedulers.board import Board

UNITS = 6  # in a block


class Block(NamedTuple):
    """Units per lane in each pass, and between passes."""

    slopes: tuple[int, int, int, int]
    gaps: tuple[int, int, int]


def starts(block: Block, lanes: int) -> Ints:
    """[pass, lane]: the unit at which each of F0, F1, I1, I0 stands."""
    down, up = np.arange(lanes), np.arange(lanes)[::-1]
    rows, at = [], 0
    for number, slope in enumerate(block.slopes):
        rows.append(at + slope * (down if number % 2 == 0 else up))
        at = int(rows[-1].max()) + 1 + (block.gaps[number] if number < len(block.gaps) else 0)
    return np.array(rows, np.int64)


def in_flight(block: Block, lanes: int) -> int:
    """The most chunks that a lane has between the begin of a forward and the end of its I, in the block's own order."""
    at = starts(block, lanes)
    begin, end = at[[0, 1]], at[[3, 2]] + 1  # [chunk, lane]
    unit = np.arange(UNITS)[:, None, None]
    return int(((unit - begin) // UNITS - (unit - end) // UNITS).sum(axis=1).max())


def keys(block: Block, board: Board) -> tuple[Ints, Ints]:
    """Keys of forwards and of backwards, [stage, microbatch], for stages on a V."""
    at = starts(block, board.lanes)
    after = UNITS * np.arange(board.microbatches)
    first = np.concatenate([at[0], at[1][::-1]])  # stage n is on lane n, then on lane 2p - 1 - n
    back = np.concatenate([at[3], at[2][::-1]])
    return first[:, None] + after, back[:, None] + after
