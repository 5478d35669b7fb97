"""A recorded pipelined iteration, rebuilt as plan, schedule, costs and links, simulated and compared with the record.

    recording ─┬─> plan, schedule, costs ─> program ── recorded durations ──> simulated timeline ─┐
               ├─> links inferred from it ─┘                                                      ├─> comparison
               └─> recorded timeline ─────────────────────────────────────────────────────────────┘

Actions have their recorded durations; the engine determines when they start, from the schedule and the dependencies.

    forward, backward, weight    seconds of a rank in actions F, in B and I, in W
    communication                a rank is idle although the input of its next action has been computed
    idle                         the rest: the input of the next action has not been computed yet, or the action has
                                 no input from another rank and the host is slow, or there is no next action
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis import metrics
from pipesim.base import units
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import Costs, costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import BACKWARD, FORWARD, INPUT, WEIGHT, Program
from pipesim.core.recording import Recording, dependencies
from pipesim.core.schedule import Schedule
from pipesim.core.timeline import Timeline
from pipesim.engines import by_name
from pipesim.lowering import DEFAULTS, Options, Setup, lower

PHASES = ("forward", "backward", "weight", "communication", "idle")
_KINDS = {"forward": (FORWARD,), "backward": (BACKWARD, INPUT), "weight": (WEIGHT,)}
_AT_ONCE = 1e15  # bytes/s of a link whose time does not depend on bytes


@dataclass(frozen=True, slots=True, eq=False)
class Rebuilt:
    """A recording as values that can be simulated."""

    recording: Recording
    plan: Plan
    schedule: Schedule
    costs: Costs
    cluster: Cluster
    recorded: Timeline
    simulated: Timeline


def rebuilt(
    recording: Recording, cluster: Cluster | None = None, options: Options = DEFAULTS, engine: str = "auto"
) -> Rebuilt:
    """Rebuild a recording and simulate it, with links inferred from the recording or those of another cluster."""
    on = cluster or cluster_of(recording)
    plan = plan_of(recording, on)
    schedule = schedule_of(recording, plan, on)
    costs = costs_of(recording.trace)
    rows = _rows(recording, plan, on)
    recorded = _recorded(lower(Setup(plan, schedule, costs, on)), recording, rows)
    program = _as_recorded(lower(Setup(plan, schedule, costs, on, options)), recording, rows)
    return Rebuilt(recording, plan, schedule, costs, on, recorded, by_name.run(program, engine))


# --- core types ------------------------------------------------------------------------------------------------------


def plan_of(recording: Recording, cluster: Cluster) -> Plan:
    """The layers of each rank; rank r, by position, is device r of the cluster."""
    if len(cluster.devices) < len(recording.ranks):
        raise InputError(
            f"cluster {cluster.name!r} has {len(cluster.devices)} devices; {len(recording.ranks)} were expected, one "
            "for each recorded rank"
        )
    stages, first = list[Stage](), 0
    for stage, stop in enumerate(recording.stops):
        stages.append(Stage(first, stop, tuple(cluster.devices[rank].name for rank in _replicas(recording, stage))))
        first = stop
    return Plan(
        recording.trace.model,
        recording.trace.layer_count,
        recording.microbatches,
        tuple(stages),
        "whole",
        planner="recorded",
    )


def _replicas(recording: Recording, stage: int) -> list[int]:
    """The ranks of a stage: the one of microbatch 0, of microbatch 1, ... until they repeat."""
    held = set(recording.rank[recording.stage == stage].tolist())
    order = [recording.rank_of(stage, microbatch) for microbatch in range(min(len(held), recording.microbatches))]
    if set(order) != held:
        raise InputError(
            f"stage {stage} ran on ranks {', '.join(str(recording.ranks[rank]) for rank in sorted(held))}, but not "
            "with its microbatches assigned to them in turn; such a plan cannot be written"
        )
    return order


def schedule_of(recording: Recording, plan: Plan, cluster: Cluster) -> Schedule:
    """The actions of each rank in recorded order."""
    columns = np.stack([recording.stage, recording.kind, recording.microbatch], axis=1)
    rank_of = {cluster.devices[rank].name: rank for rank in range(len(recording.ranks))}
    return Schedule.of_arrays([columns[recording.rank == rank_of[name]] for name in plan.devices])


def _rows(recording: Recording, plan: Plan, cluster: Cluster) -> Ints:
    """The recorded action of each task of a program: task i is action i of the schedule."""
    rank_of = {cluster.devices[rank].name: rank for rank in range(len(recording.ranks))}
    return np.concatenate([np.flatnonzero(recording.rank == rank_of[name]) for name in plan.devices])


def cluster_of(recording: Recording) -> Cluster:
    """Ranks with a link from each to those that read its output, with the speed inferred from the recording.

    Its time is the median from the end of an action to the start of one on another rank that was waiting for it; if
    none ever waited, the least time between them.
    """
    names = [f"rank{rank}" for rank in recording.ranks]
    kind = recording.trace.device_kinds[0]
    devices = tuple(Device(name, kind, node=name) for name in names)
    links = tuple(
        Link(names[a], names[b], *_speed(recording, pairs), "one_way") for (a, b), pairs in _readers(recording).items()
    )
    return Cluster("recorded", devices, links)


def _readers(recording: Recording) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """(sender, receiver) -> pairs of an action and one that reads its output."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for made, read in sorted(dependencies(recording)):
        ends = int(recording.rank[made]), int(recording.rank[read])
        if ends[0] != ends[1]:
            found[ends].append((made, read))
    return found


