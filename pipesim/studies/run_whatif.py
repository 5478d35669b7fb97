"""What would change the steps of a recorded run: work spread otherwise, faster messages, another schedule.

Durations of the recorded operations are changed, and every step is simulated again without launch gaps, whose time is
added. For another schedule each replica is a pipeline of its own with its recorded computing times, under that schedule
and under its own; the difference is added to the recorded step. Layers are assumed to be alike: a device's time is
divided evenly over its chunks, and a backward evenly over its two parts.

With layers (`pipesim.analysis.run_layers`) another cut too, or that of a planner: `pipesim.studies.run_cuts`. Messages,
sums of gradients and the optimizer take as long as recorded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis.removed_causes import STRAGGLERS, Removal
from pipesim.analysis.run_variance import ComputingTimes
from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError
from pipesim.core import recorded_run as runs
from pipesim.core.program import ACTIVATION, COLLECTIVES, FORWARD, GRADIENT, WEIGHT, Program
from pipesim.core.recorded_run import RecordedRun
from pipesim.engines import compiled
from pipesim.lowering import Options, lower
from pipesim.lowering.recorded_steps import RecordedStep
from pipesim.studies import equal_stages, run_cuts, run_replay
from pipesim.studies.run_cuts import Cuts, Schedule, Variant
from pipesim.studies.run_prediction import recorded_steps
from pipesim.studies.simulation import TRANSFERS_OF


@dataclass(frozen=True, slots=True)
class RunChange:
    """A change, and the mean step with it."""

    what: str
    name: str
    iteration_time_s: float
    gain_s: float
    gain: float
    assumes: str = ""
    """What the change rests on beside the recorded times."""


def changes(
    run: RecordedRun,
    by: float = 0.1,
    schedules: Sequence[Schedule] = (),
    cuts: Cuts | None = None,
) -> list[RunChange]:
    """The mean step with each change, those that save most first; `by` is how much faster messages are.

    `schedules` are names of schedulers, each with its chunks per device or None for as many as it asks for. `cuts` are
    simulated under the schedule of the run, and under each of these in place of it.
    """
    if not 0 < by < np.inf:
        raise InputError(f"by = {by} found; more than 0 was expected (0.1: a tenth faster)")
    own = _own_schedule(run) if schedules or cuts else None
    cut = None if cuts is None else run_cuts.CutRun.of(run, cuts.layers, own)
    variants = [] if cut is None or cuts is None else cut.variants(cuts, schedules)
    recorded = float(run.step_ns.mean())
    found = _of_operations(run, by, variants)
    found += [
        (("schedule", run_cuts.named(schedule)), recorded + gain)
        for schedule, gain in _of_schedules(run, own, schedules)
    ]
    if cut is not None:
        found += [((one.what, one.name), recorded + gain) for one, gain in cut.gains(variants)]
    assumes = "" if cuts is None else cuts.layers.assumption
    rows = [
        RunChange(
            what, name, units.to_s(ns), units.to_s(recorded - ns), 1 - ns / recorded if recorded else 0.0,
            assumes if what in run_cuts.WHATS else "",
        )
        for (what, name), ns in found
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row.iteration_time_s)


def _of_operations(run: RecordedRun, by: float, variants: Sequence[Variant]) -> list[tuple[tuple[str, str], float]]:
    """The mean step in ns with each change of the recorded operations."""
    steps, total = recorded_steps(run), np.zeros(0)
    names: list[tuple[str, str]] = []
    for step in steps:
        program = step.without_gaps()
        names, columns = _durations(run, program, by)
        in_steps = [one for one in variants if one.ratio is not None]
        names += [(one.what, one.name) for one in in_steps]
        columns += [_with_ratio(step, one.ratio) for one in in_steps if one.ratio is not None]
        durations = np.stack([program.duration, *columns], axis=1)
        ends = compiled.makespans(program, np.arange(len(program)), durations)
        gaps = step.run.step_ns[0] - ends[0]
        found = np.array([*(ends[1:] + gaps), ends[0]], np.float64)
        total = found if not len(total) else total + found
    names.append(("launch gaps", "none"))
    return list(zip(names, (total / len(steps)).tolist(), strict=True))


def _with_ratio(step: RecordedStep, ratio: Floats) -> Ints:
    """Durations of a step without gaps, its computations multiplied by [kind, stage]."""
    duration = step.without_gaps().duration.astype(np.float64)
    rows = np.flatnonzero(step.run.is_computation)
    duration[rows] *= ratio[step.run.kind[rows], step.run.stage[rows]]
    return np.rint(duration).astype(np.int64)


def _of_schedules(
    run: RecordedRun, own: Schedule | None, schedules: Sequence[Schedule]
) -> Iterator[tuple[Schedule, float]]:
    """What each schedule adds to the mean step, in ns."""
    if not schedules:
        return
    if own is None:
        raise InputError(run_cuts.NO_SCHEDULE)
    before = _pipelines(run, *own)
    for schedule in schedules:
        yield schedule, _pipelines(run, *schedule) - before


def _durations(run: RecordedRun, program: Program, by: float) -> tuple[list[tuple[str, str]], list[Ints]]:
    """The changes of the operations of a step, and the durations with each."""
    removal = Removal(program)
    ((alike, _),), ((even, _),) = removal.without(list(STRAGGLERS)), removal.without(["imbalance"])
    faster = np.rint(program.duration / (1 + by)).astype(np.int64)
    messages, collectives = (np.isin(program.kind, kinds) for kinds in ((ACTIVATION, GRADIENT), COLLECTIVES))
    names = [
        ("microbatches", "all alike, on all replicas"),
        ("stages", "equal work"),
        ("messages", f"{100 * by:g} % faster"),
        ("collectives", f"{100 * by:g} % faster"),
        *(("rank", f"{number} at the mean of its stage") for number in run.ranks),
    ]
    columns = [
        alike.duration,
        even.duration,
        np.where(messages, faster, program.duration),
        np.where(collectives, faster, program.duration),
        *(np.where(program.lane == rank, alike.duration, program.duration) for rank in range(len(run.ranks))),
    ]
    return names, columns


def _own_schedule(run: RecordedRun) -> Schedule | None:
    """The scheduler of the run and its chunks; None where none has its order."""
    name = run_replay.schedule_name(run, run_replay.order_of(run))
    return None if name == run_replay.AS_RECORDED else (name, run.layout.vpp if run.layout.vpp > 1 else None)


def _pipelines(run: RecordedRun, scheduler: str, chunks: int | None) -> float:
    """The mean over steps, in ns, of the slowest replica's pipeline under a schedule."""
    times = ComputingTimes.of(run)
    hop = run_cuts.hop_s(run)
    posted = TRANSFERS_OF["megatron"]
    transfers: Any = posted.get(scheduler, posted[""])
    options = Options(transfers=transfers, sharing="none")
    setup = equal_stages.setup(
        scheduler, run.layout.pp, run.microbatches, equal_stages.Times.of(hop=hop), chunks, options
    )
    program = lower(setup)
    rows = np.flatnonzero(program.is_compute & (program.kind <= WEIGHT))
    steps, replicas = times.ns.shape[:2]
    # Seconds of each device in forwards and in backwards, of each microbatch: [step, replica, microbatch, place].
    position = run.position[run.rank[times.row[0, 0, 0]]]
    forward, backward = (
        np.stack([times.ns[..., (position == place) & chosen].sum(axis=3) for place in range(run.layout.pp)], axis=-1)
        for chosen in (times.kind == runs.FORWARD, times.kind != runs.FORWARD)
    )
    held = np.array([len(np.unique(program.stage[lane])) for lane in program.order])
    lane, microbatch, kind = program.lane[rows], program.microbatch[rows], program.kind[rows]
    whole = np.where(kind == FORWARD, forward[:, :, microbatch, lane], backward[:, :, microbatch, lane])
    parts = held[lane] * np.where(np.isin(kind, (runs.INPUT, runs.WEIGHT)), 2, 1)
    durations = np.repeat(program.duration[:, None], steps * replicas, axis=1)
    durations[rows] = np.rint(whole / parts).astype(np.int64).reshape(steps * replicas, len(rows)).T
    ends = compiled.makespans(program, np.arange(len(program)), durations)
    return float(ends.reshape(steps, replicas).max(axis=1).mean())
