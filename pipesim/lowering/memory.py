"""Bytes on each device: what stages hold all the time, and what the order of a schedule adds to it.

held      parameters, gradients and optimizer state of all stages of a rank, and what the framework holds
peak      held, and the most that forwards keep for backwards, or what the optimizer's step needs if that is more: it
          begins when all backwards have ended; tasks of a lane do not overlap, so that the order of a schedule
          decides it and no time does
"""

import numpy as np

from pipesim.base.arrays import Ints, Ragged
from pipesim.core.program import BACKWARD, FORWARD, INPUT, WEIGHT
from pipesim.core.schedule import RELEASED_BY_INPUT
from pipesim.lowering.recompute import kept_of
from pipesim.lowering.reductions import shards
from pipesim.lowering.setup import SHARDINGS, Options, Setup

# Bytes of optimizer state per byte of parameters, for Adam: two moments. Parameters of 16 bits have a master copy
# beside them, and all three are kept in 32 bits.
OPTIMIZER_STATE = {"fp16": 6.0, "bf16": 6.0}
OPTIMIZER_STATE_OTHERWISE = 2.0


def static_memory(setup: Setup, copies: int | None = None) -> Ints:
    """Parameters, gradients and optimizer state of all stages on each GPU of a rank, and what the framework holds.

    `copies`: as if every stage had so many replicas.
    """
    each = [stage_bytes(setup, n, copies) for n in range(len(setup.plan.stages))]
    held = [sum(each[n] for n in stages) for stages in setup.plan.chunks]
    return np.rint(np.array(held) + setup.options.reserve + setup.options.workspace).astype(np.int64)


def stage_bytes(setup: Setup, stage: int, copies: int | None = None) -> float:
    """Bytes of a stage on one GPU, what replicas divide among them divided."""
    held, trained = byte_factors(setup, stage, copies)
    return setup.parameter_bytes(stage) * held - setup.frozen_bytes(stage) * trained


def byte_factors(setup: Setup, stage: int, copies: int | None = None) -> tuple[float, float]:
    """Bytes held per byte of trained parameters, and those of them that frozen parameters do not have."""
    return byte_factors_of(setup.options, setup.costs.model.precision, shards(setup, stage, copies))


def byte_factors_of(options: Options, precision: str, parts: int) -> tuple[float, float]:
    """As `byte_factors`, where so many GPUs divide what is sharded."""
    gradients = 1.0 if options.gradient_bytes is None else options.gradient_bytes
    state = state_factor(precision, options.optimizer_state) - 2
    level = SHARDINGS.index(options.sharding)
    own, trained = (1.0 / parts if level >= 3 else 1.0), (gradients / parts if level >= 2 else gradients)
    return own + trained + state / parts, trained + state / parts


def step_bytes(setup: Setup, stage: int, copies: int | None = None) -> int:
    """Bytes that the optimizer's step of a stage makes on one GPU, and frees when it has ended."""
    trained = setup.parameter_bytes(stage) - setup.frozen_bytes(stage)
    return round(trained * setup.options.step_bytes / shards(setup, stage, copies))


def state_factor(precision: str, optimizer_state: float | None = None) -> float:
    """Bytes held per byte of parameters: the parameters, their gradients, and the optimizer's state."""
    if optimizer_state is None:
        optimizer_state = OPTIMIZER_STATE.get(precision, OPTIMIZER_STATE_OTHERWISE)
    return 2 + optimizer_state


def action_memory(setup: Setup, slot: Ints) -> tuple[Ints, Ints]:
    """Bytes that each action adds to its device when it starts and when it ends.

    F   + stash                       B   + restored                 - stash - restored
                                      I   + restored for the W too   - its part of both      W   - the rest
    whole first stage                 I   nothing                    nothing                 W   as B
    """
    kept = setup.by_slot(lambda n, _: kept_of(setup, n))
    stash, restored, until_weights = np.array(kept, np.int64).T
    held = stash + until_weights
    released = (held * RELEASED_BY_INPUT).astype(np.int64)
    nothing = np.zeros_like(stash)
    start, end = {FORWARD: stash, BACKWARD: restored, INPUT: until_weights, WEIGHT: nothing}, {
        FORWARD: nothing, BACKWARD: -stash - restored, INPUT: -released, WEIGHT: released - held,
    }  # fmt: skip
    if setup.options.whole_first_stage:
        first = np.array([stage == 0 for stage, _ in setup.slots])
        for of in (start, end):
            of[INPUT], of[WEIGHT] = np.where(first, 0, of[INPUT]), np.where(first, of[BACKWARD], of[WEIGHT])
    place = setup.schedule.kind * len(stash) + slot
    return tuple(np.concatenate([of[kind] for kind in range(len(of))])[place] for of in (start, end))


def peak_memory(setup: Setup, copies: int | None = None) -> Ints:
    """The peak bytes of each rank: what `analysis.metrics.peak_memory` finds on its timeline, which this needs not.

    `copies`: as if every stage had so many replicas, of which the setup has one.
    """
    each = [step_bytes(setup, n, copies) for n in range(len(setup.plan.stages))]
    steps = [sum(each[n] for n in stages) for stages in setup.plan.chunks]
    return static_memory(setup, copies) + np.maximum(most_kept(setup), np.array(steps, np.int64))


def most_kept(setup: Setup) -> Ints:
    """The most bytes of activations on each rank."""
    return _kept(setup)[1]


def excess(setup: Setup) -> Ints:
    """Bytes by which each rank exceeds the memory of its device; at most 0 where it fits, 0 where it is not known."""
    memory = np.array([setup.cluster.device(name).memory for name in setup.plan.devices], np.int64)
    return np.where(memory == 0, 0, peak_memory(setup) - memory)


def held_at_peak(setup: Setup) -> list[int]:
    """For each stage, the microbatches of which a device keeps activations when it holds the most; of all replicas."""
    schedule, found = setup.schedule, [0] * len(setup.plan.stages)
    change = np.select([schedule.kind == FORWARD, np.isin(schedule.kind, [BACKWARD, WEIGHT])], [1, -1], 0)
    for rank, (place, mine) in enumerate(zip(_kept(setup)[0], _by_rank(setup), strict=True)):
        rows = mine[: place + 1]
        # A backward that has just begun still holds what its forward kept.
        counts = np.where((np.arange(len(rows)) == len(rows) - 1) & (change[rows] < 0), 0, change[rows])
        for n in setup.plan.chunks[rank]:
            found[n] = max(found[n], int(counts[schedule.stage[rows] == n].sum()))
    return found


def _kept(setup: Setup) -> tuple[list[int], Ints]:
    """For each rank, which of its actions holds the most bytes of activations, and how many."""
    schedule = setup.schedule
    start, end = action_memory(setup, setup.slot_of[schedule.stage, schedule.rank])
    places, most = [], []
    for rows in _by_rank(setup):
        held = np.cumsum(np.stack([start[rows], end[rows]], axis=1))
        places.append(int(held.argmax()) // 2 if len(held) else 0)
        most.append(int(held.max(initial=0)))
    return places, np.array(most, np.int64)


def _by_rank(setup: Setup) -> Ragged:
    """The actions of each rank, in order."""
    rank = setup.schedule.rank
    return Ragged.of_pairs(len(setup.plan.devices), rank, np.arange(len(rank)))
