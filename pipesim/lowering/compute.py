"""The passes that add what runs on lanes: forwards, backwards, optimizer steps, and their seconds."""

import numpy as np
from numpy.typing import NDArray

from pipesim import units
from pipesim.cluster import Cluster
from pipesim.costs import Costs, Phase
from pipesim.lowering.job import Job, Tasks
from pipesim.plan import Plan
from pipesim.program import BACKWARD, FORWARD, INPUT, OPTIMIZER, WEIGHT, Program

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# The part of a stage's stash that the gradient of the input releases; the gradient of the weights releases the rest.
RELEASED_BY_INPUT = 0.5


PHASES: dict[int, Phase] = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUT: "backward_input",
    WEIGHT: "backward_weight",
}


def add_compute(tasks: Tasks, job: Job) -> None:
    """Task i is action i of the schedule."""
    schedule = job.schedule
    slot = job.slot_of[schedule.stage, schedule.rank]
    duration = _slot_ns(job)[slot, schedule.kind]
    first = _first_backwards(job)
    duration[first] = _slot_first_ns(job)[slot[first]]
    stash = np.array([_stash(job, n) for n, _ in job.slots], np.int64)[slot]
    released = (stash * RELEASED_BY_INPUT).astype(np.int64)
    tasks.add(
        len(schedule.stage),
        kind=schedule.kind,
        stage=schedule.stage,
        microbatch=schedule.microbatch,
        lane=schedule.rank,
        source=schedule.rank,
        target=schedule.rank,
        duration=duration,
        memory_start=np.where(schedule.kind == FORWARD, stash, 0),
        memory_end=np.select(
            [schedule.kind == BACKWARD, schedule.kind == INPUT, schedule.kind == WEIGHT],
            [-stash, -released, released - stash],
            0,
        ),
    )


def add_own_needs(tasks: Tasks, job: Job) -> None:
    """A backward needs its forward, a gradient of the weights that of the input: both on the same lane."""
    schedule = job.schedule
    slot = job.slot_of[schedule.stage, schedule.rank]
    for later, side in (((BACKWARD, INPUT), 0), ((WEIGHT,), 1)):
        rows = np.flatnonzero(np.isin(schedule.kind, later))
        tasks.needs.append((rows, job.action_at[side, slot[rows], schedule.microbatch[rows]]))


def _slot_ns(job: Job) -> Ints:
    """[slot, kind] -> nanoseconds of one action."""
    seconds = np.zeros((len(job.slots), len(PHASES)))
    for slot in range(len(job.slots)):
        for kind, phase in PHASES.items():
            seconds[slot, kind] = _slot_seconds(job, slot, phase)
    return units.to_ns(seconds)


def _slot_first_ns(job: Job) -> Ints:
    return units.to_ns(np.array([_slot_seconds(job, slot, "backward_first") for slot in range(len(job.slots))]))


def _slot_seconds(job: Job, slot: int, phase: Phase) -> float:
    stage, rank = job.slots[slot]
    part = job.plan.stages[stage]
    seconds = job.costs.seconds(phase, job.kind(rank), job.plan.share(stage))
    return float(seconds[part.start : part.stop].sum())


def _first_backwards(job: Job) -> Ints:
    """For each slot its first whole backward, which writes gradients where the others add to them."""
    schedule = job.schedule
    rows = np.flatnonzero(schedule.kind == BACKWARD)
    slot = job.slot_of[schedule.stage[rows], schedule.rank[rows]]
    return rows[np.unique(slot, return_index=True)[1]]


def _stash(job: Job, stage: int) -> int:
    part = job.plan.stages[stage]
    return round(float(job.costs.model.stash_bytes[part.start : part.stop].sum()) * job.plan.share(stage))


def add_optimizer(tasks: Tasks, job: Job) -> None:
    """One step per slot at the end of its lane, later stages first; `add_all_reduces` says what it waits for."""
    if not job.options.optimizer_s_per_byte:
        return
    for slot, (stage, rank) in sorted(enumerate(job.slots), key=lambda item: (item[1][1], -item[1][0])):
        seconds = job.parameter_bytes(stage) * job.options.optimizer_s_per_byte
        index = tasks.add(
            1,
            kind=OPTIMIZER,
            stage=stage,
            lane=rank,
            source=rank,
            target=rank,
            duration=units.to_ns(np.array([seconds])),
        )
        tasks.optimizer_of[slot] = int(index[0])


def redraw(
    program: Program, plan: Plan, costs: Costs, cluster: Cluster, *, rng: np.random.Generator, jitter: float = 0.0
) -> Program:
    """The program with every layer's time drawn anew from its samples, for every microbatch apart.

    `jitter` multiplies each layer's time by a log-normal factor of mean 1 and this coefficient of variation.
    """
    duration = program.duration.copy()
    for stage, part in enumerate(plan.stages):
        for device in part.devices:
            mine = (program.stage == stage) & (program.lane == plan.devices.index(device)) & (program.kind <= WEIGHT)
            for phase, rows in _rows_by_phase(program, np.flatnonzero(mine)):
                drawn = costs.draw(
                    phase, cluster.devices[cluster.index[device]].kind, plan.share(stage), len(rows), rng
                )
                if jitter:
                    drawn *= _noise(drawn.shape, jitter, rng)
                duration[rows] = units.to_ns(drawn[:, part.start : part.stop].sum(axis=1))
    return program.with_durations(duration)


def _rows_by_phase(program: Program, rows: Ints) -> list[tuple[Phase, Ints]]:
    """The tasks of one slot by what they cost; its first whole backward writes gradients, the others add to them."""
    by_phase = [(phase, rows[program.kind[rows] == kind]) for kind, phase in PHASES.items()]
    whole = by_phase[BACKWARD][1]
    by_phase[BACKWARD] = ("backward", whole[1:])
    return [*by_phase, ("backward_first", whole[:1])]


def _noise(shape: tuple[int, ...], jitter: float, rng: np.random.Generator) -> Floats:
    sigma = np.sqrt(np.log1p(jitter**2))
    return rng.lognormal(-(sigma**2) / 2, sigma, shape)
