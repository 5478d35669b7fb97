"""The passes that add what runs on lanes: forwards, backwards, optimizer steps, and their seconds."""

import functools

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ints
from pipesim.core.costs import Phase
from pipesim.core.program import BACKWARD, FORWARD, INPUT, OPTIMIZER, WEIGHT
from pipesim.core.schedule import Schedule
from pipesim.lowering.memory import action_memory, step_bytes
from pipesim.lowering.recompute import recomputation_of
from pipesim.lowering.reductions import shards
from pipesim.lowering.setup import Options, Setup
from pipesim.lowering.tasks import RANK_TASKS, STEPS, Tasks

PHASES: dict[int, Phase] = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUT: "backward_input",
    WEIGHT: "backward_weight",
}
FIRST = len(PHASES)  # a backward that writes gradients
WITH_RECOMPUTATION: tuple[Phase, ...] = ("backward", "backward_first", "backward_input")


def add_compute(tasks: Tasks, setup: Setup) -> None:
    """Task i is action i of the schedule."""
    schedule, slot = setup.schedule, setup.slot_of_action
    of_slot = _slot_ns(setup)
    duration = of_slot[slot, schedule.kind]
    first = _first_backwards(setup)
    duration[first] = of_slot[slot[first], FIRST]
    duration = paired_ns(duration, schedule, setup.options)
    memory_start, memory_end = action_memory(setup, slot)
    tasks.add(
        len(schedule.stage),
        kind=schedule.kind,
        stage=schedule.stage,
        microbatch=schedule.microbatch,
        lane=schedule.rank,
        source=schedule.rank,
        target=schedule.rank,
        duration=duration,
        memory_start=memory_start,
        memory_end=memory_end,
    )
    if setup.fold is not None:
        position = np.arange(len(schedule.rank)) - schedule.starts[schedule.rank]
        tasks.name_classes(RANK_TASKS, setup.fold.ranks[schedule.rank], position)


def paired_ns(duration: Ints, schedule: Schedule, options: Options) -> Ints:
    """With the time of pairs: the two tasks of one stand back to back, each with its part of what both take together.

    F5 B7      the first waits for what either needs; what either gives is there when the second has ended
    """
    first = np.flatnonzero(schedule.paired)
    if not len(first):
        return duration
    apart = duration[first] + duration[first + 1]
    together = options.pair_ns(duration[first].astype(np.float64), duration[first + 1].astype(np.float64))
    duration = duration.copy()
    duration[first] = np.rint(duration[first] * (together / np.maximum(apart, 1))).astype(np.int64)
    duration[first + 1] = together - duration[first]
    return duration


def add_own_needs(tasks: Tasks, setup: Setup) -> None:
    """A backward needs its forward, a gradient of the weights that of the input: both on the same lane."""
    tasks.needs += _own_needs(setup)


def _own_needs(setup: Setup) -> list[tuple[Ints, Ints]]:
    schedule, slot, found = setup.schedule, setup.slot_of_action, list[tuple[Ints, Ints]]()
    is_weight = schedule.kind == WEIGHT
    for later, side in (((schedule.kind != FORWARD) & ~is_weight, 0), (is_weight, 1)):
        rows = np.flatnonzero(later)
        done = setup.action_at(side, slot[rows], schedule.microbatch[rows])
        found.append((setup.cell_start[rows], setup.cell_end[done]))
    return found


def phases_of(setup: Setup, stage: int) -> dict[int, Phase]:
    """What actions of a stage cost; a kind that is missing costs nothing."""
    if stage or not setup.options.whole_first_stage:
        return PHASES
    return {FORWARD: "forward", BACKWARD: "backward", WEIGHT: "backward"}


def _slot_ns(setup: Setup) -> Ints:
    """[slot, kind] -> nanoseconds of one action; FIRST is the kind of the first backward."""
    phases: list[Phase] = [*(PHASES[kind] for kind in range(FIRST)), "backward_first"]
    found = units.to_ns(
        np.array([[of[phase] for phase in phases] for of in setup.by_slot(functools.partial(_seconds, setup))])
    )
    if setup.options.whole_first_stage:
        first = np.array([stage == 0 for stage, _ in setup.slots])
        found[first, INPUT], found[first, WEIGHT] = 0, found[first, BACKWARD]
    return found


def _seconds(setup: Setup, stage: int, kind: str) -> dict[Phase, float]:
    part, share, costs = setup.plan.stages[stage], setup.plan.share(stage), setup.costs_at(stage)
    found = costs.seconds_of(kind, share, part.start, part.stop)
    if setup.options.recompute == "none":
        return found
    again = recomputation_of(setup, stage)
    more: dict[Phase, float] = {}
    for phase in WITH_RECOMPUTATION:
        seconds = costs.seconds(phase, kind, share) + costs.seconds("recompute", kind, share) * again.whole
        if again.core.any():
            seconds = seconds + costs.seconds("core", kind, share) * again.core
        more[phase] = float(seconds[part.start : part.stop].sum())
    return found | more


def _first_backwards(setup: Setup) -> Ints:
    """For each slot its first whole backward, which writes gradients where the others add to them."""
    rows = np.flatnonzero(setup.schedule.kind == BACKWARD)
    return rows[np.unique(setup.slot_of_action[rows], return_index=True)[1]]


def add_optimizer(tasks: Tasks, setup: Setup) -> None:
    """One step per slot at the end of its lane, later stages first; `add_all_reduces` adds what it waits for.

    What the steps of a lane make is freed when its last one has ended: a framework's step is of all of its stages.
    """
    if not setup.options.optimizer_s_per_byte and not setup.options.step_bytes:
        return
    made = [step_bytes(setup, n) for n in range(len(setup.plan.stages))]
    for slot, (stage, rank) in sorted(enumerate(setup.slots), key=lambda item: (item[1][1], -item[1][0])):
        if setup.fold is not None and not setup.fold.has_rank(np.array(rank)):
            continue
        trained = setup.parameter_bytes(stage) - setup.frozen_bytes(stage)
        seconds = trained * setup.options.optimizer_s_per_byte / shards(setup, stage)
        index = tasks.add(
            1,
            kind=OPTIMIZER,
            stage=stage,
            lane=rank,
            source=rank,
            target=rank,
            duration=units.to_ns(np.array([seconds])),
            memory_start=made[stage],
            memory_end=-sum(made[n] for n in setup.plan.chunks[rank]) if stage == setup.plan.chunks[rank][0] else 0,
        )
        if setup.fold is not None:
            tasks.name_classes(STEPS, int(setup.fold.slots[slot]))
        tasks.optimizer_of[slot] = int(index[0])
