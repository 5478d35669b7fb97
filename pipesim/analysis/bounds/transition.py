"""One step of the bound's dynamic programs: what a stage, or a channel between two stages, takes at the least.

`reach`, `tails` and the planner `spp_plus` go through the same plans, stage after channel after stage; here is what all
of them add to a plan when they extend it. These kernels are called for every step, so they take few arrays: each array
of an argument costs as much as a dozen additions.
"""

from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.layer_sums import BACKWARD, BOTH, FORWARD, WORK, LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing

# What leaves an island, counted apart: forwards, backwards, forwards with what they lead to, both ways together.
AHEAD, BACK, HERE, ANY = range(4)
WAYS = 4


class PlaceStep(NamedTuple):
    """What a place adds to the stage that is there."""

    size: int  # devices
    most: float  # microbatches of the replica that has most of them
    ring: float  # seconds of the all-reduce, per byte of parameters
    ring_latency: float


class StageStep(NamedTuple):
    """Seconds that a stage takes."""

    work: float  # all microbatches, on the replica that has most of them
    forward: float  # one microbatch
    backward: float
    forwards: float  # as many microbatches as the replica that has most of them has
    backwards: float
    both: float  # one microbatch, forward and backward
    ends: float  # one forward and all backwards, or all forwards and one backward
    weights: float  # bytes of parameters, not seconds
    reduce: float  # its all-reduce


class ChannelStep(NamedTuple):
    """Seconds that a channel takes, as `ChannelColumns` has them per byte: all but `delay` without the delay."""

    forward: float
    backward: float
    forward_min: float
    backward_min: float
    round_trip: float
    delay: float
    load: float


@borrowing
def place_step(sums: LayerSums, moves: Moves, p: int) -> PlaceStep:
    """What place p adds."""
    k = moves.size[p]
    return PlaceStep(k, sums.most[k], moves.ring[p], moves.ring_latency[p])


@borrowing
def stage_step(seconds: Floats, parameters: Floats, place: PlaceStep, layer: int, end: int) -> StageStep:
    """Layers l to end - 1 at a place; `seconds` and `parameters` are those of `LayerSums`."""
    k = place.size
    forward = seconds[k, end, FORWARD] - seconds[k, layer, FORWARD]
    backward = seconds[k, end, BACKWARD] - seconds[k, layer, BACKWARD]
    forwards, backwards = place.most * forward, place.most * backward
    weights = parameters[end] - parameters[layer]
    return StageStep(
        seconds[k, end, WORK] - seconds[k, layer, WORK],
        forward,
        backward,
        forwards,
        backwards,
        seconds[k, end, BOTH] - seconds[k, layer, BOTH],
        max(forward + backwards, forwards + backward),  # B25
        weights,
        place.ring * weights + place.ring_latency if weights > 0 else 0.0,  # B13
    )


@borrowing
def channel_step(channel: Floats, m: int, cut: float) -> ChannelStep:
    """A message of `cut` bytes per microbatch over the channel of move m; `channel` is that of `Moves`."""
    return ChannelStep(
        cut * channel[m, 0],  # B6
        cut * channel[m, 1],  # B6
        cut * channel[m, 2],  # B7
        cut * channel[m, 3],  # B7
        cut * channel[m, 4],  # B9
        channel[m, 5],  # B5
        cut * channel[m, 6],  # B8
    )


@borrowing
def crossing(loads: Floats, m: int, g: int, way: int, cut: float) -> float:
    """Seconds for which the links of island g are busy with what leaves it this way over the channel of move m."""
    leaves: float = cut * (loads[m, g, 0] if way != BACK else 0.0)  # B10, B12
    leaves += cut * (loads[m, g, 1] if way % 2 == 1 else 0.0)  # BACK or ANY
    return leaves


def enough_from(sums: LayerSums, target: float) -> Ints:
    """[v]: the first layer from which on v devices have enough time, T = target each, for all layers to the last."""
    found: Ints = np.searchsorted(-sums.area, -target * np.arange(sums.rest.shape[0])).astype(np.int64)  # B4
    return found
