"""Own-operation replay: each step of a recorded run simulated with its own durations, compared with the record.

    forward, backward, weight    seconds of a rank in forwards, in backwards (or their input part), in weight gradients
    optimizer                    in the optimizer and operations of no other kind
    communication                in sends, receives and collectives alone, waiting for other ranks included
    idle                         the rest of the step

With launch gaps, which are inputs too, a replay differs from the record only where the rules of the simulation differ
from what the run did. Without, it is how far durations and dependencies alone explain the step.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis import run_summary
from pipesim.base import intervals, units
from pipesim.base.arrays import Bools, Ints
from pipesim.base.errors import InputError, PipesimError
from pipesim.core import recorded_run as runs
from pipesim.core.members import SchedulerInfo, infos
from pipesim.core.recorded_run import RecordedRun
from pipesim.core.schedule import Schedule
from pipesim.core.timeline import Timeline
from pipesim.engines import by_name
from pipesim.lowering.recorded_steps import RecordedStep, asynchronous, recorded_step
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import equal_stages

PHASES = ("forward", "backward", "weight", "optimizer", "communication", "idle")
_KINDS = {
    "forward": (runs.FORWARD,),
    "backward": (runs.BACKWARD, runs.INPUT),
    "weight": (runs.WEIGHT,),
    "optimizer": (runs.OPTIMIZER, runs.OTHER),
}
AS_RECORDED = "as recorded"
_SEARCHES = {"auto", "exact", "list_schedule"}  # whose orders depend on times
_COMPILED = 50_000  # operations of all steps
_MOST_ACTIONS = 20_000  # of a schedule that is compared with those of all schedulers


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedStep:
    """A step, its simulation with launch gaps, and seconds by rank (row) and phase (column) of both."""

    number: int
    recorded: int  # ns
    simulated: int
    without_gaps: int
    recorded_phases: Ints
    simulated_phases: Ints
    gaps: Ints  # per rank, ns in launch gaps


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedRun:
    """All steps of a run, replayed."""

    run: RecordedRun
    schedule: str  # the name of a scheduler, or `as recorded`
    order: Schedule  # of the first replica, in the first step
    steps: tuple[ReplayedStep, ...]
    engine: str


def replayed(run: RecordedRun, engine: str = "auto") -> ReplayedRun:
    """Every step simulated with its own operations."""
    overlaps = asynchronous(run)
    if engine == "auto" and len(run) > _COMPILED:
        engine = "compiled"  # each step is small, and all of them together pay for compiling
    steps, used = list[ReplayedStep](), engine
    for position in range(len(run.steps)):
        step = recorded_step(run, position, overlaps)
        with_gaps, without = by_name.run(step.program, engine), by_name.run(step.without_gaps(), engine)
        used = with_gaps.engine
        starts = step.starts(with_gaps.start)
        count = len(step.run)
        steps.append(
            ReplayedStep(
                number=run.steps[position],
                recorded=int(step.run.step_ns[0]),
                simulated=with_gaps.makespan,
                without_gaps=without.makespan,
                recorded_phases=phases(step.run, step.run.start, step.run.end),
                simulated_phases=phases(step.run, starts, with_gaps.end[:count]),
                gaps=np.bincount(step.run.rank, step.gap, minlength=len(run.ranks)).astype(np.int64),
            )
        )
    order = order_of(run)
    return ReplayedRun(run, schedule_name(run, order), order, tuple(steps), used)


def phases(step: RecordedRun, start: Ints, end: Ints) -> Ints:
    """Per rank (row) ns by phase (column) of one step whose operations run so; they add up to its length."""
    count, length = len(step.ranks), int(end.max() - start.min())
    found = np.zeros((count, len(PHASES)), np.int64)
    for column, phase in enumerate(PHASES[:4]):
        rows = np.isin(step.kind, _KINDS[phase])
        found[:, column] = _covered(step, rows, start, end)
    busy = _covered(step, np.ones(len(step), bool), start, end)
    on_lane = _covered(step, ~step.is_communication, start, end)
    found[:, 4], found[:, 5] = busy - on_lane, length - busy
    return found


def _covered(step: RecordedRun, rows: Bools, start: Ints, end: Ints) -> Ints:
    return intervals.covered_by_label(step.rank[rows], start[rows], end[rows], len(step.ranks))


# --- the schedule that was run ---------------------------------------------------------------------------------------


def order_of(run: RecordedRun, position: int = 0) -> Schedule:
    """The order of forwards and backwards on the ranks of the first replica in a step."""
    rows = np.flatnonzero((run.step == position) & run.is_computation & (run.replica[run.rank] == 0))
    places = [int(place) for place in np.unique(run.position[run.rank[rows]])]
    lanes = []
    for place in places:
        mine = rows[run.position[run.rank[rows]] == place]
        mine = mine[run.rank[mine] == run.rank[mine].min()]  # of ranks in lockstep the first
        lanes.append(np.stack([run.stage[mine], run.kind[mine], run.microbatch[mine]], axis=1))
    if not lanes:
        raise InputError(f"{run.source}: has no forwards and backwards; at least one was expected")
    return Schedule.of_arrays(lanes)


def schedule_name(run: RecordedRun, order: Schedule) -> str:
    """The scheduler that gives exactly this order for stages of equal times, or `as recorded`."""
    if len(order.kind) > _MOST_ACTIONS or len(order) != run.layout.pp:
        return AS_RECORDED
    vpp, splits = run.layout.vpp, bool(np.isin(order.kind, (runs.INPUT, runs.WEIGHT)).any())
    for name, info in infos(SCHEDULERS, "scheduler", SchedulerInfo).items():
        if name in _SEARCHES or info.splits_backward != splits:
            continue
        try:
            made = equal_stages.setup(
                name, run.layout.pp, run.microbatches, equal_stages.Times.of(), vpp if vpp > 1 else None
            )
        except PipesimError:
            continue
        if made.schedule == order:
            return name
    return AS_RECORDED


# --- results ---------------------------------------------------------------------------------------------------------


def comparison(made: ReplayedRun) -> dict[str, Any]:
    """Recorded against simulated, as `pipesim rebuild --json` prints it."""
    steps = [
        {
            "step": step.number,
            "recorded_s": units.to_s(step.recorded),
            "simulated_s": units.to_s(step.simulated),
            "error": _error(step.simulated, step.recorded),
            "without_gaps_s": units.to_s(step.without_gaps),
            "error_without_gaps": _error(step.without_gaps, step.recorded),
        }
        for step in made.steps
    ]
    run = made.run
    recorded, simulated, gaps = (
        np.mean([getattr(step, name) for step in made.steps], axis=0) / units.NS_PER_S
        for name in ("recorded_phases", "simulated_phases", "gaps")
    )
    ranks = [
        {
            "rank": rank,
            "replica": int(run.replica[at]),
            "position": int(run.position[at]),
            "recorded_s": dict(zip(PHASES, recorded[at].tolist(), strict=True)),
            "simulated_s": dict(zip(PHASES, simulated[at].tolist(), strict=True)),
            "gaps_s": float(gaps[at]),
        }
        for at, rank in enumerate(run.ranks)
    ]
    return run_summary.summary(run) | {
        "schedule": made.schedule,
        "order": str(made.order).split("\n"),
        "errors": {name: _spread(steps, name) for name in ("error", "error_without_gaps")},
        "steps": steps,
        "per_rank": ranks,
        "engine": made.engine,
    }


def _error(simulated: int, recorded: int) -> float | None:
    return simulated / recorded - 1 if recorded else None


def _spread(steps: list[dict[str, Any]], name: str) -> dict[str, float | None]:
    """Mean, mean absolute, and worst of the errors of all steps."""
    found = np.array([step[name] for step in steps if step[name] is not None])
    if not len(found):
        return {"mean": None, "mean_absolute": None, "worst": None}
    return {
        "mean": float(found.mean()),
        "mean_absolute": float(np.abs(found).mean()),
        "worst": float(found[np.argmax(np.abs(found))]),
    }


def timelines(run: RecordedRun, position: int, engine: str = "auto") -> dict[str, Timeline]:
    """A step as recorded and as simulated, to draw."""
    step = recorded_step(run, position, asynchronous(run))
    simulated = by_name.run(step.program, engine)
    return {
        "recorded": _drawn(step, step.run.start, step.run.end),
        "simulated": _drawn(step, step.starts(simulated.start), simulated.end[: len(step.run)]),
    }


def recorded_timeline(run: RecordedRun, position: int) -> Timeline:
    """A step as recorded, to draw."""
    step = recorded_step(run, position, asynchronous(run))
    return _drawn(step, step.run.start, step.run.end)


def _drawn(step: RecordedStep, start: Ints, end: Ints) -> Timeline:
    """Operations at these times; posts and joins, which take no time, are left at 0."""
    starts, ends = np.zeros(len(step.program), np.int64), np.zeros(len(step.program), np.int64)
    starts[: len(start)], ends[: len(end)] = start, end
    return Timeline(step.without_gaps(), starts, ends, "recorded")