def _speed(recording: Recording, pairs: list[tuple[int, int]]) -> tuple[float, float]:
    """Bandwidth and latency of a link, inferred from the waiting times of its receiver."""
    made, read = np.array(pairs, np.int64).T
    same = recording.rank[np.maximum(read - 1, 0)] == recording.rank[read]
    free = np.where((read > 0) & same, recording.end[np.maximum(read - 1, 0)], 0)
    gap = np.maximum(recording.start[read] - recording.end[made], 0)
    waited = free <= recording.end[made]
    seconds = units.to_s(float(np.median(gap[waited]) if waited.any() else gap.min()))
    sizes = {float(recording.cut_bytes[min(int(recording.stage[at]) for at in pair)]) for pair in pairs}
    size = sizes.pop() if len(sizes) == 1 else 0.0
    return (size / seconds, 0.0) if size > 0 and seconds > 0 else (_AT_ONCE, seconds)


# --- timelines -------------------------------------------------------------------------------------------------------


def _as_recorded(program: Program, recording: Recording, rows: Ints) -> Program:
    """The program with recorded durations of all actions."""
    duration = program.duration.copy()
    duration[: len(rows)] = (recording.end - recording.start)[rows]
    return program.with_durations(duration)


def _recorded(program: Program, recording: Recording, rows: Ints) -> Timeline:
    """The recording as a timeline. A transfer lasts from the computation of its tensor until its use."""
    start, end = np.zeros(len(program), np.int64), np.zeros(len(program), np.int64)
    start[: len(rows)], end[: len(rows)] = recording.start[rows], recording.end[rows]
    needing, needed = program.needs.row_of_value(), program.needs.values
    moves = np.arange(len(program)) >= len(rows)
    start[needing[moves[needing]]] = end[needed[moves[needing]]]
    used = moves[needed]
    end[needed[used]] = np.maximum(start[needing[used]], start[needed[used]])
    return Timeline(program, start, end, "recorded")


# --- comparison ------------------------------------------------------------------------------------------------------


def spent(timeline: Timeline) -> dict[str, dict[str, float]]:
    """For each rank the seconds of the iteration by phase; they add up to its length."""
    program = timeline.program
    lasting = timeline.end - timeline.start
    exposed = metrics.exposed_communication(timeline)
    found = {}
    for lane, name in enumerate(program.devices):
        phases = {
            phase: int(lasting[(program.lane == lane) & np.isin(program.kind, kinds)].sum())
            for phase, kinds in _KINDS.items()
        }
        phases["communication"] = int(exposed[lane])
        phases["idle"] = timeline.makespan - sum(phases.values())
        found[name] = {phase: units.to_s(phases[phase]) for phase in PHASES}
    return found


def comparison(made: Rebuilt) -> dict[str, Any]:
    """Recorded against replayed, as `pipesim rebuild --json` prints it."""
    recording = made.recording
    recorded, replayed = (metrics.iteration_time(timeline) for timeline in (made.recorded, made.simulated))
    before, after = spent(made.recorded), spent(made.simulated)
    place = {made.cluster.devices[position].name: position for position in range(len(recording.ranks))}
    ranks = [
        {
            "rank": recording.ranks[place[name]],
            "device": name,
            "recorded_s": before[name],
            "replayed_s": after[name],
            "clock_shift_s": units.to_s(int(recording.shift[place[name]])),
            "clock_doubt_s": units.to_s(int(recording.doubt[place[name]])),
            "step_s": units.to_s(int(recording.step[place[name]])) or None,
        }
        for name in made.plan.devices
    ]
    return {
        "model": recording.trace.model,
        "source": recording.source,
        "stages": recording.stages,
        "microbatches": recording.microbatches,
        "layers": recording.trace.layer_count,
        "cluster": made.cluster.name,
        "recorded_s": recorded,
        "replayed_s": replayed,
        "error": replayed / recorded - 1 if recorded else None,
        "ranks": sorted(ranks, key=lambda row: row["rank"]),
        "links": [
            {"source": link.source, "target": link.target, "bandwidth": link.bandwidth, "latency_s": link.latency}
            for link in made.cluster.links
        ],
        "schedule": str(made.schedule).split("\n"),
        "engine": made.simulated.engine,
    }
