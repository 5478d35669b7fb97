"""Steps of recorded jobs predicted from the first half of them: the tables of README.md, and held_out_steps.csv.

python experiments/recorded_runs/held_out_steps.py [--write] [--splits N]
"""

import csv
import io
import os
import sys
from pathlib import Path

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.core.recorded_run import RecordedRun
from pipesim.importers.run_opening import open_run
from pipesim.studies.run_prediction import RunModel, predicted

Row = dict[str, str]

FOLDER = Path(__file__).parent
DATA = Path(os.environ.get("PIPESIM_DATA") or FOLDER.parents[2] / "shared") / "measured"
EXPECTED = FOLDER / "held_out_steps.csv"
JOBS = {"SE": "straggler/trace-SE.parquet", "ST": "straggler/trace-ST.parquet"}
DRAWS = {
    "found": "as found",
    "microbatch": "a microbatch",
    "step": "a step",
    "independent": "nothing",
}
ITERATIONS = 2000
COLUMNS = ("job", "prediction", "steps", "mean", "p50", "p95", "covered", "low_s", "high_s")


def halves(job: str) -> tuple[RecordedRun, RunModel, Floats]:
    """The run of the first half of the steps, and the seconds of the second."""
    run = open_run([DATA / JOBS[job]])
    first = len(run.steps) // 2
    return run, RunModel.of(run.of_steps(np.arange(first))), run.step_ns[first:] / 1e9


def rows_of(job: str) -> list[Row]:
    """Relative errors of mean and percentiles of the second half, and the part of it in the interval of 90 %."""
    run, model, later = halves(job)
    before = model.run.step_ns / 1e9
    found = [_row(job, "the first half again", before, later)]
    at_mean = model.step_ns(model.typical(), np.broadcast_to(model.times.mean, model.times.ns.shape[1:])) / 1e9
    found.append(_row(job, "every operation at its mean", np.array([at_mean]), later))
    for draw, name in DRAWS.items():
        drawn = predicted(model, ITERATIONS, level=draw, slowest_of=0)
        found.append(_row(job, f"draws share {name}", drawn.seconds, later))
    drawn = predicted(model, ITERATIONS, slowest_of=0, usual_only=False)
    found += [_row(job, "draws share as found, unusual steps too", drawn.seconds, later), _given(job, run, model)]
    return found


def _row(job: str, name: str, predicted_s: Floats, recorded_s: Floats) -> Row:
    low, high = np.percentile(predicted_s, [5, 95])
    errors = {f"p{n}": np.percentile(predicted_s, n) / np.percentile(recorded_s, n) - 1 for n in (50, 95)}
    covered = ((recorded_s >= low) & (recorded_s <= high)).mean()
    values = {"mean": predicted_s.mean() / recorded_s.mean() - 1, **errors, "covered": covered}
    numbers = {key: f"{value:.5f}" for key, value in values.items()}
    return {"job": job, "prediction": name, "steps": str(len(recorded_s)), **numbers,
            "low_s": f"{low:.4f}", "high_s": f"{high:.4f}"}  # fmt: skip


def _given(job: str, run: RecordedRun, model: RunModel) -> Row:
    """Each step of the second half from its microbatches' factors alone: mean absolute and worst error of a step."""
    whole = RunModel.of(run)
    first, typical, errors = len(model.steps), model.typical(), []
    for position in range(first, len(run.steps)):
        factor = (whole.times.ns[position] / model.times.mean).mean(axis=2, keepdims=True)
        errors.append(model.step_ns(typical, factor * model.times.mean) / run.step_ns[position] - 1)
    size = np.abs(errors)
    return {"job": job, "prediction": "each step from the factors of its microbatches", "steps": str(len(errors)),
            "mean": f"{size.mean():.5f}", "p50": "", "p95": "", "covered": "", "low_s": "",
            "high_s": f"{size.max():.5f}"}  # fmt: skip


def table(rows: list[Row]) -> str:
    """Errors by job and prediction, as a table of Markdown."""
    lines = ["| job | prediction | mean | p50 | p95 | 90 % interval | steps in it |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if row["p50"]:
            errors = " | ".join(f"{100 * float(row[name]):+.1f} %" for name in ("mean", "p50", "p95"))
            inside = f"{float(row['covered']) * int(row['steps']):.0f} of {row['steps']}"
            lines.append(
                f"| {row['job']} | {row['prediction']} | {errors} "
                f"| {float(row['low_s']):.2f} to {float(row['high_s']):.2f} s | {inside} |"
            )
    return "\n".join(lines)


def given(rows: list[Row]) -> str:
    """A sentence about steps whose microbatches' factors are given."""
    found = {row["job"]: row for row in rows if not row["p50"]}
    parts = [
        f"{100 * float(row['mean']):.1f} % (worst {100 * float(row['high_s']):.1f} %) on {job}"
        for job, row in found.items()
    ]
    return " and ".join(parts)


def noise(job: str) -> float:
    """Half of the 95 % interval of the mean of the second half, as a part of it, by bootstrap."""
    later = halves(job)[2]
    means = np.random.default_rng(0).choice(later, (5000, len(later))).mean(axis=1)
    return float(np.ptp(np.percentile(means, [2.5, 97.5])) / 2 / later.mean())


def split(job: str, count: int) -> list[float]:
    """Random halves: mean absolute error of the mean of the other half, by draws and by repeating; steps covered."""
    run, rng = open_run([DATA / JOBS[job]]), np.random.default_rng(0)
    found = []
    for _ in range(count):
        known = np.sort(rng.permutation(len(run.steps))[: len(run.steps) // 2])
        later = np.delete(run.step_ns / 1e9, known)
        drawn = predicted(RunModel.of(run.of_steps(known)), 300, slowest_of=0)
        row = _row(job, "", drawn.seconds, later)
        again = (run.step_ns[known] / 1e9).mean() / later.mean() - 1
        found.append((abs(float(row["mean"])), abs(again), float(row["covered"])))
    return [float(value) for value in np.mean(found, axis=0)]


def main() -> int:
    """Print the tables, and whether the rows are those that are kept; with --write keep them."""
    rows = [row for job in JOBS for row in rows_of(job)]
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    sys.stdout.write(f"{table(rows)}\n\ngiven factors: {given(rows)}\n")
    for job in JOBS:
        p = {one.level: one.p for one in halves(job)[1].variance.components}["rank_in_step"]
        sys.stdout.write(f"{job}: p of what a rank shares in a step, first half: {p:.2f}\n")
        sys.stdout.write(f"{job}: the mean of the second half is known to {100 * noise(job):.1f} % (95 %)\n")
    if "--splits" in sys.argv:
        count = int(sys.argv[sys.argv.index("--splits") + 1])
        for job in JOBS:
            draws, again, covered = split(job, count)
            sys.stdout.write(
                f"{job}, {count} random halves: mean off by {100 * draws:.1f} % by draws, {100 * again:.1f} % by "
                f"repeating; {100 * covered:.0f} % of steps in the interval\n"
            )
    if "--write" in sys.argv:
        EXPECTED.write_text(out.getvalue())
    same = EXPECTED.read_text() == out.getvalue()
    sys.stdout.write("rows as kept\n" if same else f"rows differ from {EXPECTED.name}\n")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
