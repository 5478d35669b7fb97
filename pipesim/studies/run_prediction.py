"""Steps of a recorded run that were not recorded: computing times drawn, all else as in one of its steps.

A step is the program of a recorded one without launch gaps, with drawn computing times, and with the time that launch
gaps added to the recorded one. Steps whose communications, optimizer and gaps took unusual time are not used for that:
with all computations at their mean, such a step is further from the median of steps than five robust standard
deviations and than 1 % of it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pipesim.analysis import metrics
from pipesim.analysis.removed_causes import Removal
from pipesim.analysis.run_variance import ComputingTimes, RunVariance, StepDraws
from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError
from pipesim.core.program import Program
from pipesim.core.recorded_run import RecordedRun
from pipesim.engines import by_name
from pipesim.lowering.recorded_steps import RecordedStep, asynchronous, recorded_step

LEVELS = ("found", "step", "microbatch", "independent")
UNUSUAL = 5.0  # robust standard deviations
LEAST = 0.01  # of a step
_NORMAL = 1.4826  # median absolute deviation to standard deviation
ENGINE = "compiled"


def recorded_steps(run: RecordedRun) -> list[RecordedStep]:
    """All steps of a run as programs."""
    overlaps = asynchronous(run)
    return [recorded_step(run, position, overlaps) for position in range(len(run.steps))]


@dataclass(frozen=True, eq=False)
class RunModel:
    """A recorded run, to draw steps from."""

    run: RecordedRun
    steps: list[RecordedStep]
    times: ComputingTimes

    @classmethod
    def of(cls, run: RecordedRun) -> "RunModel":
        """The model of all steps of a run."""
        return cls(run, recorded_steps(run), ComputingTimes.of(run))

    @cached_property
    def draws(self) -> StepDraws:
        """What computing times are drawn from."""
        return StepDraws(self.times)

    @property
    def variance(self) -> RunVariance:
        """What computing times have in common."""
        return self.draws.variance

    @cached_property
    def programs(self) -> list[Program]:
        """Each step without launch gaps."""
        return [step.without_gaps() for step in self.steps]

    @cached_property
    def gaps(self) -> Ints:
        """Nanoseconds that launch gaps add to each step."""
        own = np.array([_makespan(program) for program in self.programs])
        return np.asarray(self.run.step_ns - own)

    @cached_property
    def rest(self) -> Ints:
        """Each step in nanoseconds with all computations at the mean of their operation."""
        shape = self.times.ns.shape[1:]
        return np.array([self.step_ns(n, np.broadcast_to(self.times.mean, shape)) for n in range(len(self.steps))])

    @cached_property
    def unusual(self) -> Ints:
        """The steps in which all but computing took unusual time; none where that is a quarter of them or more."""
        apart = np.abs(self.rest - np.median(self.rest))
        found = np.flatnonzero(apart > np.maximum(UNUSUAL * _NORMAL * np.median(apart), LEAST * np.median(self.rest)))
        return found if len(found) < len(self.steps) / 4 else found[:0]

    def step_ns(self, position: int, computing: Floats) -> int:
        """A step with these computing times, [replica, microbatch, operation], and all else as recorded."""
        program, first = self.programs[position], int(np.searchsorted(self.run.step, position))
        duration = program.duration.copy()
        duration[self.times.row[position] - first] = np.rint(computing).astype(np.int64)
        return _makespan(program.with_durations(duration)) + int(self.gaps[position])

    def typical(self) -> int:
        """The step whose communications, optimizer and gaps take the median time."""
        return int(np.argsort(self.rest, kind="stable")[(len(self.rest) - 1) // 2])


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Drawn steps, and what was found on the way."""

    seconds: Floats
    variance: RunVariance
    unusual: tuple[int, ...]  # the steps that were left out, as the run numbers them
    slowest_share: float | None  # of the step, waiting for the slowest of the replicas; None with one replica

    @property
    def interval(self) -> tuple[float, float]:
        """Between which 90 % of the steps are."""
        low, high = np.percentile(self.seconds, [5, 95])
        return float(low), float(high)

    def as_data(self) -> dict[str, Any]:
        """Plain numbers."""
        low, high = self.interval
        return {
            **metrics.statistics(self.seconds, np.random.default_rng(0)),
            "interval90_low_s": low,
            "interval90_high_s": high,
            "slowest_replica_share": self.slowest_share,
            "unusual_steps": list(self.unusual),
            "variance": self.variance.as_data(),
        }


def predicted(
    model: RunModel,
    iterations: int,
    seed: int = 0,
    level: str = "found",
    *,
    slowest_of: int = 20,
    usual_only: bool = True,
) -> Prediction:
    """So many drawn steps of a run; iteration i depends on the seed and on i.

    `level` is what is drawn together: as `found` in the run, a whole `step`, a `microbatch`, or nothing. The share
    of the slowest replica is the mean over the first `slowest_of` of them.
    """
    check_one_of("level", level, LEVELS)
    if iterations < 1:
        raise InputError(f"iterations = {iterations} found; at least 1 was expected")
    left_out = model.unusual if usual_only else model.unusual[:0]
    usual = np.setdiff1d(np.arange(len(model.steps)), left_out)
    found, waits = np.zeros(iterations), []
    for number in range(iterations):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        position = int(usual[rng.integers(len(usual))])
        computing = model.draws.draw(rng, level)
        found[number] = units.to_s(model.step_ns(position, computing))
        if number < slowest_of and model.run.layout.dp > 1:
            waits.append(_waiting(model, position, computing) / found[number])
    names = tuple(model.run.steps[n] for n in left_out.tolist())
    return Prediction(found, model.variance, names, float(np.mean(waits)) if waits else None)


def _waiting(model: RunModel, position: int, computing: Floats) -> float:
    """Seconds by which a step is longer than the mean of those in which all replicas are as one of them."""
    program, first = model.programs[position], int(np.searchsorted(model.run.step, position))
    duration = program.duration.copy()
    duration[model.times.row[position] - first] = np.rint(computing).astype(np.int64)
    drawn = program.with_durations(duration)
    return units.to_s(_makespan(drawn) - Removal(drawn).time(["replicas"], _makespan))


def _makespan(program: Program) -> int:
    return by_name.run(program, ENGINE).makespan
