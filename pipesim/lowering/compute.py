"""The passes that add what runs on lanes: forwards, backwards, optimizer steps, and their seconds."""

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, Phase
from pipesim.core.plan import Plan
from pipesim.core.program import BACKWARD, FORWARD, INPUT, OPTIMIZER, WEIGHT, Program
from pipesim.core.schedule import RELEASED_BY_INPUT, Schedule
from pipesim.lowering.job import DEFAULTS, Job, Options, Tasks
from pipesim.lowering.recompute import Recomputation

PHASES: dict[int, Phase] = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUT: "backward_input",
    WEIGHT: "backward_weight",
}
WITH_RECOMPUTATION = ("backward", "backward_first", "backward_input")


def add_compute(tasks: Tasks, job: Job) -> None:
    """Task i is action i of the schedule."""
    schedule = job.schedule
    slot = job.slot_of[schedule.stage, schedule.rank]
    duration = _slot_ns(job)[slot, schedule.kind]
    first = _first_backwards(job)
    duration[first] = _slot_first_ns(job)[slot[first]]
    duration = _paired(duration, schedule, job.options)
    memory_start, memory_end = _memory(job, slot)
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


def _paired(duration: Ints, schedule: Schedule, options: Options) -> Ints:
    """With the time of pairs: the two tasks of one stand back to back, each with its part of what both take together.

    F5 B7      the first waits for what either needs; what either gives is there when the second has ended
    """
    first = np.flatnonzero(schedule.paired)
    apart = duration[first] + duration[first + 1]
    together = options.pair_ns(duration[first].astype(np.float64), duration[first + 1].astype(np.float64))
    duration = duration.copy()
    duration[first] = np.rint(duration[first] * (together / np.maximum(apart, 1))).astype(np.int64)
    duration[first + 1] = together - duration[first]
    return duration


def _memory(job: Job, slot: Ints) -> tuple[Ints, Ints]:
    """Bytes that each action adds to its device when it starts and when it ends.

    F   + stash                       B   + restored                 - stash - restored
                                      I   + restored for the W too   - its part of both      W   - the rest
    """
    recomputation = Recomputation(job.options.recompute, job.costs, job.kind(0))
    stages = job.plan.stages
    kept = job.by_slot(lambda n, _: recomputation.kept(stages[n].start, stages[n].stop, job.plan.share(n)))
    stash, restored, until_weights = np.array(kept, np.int64)[slot].T
    held = stash + until_weights
    released = (held * RELEASED_BY_INPUT).astype(np.int64)
    kinds = [job.schedule.kind == kind for kind in (FORWARD, BACKWARD, INPUT, WEIGHT)]
    nothing = np.zeros_like(stash)
    return (
        np.select(kinds, [stash, restored, until_weights, nothing]),
        np.select(kinds, [nothing, -stash - restored, -released, released - held]),
    )


def add_own_needs(tasks: Tasks, job: Job) -> None:
    """A backward needs its forward, a gradient of the weights that of the input: both on the same lane."""
    schedule = job.schedule
    slot = job.slot_of[schedule.stage, schedule.rank]
    for later, side in (((BACKWARD, INPUT), 0), ((WEIGHT,), 1)):
        rows = np.flatnonzero(np.isin(schedule.kind, later))
        done = job.action_at(side, slot[rows], schedule.microbatch[rows])
        tasks.needs.append((job.cell_start[rows], job.cell_end[done]))


def _slot_ns(job: Job) -> Ints:
    """[slot, kind] -> nanoseconds of one action."""
    return units.to_ns(np.stack([_slot_seconds(job, PHASES[kind]) for kind in range(len(PHASES))], axis=1))


def _slot_first_ns(job: Job) -> Ints:
    return units.to_ns(_slot_seconds(job, "backward_first"))


def _slot_seconds(job: Job, phase: Phase) -> Floats:
    return np.array(job.by_slot(lambda stage, kind: _seconds(job, stage, kind, phase)))


def _seconds(job: Job, stage: int, kind: str, phase: Phase) -> float:
    part, share = job.plan.stages[stage], job.plan.share(stage)
    seconds = job.costs.seconds(phase, kind, share)
    if phase in WITH_RECOMPUTATION and job.options.recompute != "none":
        again = Recomputation(job.options.recompute, job.costs, job.kind(0)).layers
        seconds = seconds + job.costs.seconds("recompute", kind, share) * again
    return float(seconds[part.start : part.stop].sum())


def _first_backwards(job: Job) -> Ints:
    """For each slot its first whole backward, which writes gradients where the others add to them."""
    schedule = job.schedule
    rows = np.flatnonzero(schedule.kind == BACKWARD)
    slot = job.slot_of[schedule.stage[rows], schedule.rank[rows]]
    return rows[np.unique(slot, return_index=True)[1]]


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


def redraw(  # noqa: PLR0917 - as `lower`
    program: Program,
    plan: Plan,
    costs: Costs,
    cluster: Cluster,
    schedule: Schedule,
    options: Options = DEFAULTS,
    *,
    rng: np.random.Generator,
    jitter: float = 0.0,
) -> Program:
    """The program with every layer's time drawn anew from its samples, for every microbatch apart.

    `jitter` multiplies each layer's time by a log-normal factor of mean 1 and this coefficient of variation.
    """
    duration, actions = program.duration.copy(), len(schedule.kind)
    first = cluster.devices[cluster.index[plan.devices[0]]].kind
    again = np.flatnonzero(Recomputation(options.recompute, costs, first).layers)
    for stage, part in enumerate(plan.stages):
        for device in part.devices:
            mine = (program.stage == stage) & (program.lane == plan.devices.index(device)) & (program.kind <= WEIGHT)
            for phase, rows in _rows_by_phase(program, np.flatnonzero(mine)):
                how = cluster.devices[cluster.index[device]].kind, plan.share(stage), len(rows), rng
                drawn = costs.draw(phase, *how)
                if phase in WITH_RECOMPUTATION and len(again):
                    drawn[:, again] += costs.draw("recompute", *how)[:, again]
                if jitter:
                    drawn *= _noise(drawn.shape, jitter, rng)
                duration[rows] = units.to_ns(drawn[:, part.start : part.stop].sum(axis=1))
    duration[:actions] = _paired(duration[:actions], schedule, options)
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
