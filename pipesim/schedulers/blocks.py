"""Repeated blocks: the times of the four actions of one microbatch on a V of chunks; each microbatch repeats them.

    chunk 0 goes down the lanes, chunk 1 up; backwards in the reverse order. The actions of both take six units.

    lane 0   F0 . . . . . . F1 I1 . . . . . . I0           slopes: units from lane to lane, in each of the four passes
    lane 1    . F0 . . . F1 . . . I1 . . I0                gaps: units between two passes, where they turn

A block starts every six units; weights' gradients fill the remaining units. The idea is that of "Pipeline Parallelism
with Controllable Memory" (Qi et al., 2024); the slopes and gaps were found by search.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.schedulers.abstract_pipeline import AbstractPipeline

UNITS = 6  # in a block


class Block(NamedTuple):
    """Units per lane in each pass, and between passes."""

    slopes: tuple[int, int, int, int]
    gaps: tuple[int, int, int]


def starts(block: Block, lanes: int) -> Ints:
    """[pass, lane]: the unit of each of F0, F1, I1, I0."""
    down, up = np.arange(lanes), np.arange(lanes)[::-1]
    rows, at = [], 0
    for number, slope in enumerate(block.slopes):
        rows.append(at + slope * (down if number % 2 == 0 else up))
        at = int(rows[-1].max()) + 1 + (block.gaps[number] if number < len(block.gaps) else 0)
    return np.array(rows, np.int64)


def in_flight(block: Block, lanes: int) -> int:
    """The most chunks of a lane between the start of a forward and the end of its I, in the order of the block."""
    at = starts(block, lanes)
    begin, end = at[[0, 1]], at[[3, 2]] + 1  # [chunk, lane]
    unit = np.arange(UNITS)[:, None, None]
    return int(((unit - begin) // UNITS - (unit - end) // UNITS).sum(axis=1).max())


def keys(block: Block, pipeline: AbstractPipeline) -> tuple[Ints, Ints]:
    """Keys of forwards and of backwards, [stage, microbatch], for stages on a V."""
    at = starts(block, pipeline.lanes)
    after = UNITS * np.arange(pipeline.microbatches)
    first = np.concatenate([at[0], at[1][::-1]])  # stage n is on lane n, then on lane 2p - 1 - n
    back = np.concatenate([at[3], at[2][::-1]])
    return first[:, None] + after, back[:, None] + after
