"""What would change the steps of a recorded run: work spread otherwise, faster messages, another schedule.

Durations of the recorded operations are changed, and every step is simulated again without launch gaps, whose time is
added. For another schedule each replica is a pipeline of its own with its recorded computing times, under that schedule
and under its own; the difference is added to the recorded step. Layers are assumed to be alike: a device's time is
divided evenly over its chunks, and a backward evenly over its two parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis.ledger import STRAGGLERS, Removal
from pipesim.analysis.run_variance import ComputingTimes
from pipesim.base import units
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core import recorded_run as runs
from pipesim.core.program import ACTIVATION, COLLECTIVES, FORWARD, GRADIENT, WEIGHT, Program
from pipesim.core.recorded_run import RecordedRun
from pipesim.engines import compiled
from pipesim.lowering import Options, lower
from pipesim.studies import equal_stages, run_replay
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


def changes(run: RecordedRun, by: float = 0.1, schedules: Sequence[tuple[str, int | None]] = ()) -> list[RunChange]:
    """The mean step with each change, those that save most first; `by` is how much faster messages are.

    `schedules` are names of schedulers, each with its chunks per device or None for as many as it asks for.
    """
    if not 0 < by < np.inf:
        raise InputError(f"by = {by} found; more than 0 was expected (0.1: a tenth faster)")
    steps, total = recorded_steps(run), np.zeros(0)
    names: list[tuple[str, str]] = []
    for step in steps:
        program = step.without_gaps()
        names, columns = _durations(run, program, by)
        durations = np.stack([program.duration, *columns], axis=1)
        ends = compiled.makespans(program, np.arange(len(program)), durations)
        gaps = step.run.step_ns[0] - ends[0]
        found = np.array([*(ends[1:] + gaps), ends[0]], np.float64)
        total = found if not len(total) else total + found
    names.append(("launch gaps", "none"))
    recorded = float(run.step_ns.mean())
    seconds = total / len(steps)
    if schedules:
        own = _pipelines(run, *_own_schedule(run))
        for name, chunks in schedules:
            names.append(("schedule", name if chunks is None else f"{name}, {chunks} chunks"))
            seconds = np.append(seconds, recorded + _pipelines(run, name, chunks) - own)
    rows = [
        RunChange(what, name, units.to_s(ns), units.to_s(recorded - ns), 1 - ns / recorded if recorded else 0.0)
        for (what, name), ns in zip(names, seconds.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda row: row.iteration_time_s)


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


def _own_schedule(run: RecordedRun) -> tuple[str, int | None]:
    name = run_replay.schedule_name(run, run_replay.order_of(run))
    if name == run_replay.AS_RECORDED:
        raise InputError("no scheduler has the order of this run; another one cannot be compared with it")
    return name, run.layout.vpp if run.layout.vpp > 1 else None


def _pipelines(run: RecordedRun, scheduler: str, chunks: int | None) -> float:
    """The mean over steps, in ns, of the slowest replica's pipeline under a schedule."""
    times = ComputingTimes.of(run)
    sends = run.working[np.isin(run.kind, runs.RECEIVES)]
    hop = units.to_s(float(np.median(sends))) if len(sends) else 0.0
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
