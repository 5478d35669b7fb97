"""What the computing times of a recorded run have in common, and new steps drawn with the same.

times       duration / mean of its operation (stage and kind), for step i, replica r, microbatch m, operation o
step        what all ranks share in a step                      expected without it: (rank in step) / replicas
rank        what a rank has in all steps: a slow GPU stays slow                      (rank in step) / steps
rank in step     what the microbatches of a replica share in a step                  (microbatch) / microbatches
microbatch  what the operations of a microbatch share: its length                    (rest) / operations
rest        everything else

Each is the variance of means of its level beyond what the level below gives them (a random-effects analysis of
variance), 0 where it is less. A level is `found` if an F-test has p below 1 %. Steps and ranks that are found are
factors of their variance. The microbatches of a rank in a step are drawn as they were recorded there, all together,
unless p of `rank in step` is above 50 %: to draw together what shares nothing costs only variety, while to draw apart
what shares little makes the slowest of many replicas too fast. Else each microbatch is drawn on its own, with all its
operations; if that level is not found either, each operation is. Each drawn step takes its parts from as many
recorded steps, chosen at random with repetition (a bootstrap): what was recorded is itself a sample, and an interval
for steps to come is wider for that.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import KINDS, RecordedRun

SIGNIFICANT = 0.01
APART = 0.5  # p of `rank in step` from which on microbatches are drawn on their own
LEVELS = ("step", "rank", "rank_in_step", "microbatch")


@dataclass(frozen=True, slots=True)
class Component:
    """A level: its part of the variance of a single time, and how probable so much is if there is no such level."""

    level: str
    share: float
    p: float

    @property
    def is_found(self) -> bool:
        """Whether the test finds it."""
        return self.p < SIGNIFICANT


@dataclass(frozen=True, eq=False)
class ComputingTimes:
    """Nanoseconds of each computation: [step, replica, microbatch, operation], and each operation's stage and kind."""

    ns: Floats
    stage: Ints
    kind: Ints
    row: Ints  # of the run, in the same shape

    @classmethod
    def of(cls, run: RecordedRun) -> "ComputingTimes":
        """Those of a run in which every microbatch has every operation in every step."""
        rows = np.flatnonzero(run.is_computation)
        code, operation = np.unique(run.stage[rows] * len(KINDS) + run.kind[rows], return_inverse=True)
        shape = len(run.steps), run.layout.dp, run.microbatches, len(code)
        row = np.full(shape, -1, np.int64)
        row[run.step[rows], run.replica[run.rank[rows]], run.microbatch[rows], operation] = rows
        if (row < 0).any() or len(rows) != row.size:
            missing = int((row < 0).sum())
            raise InputError(
                f"{missing} of {row.size} computations are missing (steps x replicas x microbatches x operations); "
                "times are drawn from runs in which each was recorded once"
            )
        duration = (run.end - run.start)[row].astype(np.float64)
        return cls(duration, code // len(KINDS), code % len(KINDS), row)

    def of_steps(self, positions: Ints) -> "ComputingTimes":
        """Only these steps."""
        return ComputingTimes(self.ns[positions], self.stage, self.kind, self.row[positions])

    @cached_property
    def mean(self) -> Floats:
        """Of each operation."""
        found: Floats = self.ns.mean(axis=(0, 1, 2))
        return np.where(found > 0, found, 1.0)

    @cached_property
    def factor(self) -> Floats:
        """Times as a factor on the mean of their operation."""
        return np.asarray(self.ns / self.mean)


@dataclass(frozen=True, slots=True, eq=False)
class RunVariance:
    """The levels of a run, and their effects: factors whose variance is that of their level."""

    components: tuple[Component, ...]
    rest: float  # the share of what is left
    cv: float  # of a single time: its standard deviation over its mean
    step: Floats  # [step]
    rank: Floats  # [replica, operation], equal for operations of one rank
    apart: float = APART

    @classmethod
    def of(cls, times: ComputingTimes) -> "RunVariance":
        """Found from computing times."""
        factor = times.factor
        steps, replicas, microbatches, operations = factor.shape
        of_microbatch = factor.mean(axis=3)
        rest, rest_freedom = _within(factor, 3)
        microbatch, microbatch_freedom = _within(of_microbatch, 2)
        of_replica = of_microbatch.mean(axis=2)
        apart = of_replica - of_replica.mean(1, keepdims=True) - of_replica.mean(0, keepdims=True) + of_replica.mean()
        replica_freedom = (steps - 1) * (replicas - 1)
        in_step = float((apart**2).sum()) / replica_freedom if replica_freedom else microbatch / microbatches
        if not replica_freedom:
            replica_freedom = microbatch_freedom
        of_step, of_rank = of_replica.mean(axis=1), _of_ranks(factor, times.stage)
        by_rank = float(of_rank.var(axis=0).mean()) * replicas / max(replicas - 1, 1)
        by_rank_expected = _of_ranks_in_steps(factor, times.stage) / steps
        tests = {
            "step": (float(of_step.var(ddof=1)) if steps > 1 else 0.0, steps - 1, in_step / replicas, replica_freedom),
            "rank": (by_rank, (replicas - 1) * len(np.unique(times.stage)), by_rank_expected, replica_freedom),
            "rank_in_step": (in_step, replica_freedom, microbatch / microbatches, microbatch_freedom),
            "microbatch": (microbatch, microbatch_freedom, rest / operations, rest_freedom),
        }
        beyond = {level: max(found - expected, 0.0) for level, (found, _, expected, _) in tests.items()}
        total = sum(beyond.values()) + rest or 1.0
        components = tuple(
            Component(level, beyond[level] / total, _p(found, freedom, expected, other))
            for level, (found, freedom, expected, other) in tests.items()
        )
        found = {one.level for one in components if one.is_found}
        step = _shrunk(of_step, beyond["step"] if "step" in found else 0.0)
        by_operation = beyond["rank"] if "rank" in found else 0.0
        rank = np.stack([_shrunk(column, by_operation) for column in of_rank.T], axis=1)
        return cls(components, rest / total, float(factor.std()), step, rank)

    @property
    def found(self) -> tuple[str, ...]:
        """The levels that are found."""
        return tuple(one.level for one in self.components if one.is_found)

    @property
    def together(self) -> str:
        """The level whose times are drawn together: all of a rank in a step, of a microbatch, or of nothing."""
        p = {one.level: one.p for one in self.components}
        if p["rank_in_step"] <= self.apart:
            return "rank_in_step"
        return "microbatch" if p["microbatch"] < SIGNIFICANT else "independent"

    def as_data(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "coefficient_of_variation": self.cv,
            "shares": {one.level: one.share for one in self.components} | {"rest": self.rest},
            "p": {one.level: one.p for one in self.components},
            "found": list(self.found),
            "together": self.together,
        }


class StepDraws:
    """New steps: every level that was found is drawn from what was recorded."""

    def __init__(self, times: ComputingTimes, variance: RunVariance | None = None) -> None:
        self.times = times
        self.variance = RunVariance.of(times) if variance is None else variance
        self._left = times.factor / self.variance.step[:, None, None, None] / self.variance.rank[None, :, None, :]

    def draw(self, rng: np.random.Generator, level: str = "found") -> Floats:
        """Nanoseconds of a new step: [replica, microbatch, operation].

        `level`: what is drawn together: as `found`; a whole `step` as recorded; a `microbatch` with all of its
        operations; or nothing (`independent`).
        """
        steps, replicas, microbatches, operations = self._left.shape
        whole = replicas, microbatches, operations
        if level == "step":
            return np.asarray(self.times.ns[rng.integers(steps)])
        if level != "found":
            return _taken(self.times.ns.reshape(-1, operations), whole, rng, joint=level == "microbatch")
        known = np.asarray(rng.integers(steps, size=steps))
        together = self.variance.together
        step, pool = self.variance.step[known[0]], self._left[known]
        if together == "rank_in_step":
            left = pool.reshape(-1, microbatches, operations)[rng.integers(steps * replicas, size=replicas)]
        else:
            left = _taken(pool.reshape(-1, operations), whole, rng, joint=together == "microbatch")
        return np.asarray(step * self.variance.rank[:, None, :] * left * self.times.mean)


def _taken(pool: Floats, shape: tuple[int, int, int], rng: np.random.Generator, *, joint: bool) -> Floats:
    """Rows of a pool at random; unless `joint`, each column from a row of its own."""
    if joint:
        return np.asarray(pool[rng.integers(len(pool), size=shape[:2])])
    places = rng.integers(len(pool), size=(shape[0] * shape[1], shape[2]))
    return np.take_along_axis(pool, places, axis=0).reshape(shape)


def _within(values: Floats, axis: int) -> tuple[float, int]:
    """The variance along an axis, and its degrees of freedom."""
    count = values.shape[axis]
    if count < 2:
        return 0.0, 0
    return float(values.var(axis=axis, ddof=1).mean()), values.size // count * (count - 1)


def _of_ranks(factor: Floats, stage: Ints) -> Floats:
    """[replica, operation]: the mean over steps and microbatches of all operations of the same stage."""
    mean = factor.mean(axis=(0, 2))
    found: Floats = np.zeros_like(mean)
    for n in np.unique(stage).tolist():
        found[:, stage == n] = mean[:, stage == n].mean(axis=1, keepdims=True)
    return found


def _of_ranks_in_steps(factor: Floats, stage: Ints) -> float:
    """The variance of a rank's mean in a step, beyond what its step and the rank have in all."""
    parts = []
    for n in np.unique(stage).tolist():
        mean = factor[..., stage == n].mean(axis=(2, 3))
        apart = mean - mean.mean(1, keepdims=True) - mean.mean(0, keepdims=True) + mean.mean()
        freedom = (mean.shape[0] - 1) * (mean.shape[1] - 1)
        parts.append(float((apart**2).sum()) / freedom if freedom else 0.0)
    return float(np.mean(parts))


def _shrunk(means: Floats, variance: float) -> Floats:
    """Factors with the deviations of these means from theirs, made smaller to this variance."""
    middle, own = means.mean(), means.var()
    if not own:
        return np.ones_like(means)
    return np.asarray(1 + (means / middle - 1) * min(1.0, math.sqrt(variance / own)))


def _p(found: float, freedom: int, expected: float, other: int) -> float:
    """The probability of a ratio of variances of at least this size without an effect (Paulson's approximation)."""
    if freedom < 1 or other < 1 or not found:
        return 1.0
    if not expected:
        return 0.0
    ratio = (found / expected) ** (1 / 3)
    one, two = 2 / (9 * freedom), 2 / (9 * other)
    normal = ((1 - two) * ratio - (1 - one)) / math.sqrt(two * ratio**2 + one)
    return 0.5 * math.erfc(normal / math.sqrt(2))
