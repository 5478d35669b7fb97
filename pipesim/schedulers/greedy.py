"""Greedy list scheduling: a lane that is free starts the ready action that is first by a priority rule.

    forward or backward    the ready one with the smaller key; with `strict`, forwards in the order of their keys
    weights' gradients     when nothing else is ready, and when more than `quota` of them wait
    limits                 no forward beyond `limit` microbatches in memory, or `hold` without their backward; at most
                           `window` microbatches in the pipeline

Keys that repeat (the times of the actions of microbatch 0, and a constant per further microbatch) give the schedules of
a family, see `blocks`. The loop is in `greedy_kernel`.
"""

import functools
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import compiled
from pipesim.schedulers.abstract_pipeline import AbstractPipeline
from pipesim.schedulers.greedy_kernel import Passes, Policy, StageTimes, passes_of, run

Record = TypeVar("Record", StageTimes, Policy)

UNLIMITED = 1 << 40  # microbatches
MANY = 2000  # forwards; with more, the compiled kernel is faster for a single run


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """How a lane chooses an action. Keys are [stage, microbatch]; the other arrays are [lane]."""

    forward_key: Ints
    backward_key: Ints
    limit: Floats
    hold: Ints
    warm: Ints  # forwards precede backwards while fewer than this are in flight
    quota: Ints
    patience: float = 0.0  # a weights' gradient starts only if the next arrival is later than this part of it
    split: bool = False  # gradients of input and weights are separate actions
    strict: bool = True  # forwards in the order of their keys
    window: int = UNLIMITED  # microbatches between a first stage's forward and backward
    released: float = 0.0  # the part of a microbatch's memory that the gradient of its input releases


@dataclass(frozen=True, slots=True, eq=False)
class GreedyOrder:
    """The actions of each lane, its first start and its last end. `rows` is None if the limits caused a deadlock."""

    rows: list[Ints] | None
    first: Ints
    last: Ints

    @property
    def makespan(self) -> int:
        """When the last action ends."""
        return int(self.last.max())

    @property
    def longest(self) -> int:
        """The longest time from the first to the last action of a lane."""
        return int((self.last - self.first).max())


def rules(pipeline: AbstractPipeline, **given: object) -> Rules:
    """Rules without limits, backwards first, with the given fields changed."""
    shape, lanes = pipeline.slot.shape, np.ones(pipeline.lanes)
    plain: dict[str, object] = {
        "forward_key": np.broadcast_to(np.arange(shape[1]), shape) + 1,
        "backward_key": np.zeros(shape, np.int64),
        "limit": lanes * np.inf,
        "hold": lanes.astype(np.int64) * UNLIMITED,
        "warm": lanes.astype(np.int64) * 0,
        "quota": lanes.astype(np.int64) * UNLIMITED,
    }
    return Rules(**(plain | given))  # type: ignore[arg-type]  # names and types are those of Rules


def positions(pipeline: AbstractPipeline, forward_key: Ints) -> Ints:
    """[stage, microbatch]: the position of each forward among those of its lane."""
    place, stage = pipeline.place.ravel(), np.repeat(np.arange(pipeline.stages), pipeline.microbatches)
    ordered = np.lexsort((stage, forward_key.ravel(), place))
    begins = np.searchsorted(place[ordered], np.arange(pipeline.lanes))
    found = np.zeros(len(place), np.int64)
    found[ordered] = np.arange(len(place)) - begins[place[ordered]]
    return found.reshape(forward_key.shape)


def greedy_order(pipeline: AbstractPipeline, how: Rules, position: Ints | None = None) -> GreedyOrder:
    """The order that these rules give; `position`, of the forwards, is passed by callers that try many rules."""
    is_large = position is not None or pipeline.slot.size >= MANY
    position = positions(pipeline, how.forward_key) if position is None else position
    times, policy = _times(pipeline, split=how.split), _policy(how, position)
    passes = _passes(pipeline)
    if is_large:
        rows, counts, begun, last = compiled(run)(times, policy, passes)
    else:
        rows, counts, begun, last = run(_listed(times), _listed(policy), passes)
    lengths = counts.tolist()
    is_complete = sum(lengths) == position.size * (3 if how.split else 2)
    orders = [rows[n, :length] for n, length in enumerate(lengths)] if is_complete else None
    return GreedyOrder(orders, np.maximum(begun, 0), last)


@functools.lru_cache(maxsize=1)  # callers that try many rules have one pipeline
def _passes(pipeline: AbstractPipeline) -> Passes:
    return passes_of(pipeline.slot, pipeline.lane_of, pipeline.lanes)


def _times(pipeline: AbstractPipeline, *, split: bool) -> StageTimes:
    return StageTimes(
        pipeline.slot,
        pipeline.lane_of,
        pipeline.stage_of,
        pipeline.forward,
        pipeline.input if split else pipeline.backward,
        pipeline.weight,
        pipeline.ahead,
        pipeline.back,
        pipeline.stash,
    )


def _policy(how: Rules, position: Ints) -> Policy:
    return Policy(
        position,
        how.forward_key,
        how.backward_key,
        how.limit,
        how.hold,
        how.warm,
        how.quota,
        how.patience,
        how.split,
        how.strict,
        how.window,
        how.released,
    )


def _listed(record: Record) -> Record:
    """The record with its vectors as lists, which Python reads faster."""
    values: list[Any] = [v.tolist() if isinstance(v, np.ndarray) and v.ndim == 1 else v for v in record]
    return type(record)(*values)
