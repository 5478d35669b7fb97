"""What the microbatches of a rank in a step share: recorded steps mixed, and drawn runs whose truth is known.

python experiments/recorded_runs/shared_by_rank.py
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipesim.analysis.run_variance import ComputingTimes, RunVariance, StepDraws
from pipesim.base.arrays import Floats
from pipesim.importers.run_opening import open_run
from pipesim.studies.run_prediction import RunModel

FOLDER = Path(__file__).parent
DATA = Path(os.environ.get("PIPESIM_DATA") or FOLDER.parents[2] / "shared") / "measured" / "straggler"
REPEATS = 6
SIZES = ((21, 32, 8), (10, 8, 8), (16, 2, 4))  # steps, replicas, microbatches
SHARES = (0.0, 0.01, 0.03, 0.08)  # of the variance of a time, that a rank has in a step
RUNS, DRAWS = 25, 150
VARIANCE, OPERATIONS = 0.12, 4
RULES = {"p < 1 %": 0.01, "p <= 50 %": 0.5, "always": 1.0}

Mix = Callable[[Floats, int, np.random.Generator], Floats]


def _order(ns: Floats, step: int, rng: np.random.Generator) -> Floats:
    return np.stack([one[rng.permutation(len(one))] for one in ns[step]])


def _over_ranks(ns: Floats, step: int, rng: np.random.Generator) -> Floats:
    every = ns[step].reshape(-1, ns.shape[3])
    return np.asarray(every[rng.permutation(len(every))].reshape(ns.shape[1:]))


def _over_steps(ns: Floats, step: int, rng: np.random.Generator) -> Floats:  # noqa: ARG001 - as the others
    return np.asarray(ns[rng.integers(len(ns), size=ns.shape[1]), rng.integers(ns.shape[1], size=ns.shape[1])])


def _all(ns: Floats, step: int, rng: np.random.Generator) -> Floats:  # noqa: ARG001 - as the others
    every = ns.reshape(-1, ns.shape[3])
    return np.asarray(every[rng.integers(len(every), size=ns.shape[1:3])])


MIXES: dict[str, Mix] = {
    "the order of microbatches in a rank": _order,
    "microbatches over the ranks of their step": _over_ranks,
    "whole ranks over all steps": _over_steps,
    "microbatches over all ranks and steps": _all,
}


def mixed(job: str) -> list[tuple[str, float]]:
    """How much longer the mean step is with computing times mixed so."""
    model, rng = RunModel.of(open_run([DATA / f"trace-{job}.parquet"])), np.random.default_rng(0)
    ns, steps = model.times.ns, range(len(model.steps))
    own = np.mean([model.step_ns(step, ns[step]) for step in steps])
    return [
        (name, np.mean([model.step_ns(step, mix(ns, step, rng)) for step in steps for _ in range(REPEATS)]) / own - 1)
        for name, mix in MIXES.items()
    ]


def factors(rng: np.random.Generator, size: tuple[int, int, int], share: float) -> Floats:
    """Factors whose microbatches vary as lognormal lengths do, and share something in a rank's step."""
    steps, replicas, microbatches = size
    length = rng.lognormal(0, 0.5, (steps, replicas, microbatches, 1))
    length = (length - np.exp(0.125)) / np.sqrt((np.exp(0.25) - 1) * np.exp(0.25))
    found = 1 + np.sqrt(VARIANCE * share) * rng.normal(size=(steps, replicas, 1, 1))
    found = found + np.sqrt(VARIANCE * (0.87 - share)) * length
    found = found + np.sqrt(VARIANCE * 0.13) * rng.normal(size=(steps, replicas, microbatches, OPERATIONS))
    return np.maximum(found, 0.05)


def slowest(found: Floats) -> Floats:
    """The step where replicas only wait for the slowest of them."""
    return np.asarray(found.sum(axis=(-1, -2)).max(axis=-1))


def known(size: tuple[int, int, int], share: float) -> dict[str, tuple[float, float, float]]:
    """Of each rule: bias and mean absolute error of the mean step, and the part of true steps in the 90 % interval."""
    rng = np.random.default_rng(1)
    truth = np.concatenate([slowest(factors(rng, (400, *size[1:]), share)) for _ in range(10)])
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in RULES}
    stage, kind = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    for _ in range(RUNS):
        found = factors(rng, size, share) * 1e6
        times = ComputingTimes(found, stage, kind, np.arange(found.size).reshape(found.shape))
        variance = RunVariance.of(times)
        for name, apart in RULES.items():
            draws = StepDraws(times, replace(variance, apart=apart))
            drawn = np.array([slowest(draws.draw(rng) / 1e6) for _ in range(DRAWS)])
            low, high = np.percentile(drawn, [5, 95])
            error = drawn.mean() / truth.mean() - 1
            rows[name].append((error, abs(error), float(((truth >= low) & (truth <= high)).mean())))
    return {name: tuple(np.mean(each, axis=0)) for name, each in rows.items()}  # type: ignore[misc]  # three numbers


def main() -> int:
    """Print both tables."""
    sys.stdout.write("| mixed | SE | ST |\n|---|---|---|\n")
    for one, other in zip(mixed("SE"), mixed("ST"), strict=True):
        sys.stdout.write(f"| {one[0]} | {100 * one[1]:+.1f} % | {100 * other[1]:+.1f} % |\n")
    sys.stdout.write(f"\n| steps, replicas, microbatches | shared | {' | '.join(RULES)} |\n|---|---|---|---|---|\n")
    for size in SIZES:
        for share in SHARES:
            rows = known(size, share).values()
            cells = [f"{100 * bias:+.1f}, {100 * off:.1f}, {100 * inside:.0f} %" for bias, off, inside in rows]
            sys.stdout.write(f"| {', '.join(map(str, size))} | {100 * share:.0f} % | {' | '.join(cells)} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
