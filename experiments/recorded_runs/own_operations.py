"""Recorded jobs replayed with their own operations: the table of README.md, and own_operations.csv with every step.

python experiments/recorded_runs/own_operations.py [--write]
"""

import csv
import io
import os
import sys
from pathlib import Path

import numpy as np

from pipesim.importers.run_opening import open_run
from pipesim.studies import run_replay

FOLDER = Path(__file__).parent
DATA = Path(os.environ.get("PIPESIM_DATA") or FOLDER.parents[2] / "shared") / "measured"
EXPECTED = FOLDER / "own_operations.csv"
# Job -> file, steps that are left out and why: a dump's first two iterations warm up, and some have a hiccup.
JOBS = {
    "SE": ("straggler/trace-SE.parquet", ()),
    "ST": ("straggler/trace-ST.parquet", ()),
    "pp8": ("primus/pp_vis_ops.csv.gz", (1, 2, 16, 18)),
}
COLUMNS = ("job", "step", "recorded_s", "simulated_s", "without_gaps_s")


def rows_of(job: str) -> list[dict[str, str]]:
    """Every step of a job: recorded, simulated with launch gaps, and without."""
    made = run_replay.comparison(run_replay.replayed(open_run([DATA / JOBS[job][0]])))
    return [
        {"job": job, "step": str(step["step"]), **{name: f"{step[name]:.9f}" for name in COLUMNS[2:]}}
        for step in made["steps"]
    ]


def table(rows: list[dict[str, str]]) -> str:
    """Errors by job, as a table of Markdown."""
    lines = [
        "| job | steps | recorded, mean | with gaps: mean absolute, worst | without: mean, mean absolute, worst |",
        "|---|---|---|---|---|",
    ]
    for job, (_, left_out) in JOBS.items():
        for skipped in ((), left_out) if left_out else ((),):
            kept = [row for row in rows if row["job"] == job and int(row["step"]) not in skipped]
            recorded, simulated, without = (np.array([float(row[name]) for row in kept]) for name in COLUMNS[2:])
            errors = 100 * (simulated / recorded - 1), 100 * (without / recorded - 1)
            name = f"{job} without {', '.join(map(str, skipped))}" if skipped else job
            lines.append(
                f"| {name} | {len(kept)} | {recorded.mean():.3f} s "
                f"| {np.abs(errors[0]).mean():.4f}, {_worst(errors[0]):+.4f} % "
                f"| {errors[1].mean():+.2f}, {np.abs(errors[1]).mean():.2f}, {_worst(errors[1]):+.2f} % |"
            )
    return "\n".join(lines)


def _worst(errors: np.ndarray) -> float:
    return float(errors[np.argmax(np.abs(errors))])


def main() -> int:
    """Print the table, and whether the rows are those that are kept; with --write keep them."""
    rows = [row for job in JOBS for row in rows_of(job)]
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    sys.stdout.write(table(rows) + "\n")
    if "--write" in sys.argv:
        EXPECTED.write_text(out.getvalue())
    same = EXPECTED.read_text() == out.getvalue()
    sys.stdout.write("rows as kept\n" if same else f"rows differ from {EXPECTED.name}\n")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
