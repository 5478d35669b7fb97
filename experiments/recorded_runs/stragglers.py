"""Ledgers of recorded jobs, and their straggler metrics beside the published ones: the tables of README.md.

python experiments/recorded_runs/stragglers.py
"""

import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipesim.analysis import ledger, straggler_metrics
from pipesim.engines import compiled
from pipesim.importers.run_opening import open_run
from pipesim.studies.run_prediction import recorded_steps

FOLDER = Path(__file__).parent
DATA = Path(os.environ.get("PIPESIM_DATA") or FOLDER.parents[2] / "shared") / "measured" / "straggler"
JOBS = ("SE", "ST")
# Of a published metric, what is compared with it; those by group are compared group by group.
SINGLE = {
    "blocking_slowdown": "slowdown",
    "launch_slowdown": "launch_slowdown",
    "ms.tori": "without_gaps_s",
    "ms.tideal": "ideal_s",
}
GROUPS = {"dp_rank": "by_replica", "stage": "by_stage", "optype": "by_operation"}
REPLACED = {"ms": "last_stage", "mw": "worst_ranks"}
PARTS = {"trem": "removed_s", "tadd": "added_s", "Ms": "part", "Mw": "part"}
NAMES = {"forward-pp-comm": "forward messages", "backward-pp-comm": "backward messages"}


def compared(job: str, found: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Metric, ours and published, for each row of a job that has one."""
    with (DATA / "whatif.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["job"] == job]
    for row in rows:
        metric, key = row["metric"], row["key"]
        group, _, part = metric.partition(".")
        if metric.startswith("blocking_decompose_by_"):
            kind = metric.removeprefix("blocking_decompose_by_")
            yield (
                f"slowdown {GROUPS[kind].replace('_', ' ')}",
                found[GROUPS[kind]][NAMES.get(key, key)],
                float(row["value"]),
            )
        elif metric in SINGLE:
            yield SINGLE[metric].replace("_", " "), found[SINGLE[metric]], float(row["value"])
        elif part in PARTS:
            name = f"{REPLACED[group].replace('_', ' ')}, {PARTS[part].replace('_', ' ')}"
            yield name, found[REPLACED[group]][PARTS[part]], float(row["value"])


def main() -> int:
    """Print both tables."""
    metrics: dict[str, dict[str, list[tuple[float, float]]]] = {}
    ledgers: dict[str, Any] = {}
    for job in JOBS:
        run = open_run([DATA / f"trace-{job}.parquet"])
        steps = recorded_steps(run)
        every = [ledger.recorded_ledger(step, lambda program: compiled.run(program).makespan) for step in steps]
        exact = sum(sum(line.ns for line in one.lines) == one.step_ns for one in every)
        sys.stdout.write(f"{job}: {exact} of {len(every)} ledgers sum to their step to the nanosecond\n")
        ledgers[job] = ledger.mean_data(every)
        data = straggler_metrics.straggler_metrics(run, compiled.makespans).as_data()
        metrics[job] = {}
        for name, ours, published in compared(job, data):
            metrics[job].setdefault(name, []).append((ours, published))
    sys.stdout.write("\n| cause | SE | without it | ST | without it |\n|---|---|---|---|---|\n")
    lines = {job: {line["cause"]: line for line in ledgers[job]["lines"]} for job in JOBS}
    for cause in reversed(list(dict.fromkeys(name for job in JOBS for name in lines[job]))):
        both = [lines[job].get(cause) for job in JOBS]
        cells = [f"{x['seconds']:.3f} s | {x['step_without_s']:.3f} s" if x else " | " for x in both]
        sys.stdout.write(f"| `{cause}` | {' | '.join(cells)} |\n")
    sys.stdout.write("\n| metric | values, SE and ST | worst difference |\n|---|---|---|\n")
    for name in metrics["SE"]:
        pairs = [pair for job in JOBS for pair in metrics[job].get(name, [])]
        worst = max(abs(ours / published - 1) for ours, published in pairs)
        sys.stdout.write(f"| {name} | {len(pairs)} | {100 * worst:.2f} % |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
