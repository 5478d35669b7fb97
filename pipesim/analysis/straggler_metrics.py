"""How much slower a recorded run is for its stragglers, as published by Lin et al. (OSDI 2025).

ideal       each operation of a sort takes the same time: computations the mean of their sort over all ranks and steps,
            communications the median (without waiting for other ranks); sorts are named as in the record
slowdown    mean step as recorded over the mean ideal step, both without launch gaps
of a group  (a replica, a stage, a sort) the ideal with the recorded times of this group, over the ideal
M_S, M_W    the part of what the ideal saves that is saved by the ideal times of the last stage alone (M_S), and of the
            worst 3 % of ranks alone (M_W); the score of a rank is the lower of the slowdowns of its stage and replica
steps       simulated by the rules of the published replay: sends and receives hold up no rank, and receives are posted
            ahead (`lowering.recorded_steps`); all else in pipesim waits for receives until they were posted
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.core.program import Program
from pipesim.core.recorded_run import (
    KINDS,
    RECEIVE_ACTIVATION,
    RECEIVE_GRADIENT,
    SEND_ACTIVATION,
    SEND_GRADIENT,
    RecordedRun,
)
from pipesim.lowering.recorded_steps import RecordedStep, asynchronous, recorded_step

# When everything is over, for many sets of durations: program, the sort of each task, durations[sort, set].
Makespans = Callable[[Program, Ints, Ints], Ints]

WORST = 0.03  # of the ranks
_MESSAGES = {
    "forward messages": (SEND_ACTIVATION, RECEIVE_ACTIVATION),
    "backward messages": (SEND_GRADIENT, RECEIVE_GRADIENT),
}


@dataclass(frozen=True, slots=True)
class Replaced:
    """Mean steps with a group at its ideal times among recorded ones, and the other way round."""

    ranks: tuple[int, ...]
    removed_s: float
    added_s: float
    part: float


@dataclass(frozen=True, slots=True)
class StragglerMetrics:
    """Mean steps in seconds, and slowdowns as factors."""

    recorded_s: float
    without_gaps_s: float
    ideal_s: float
    by_replica: Mapping[int, float]
    by_stage: Mapping[int, float]
    by_operation: Mapping[str, float]
    last_stage: Replaced
    worst_ranks: Replaced

    @property
    def slowdown(self) -> float:
        """Of the whole."""
        return self.without_gaps_s / self.ideal_s

    @property
    def launch_slowdown(self) -> float:
        """Of launch gaps: what the host, or anything not recorded, took."""
        return self.recorded_s / self.without_gaps_s

    def as_data(self) -> dict[str, Any]:
        """Plain numbers; groups with the greatest slowdown first."""

        def ordered(groups: Mapping[Any, float]) -> dict[str, float]:
            return {str(name): value for name, value in sorted(groups.items(), key=lambda item: -item[1])}

        def replaced(group: Replaced) -> dict[str, Any]:
            return {
                "ranks": list(group.ranks),
                "removed_s": group.removed_s,
                "added_s": group.added_s,
                "part": group.part,
            }

        return {
            "recorded_s": self.recorded_s,
            "without_gaps_s": self.without_gaps_s,
            "ideal_s": self.ideal_s,
            "slowdown": self.slowdown,
            "launch_slowdown": self.launch_slowdown,
            "by_replica": ordered(self.by_replica),
            "by_stage": ordered(self.by_stage),
            "by_operation": ordered(self.by_operation),
            "last_stage": replaced(self.last_stage),
            "worst_ranks": replaced(self.worst_ranks),
        }


def straggler_metrics(run: RecordedRun, makespans: Makespans) -> StragglerMetrics:
    """The metrics of a run; `makespans` simulates its steps, to nanoseconds."""
    overlaps = asynchronous(run)
    steps = [recorded_step(run, position, overlaps, posted_ahead=True) for position in range(len(run.steps))]
    sets = _Sets(run, steps, makespans)
    replica, stage = run.replica[run.rank], run.position[run.rank]
    sorts = _sorts(run)
    groups = [replica == n for n in range(run.layout.dp)] + [stage == n for n in range(run.layout.pp)]
    groups += [sorts == name for name in sorted(set(sorts))]
    ideal, own, *each = sets.means([~groups[0] & groups[0], groups[0] | ~groups[0], *groups])
    slowdowns = [seconds / ideal for seconds in each]
    by_replica = dict(enumerate(slowdowns[: run.layout.dp]))
    by_stage = dict(enumerate(slowdowns[run.layout.dp :][: run.layout.pp]))
    by_operation = dict(zip(sorted(set(sorts)), slowdowns[run.layout.dp + run.layout.pp :], strict=True))
    worst = _worst_ranks(run, by_replica, by_stage)
    removal = []
    for ranks in (np.flatnonzero(run.position == run.layout.pp - 1), worst):
        chosen = np.isin(run.rank, ranks)
        removed, added = sets.means([~chosen, chosen])
        part = (own - removed) / (own - ideal) if own != ideal else 0.0
        removal.append(Replaced(tuple(run.ranks[n] for n in ranks.tolist()), removed, added, part))
    recorded = float(units.to_s(float(run.step_ns.mean())))
    return StragglerMetrics(recorded, own, ideal, by_replica, by_stage, by_operation, *removal)


def _sorts(run: RecordedRun) -> Any:  # noqa: ANN401 - an array of text
    """The sort of each operation that slowdowns are given for: both ends of messages are one.

    Others are named as in the record, or by their kind where operations of several kinds have one name.
    """
    pairs = np.unique(np.stack([run.name, run.kind]), axis=1)
    several = np.bincount(pairs[0], minlength=len(run.names)) > 1
    found = np.where(several[run.name], np.array(KINDS, object)[run.kind], np.array(run.names, object)[run.name])
    for name, kinds in _MESSAGES.items():
        found[np.isin(run.kind, kinds)] = name
    return found


def _worst_ranks(run: RecordedRun, by_replica: Mapping[int, float], by_stage: Mapping[int, float]) -> Ints:
    scores = [
        min(by_replica[replica], by_stage[stage])
        for replica, stage in zip(run.replica.tolist(), run.position.tolist(), strict=True)
    ]
    count = int(np.ceil(WORST * len(run.ranks)))
    return np.lexsort((np.arange(len(scores)), -np.array(scores)))[:count].astype(np.int64)


class _Sets:
    """Sets of durations: recorded for some operations, ideal for all others."""

    def __init__(self, run: RecordedRun, steps: Sequence[RecordedStep], makespans: Makespans) -> None:
        self.run, self.makespans = run, makespans
        self.programs = [step.without_gaps() for step in steps]
        self.rows = [np.flatnonzero(run.step == n) for n in range(len(run.steps))]
        own = np.zeros(len(run), np.int64)
        for program, rows in zip(self.programs, self.rows, strict=True):
            own[rows] = program.duration[: len(rows)]
        self.own, self.ideal = own, _ideal(run, own)

    def means(self, recorded: Sequence[Bools]) -> list[float]:
        """The mean step in seconds with each of these groups of operations at their recorded times."""
        total: Floats = np.zeros(len(recorded))
        for program, rows in zip(self.programs, self.rows, strict=True):
            durations = np.repeat(program.duration[:, None], len(recorded), axis=1)
            for n, group in enumerate(recorded):
                durations[: len(rows), n] = np.where(group[rows], self.own[rows], self.ideal[rows])
            total += self.makespans(program, np.arange(len(program)), durations)
        return [units.to_s(float(ns)) for ns in total / len(self.programs)]


def _ideal(run: RecordedRun, own: Ints) -> Ints:
    """Durations with each operation at the mean, or for communications the median, of its name and kind."""
    found: Ints = own.copy()
    _, sort = np.unique(run.name * len(KINDS) + run.kind, return_inverse=True)
    for n in range(int(sort.max()) + 1):
        rows = np.flatnonzero(sort == n)
        moves = run.is_communication[rows[0]]
        found[rows] = round(float(np.median(own[rows]) if moves else own[rows].mean()))
    return found
