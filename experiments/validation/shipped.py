"""The rows that `pipesim validate` and the intervals of results rest on, from the kept rows of three experiments.

a, b    ../recorded_runs: steps replayed with their own operations; the second half of a run by draws from the first
c       rows of `zero_bubble` with profiled times: other schedules of the same profile
d       all other rows of expected.csv
e       ../live_pipelines, where there is one

`python experiments/validation/shipped.py` writes them into the package; run.py does so too.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from describe import SOURCES
from standing import MAIN
from tables import Row, read

from pipesim.studies.measured_runs import ShippedRun, Tier, write

HERE = Path(__file__).resolve().parent
JOBS = HERE.parent / "recorded_runs"
LIVE = HERE.parent / "live_pipelines" / "expected.csv"
# What the recorded jobs are: device as far as it is published, framework, GPUs, tensor width.
ABOUT_JOBS = {"SE": ("", "", 128, 2), "ST": ("", "", 8, 1), "pp8": ("", "", 8, 1)}
WARM = {"pp8": {"1", "2", "16", "18"}}  # warm-up and stalls, scored apart as README.md of recorded_runs has them
# What rows of a choice have in common: the same work on the same devices.
WORK = ("model", "layers", "hidden", "heads", "sequence", "gpu", "gpus", "global_batch")


def kept(path: Path) -> list[Row]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def replayed() -> Iterator[ShippedRun]:
    """Steps of recorded jobs, simulated with their own durations and dependencies, with launch gaps and without."""
    for row in kept(JOBS / "own_operations.csv"):
        job = row["job"]
        group = "unusual iterations" if row["step"] in WARM.get(job, ()) else ""
        for more, column in (("", "simulated_s"), ("without launch gaps", "without_gaps_s")):
            named = ", ".join(filter(None, (group, more)))
            yield _job("a", job, (named, row["step"]), float(row["recorded_s"]), float(row[column]))


def held_out() -> Iterator[ShippedRun]:
    """Mean and percentiles of the second half of a job's steps, and those drawn from its first half."""
    steps: dict[str, list[float]] = {}
    for row in kept(JOBS / "own_operations.csv"):
        steps.setdefault(row["job"], []).append(float(row["recorded_s"]))
    for row in kept(JOBS / "held_out_steps.csv"):
        if row["prediction"] != "draws share as found":
            continue
        later = np.array(steps[row["job"]][len(steps[row["job"]]) // 2 :])
        found = {"mean": later.mean(), "p50": np.percentile(later, 50), "p95": np.percentile(later, 95)}
        for name, measured in found.items():
            yield _job("b", row["job"], ("", name), float(measured), float(measured) * (1 + float(row[name])))


def _job(tier: Tier, job: str, named: tuple[str, str], measured: float, simulated: float) -> ShippedRun:
    group, name = named
    device, framework, gpus, tensor = ABOUT_JOBS[job]
    return ShippedRun(
        tier, job, group, name, "", "", device, framework, "recorded", gpus, tensor, 0.0, measured, simulated
    )


def iterations() -> Iterator[ShippedRun]:
    """Measured iterations of others, as expected.csv has them."""
    rows = {(source, row["id"]): row for source in SOURCES for row in read(source)}
    numbers: dict[str, int] = {}

    def choice_of(work: str) -> str:
        return str(numbers.setdefault(work, len(numbers)))

    for line in kept(HERE / "expected.csv"):
        if not line["simulated_s"]:
            continue
        source, row = line["source"], rows[line["source"], line["id"]]
        described = SOURCES[source](row)
        is_profiled = not isinstance(described["trace"], str)
        device = re.search(r"device='([^']+)'", described["cluster"])
        work = ", ".join(row.get(name, "") for name in WORK)
        yield ShippedRun(
            "c" if source == "zero_bubble" and is_profiled else "d",
            source,
            "" if line["group"] == MAIN else line["group"],
            line["id"],
            line["table"],
            choice_of(f"{work}, {row['microbatch']}" if is_profiled else work),
            device[1] if device else "h100-80gb",
            described["framework"],
            "stated" if source == "mlperf" else "recorded" if is_profiled else "computed",
            int(row["gpus"]),
            int(described["tensor"]),
            float(line["tolerance"]),
            float(line["measured_s"]),
            float(line["simulated_s"]),
            float(line["other_s"]) if line["other_s"] else None,
        )


def rows() -> list[ShippedRun]:
    """All rows, tier after tier."""
    found = [*replayed(), *held_out(), *iterations()]
    return sorted(found, key=lambda run: run.tier)


if __name__ == "__main__":
    write(rows())
