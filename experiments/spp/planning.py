"""How long planners take: measured, and so apart from everything that comes out the same again."""

import csv
import os
import platform
import time
from pathlib import Path

from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.roofline import roofline
from pipesim.base import files, lookup
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.display import figures
from pipesim.studies import loading, setups, sweep

FOLDER = Path(__file__).parent / "planning"
TIMES = FOLDER / "times.csv"
COLUMNS = ["by", "layers", "gpus", "method", "planner", "planning_s", "error", "cores", "python"]
MICROBATCHES = 16
AGAIN_S, TRIES = 0.5, 3  # what takes less is done so often, and the least of its times taken

# Panels of the figure, by what grows.
PANELS = {"layers": "layers, on 16 GPUs", "GPUs": "GPUs, for 52 layers"}
CHART = figures.Chart(
    kind="slopes", x="size", y="ms", series="method", panels=("panel",), x_label="number of layers or GPUs",
    y_label="planning time (ms)", width="double", height=3.4, formats=("pdf", "png"),
)  # fmt: skip


def inputs(blocks: int, gpus: int) -> tuple[Costs, Cluster]:
    """A BERT of so many blocks, and servers of four GPUs; new ones, of which no planner knows anything yet."""
    model = lookup.call(f"bert({blocks}, 1024, 16, microbatch=4)", ARCHITECTURES, "architecture")
    cluster = loading.load_cluster(f'servers({gpus // 4}, 4, intra="25GB/s", inter="25 Gb/s")')
    return costs_of(roofline(model, ["v100-16gb"])), cluster


def seconds(planner: str, blocks: int, gpus: int) -> float:
    """Processor seconds of planning, which other work on the machine hardly changes.

    The bandwidths between all devices, which every planner needs, are known beforehand.
    """
    found: list[float] = []
    while not found or (found[-1] < AGAIN_S and len(found) < TRIES):
        costs, cluster = inputs(blocks, gpus)
        setups.plan_with("data_parallel", inputs(2, 4)[0], cluster, MICROBATCHES)
        began = time.process_time()
        setups.plan_with(planner, costs, cluster, MICROBATCHES)
        found.append(time.process_time() - began)
    return min(found)


def measure() -> None:
    """Time the sizes of experiment.toml again, one planner after the other, in one process."""
    columns, found = sweep.rows(FOLDER / "experiment.toml")
    rows = [dict(zip(columns, row, strict=True)) for row in found]
    for planner in dict.fromkeys(
        row["planner"] for row in rows
    ):  # what is compiled when it is first called is compiled
        for blocks, gpus in ((8, 16), (2, 4)):
            setups.plan_with(planner, *inputs(blocks, gpus), MICROBATCHES)
    machine = os.cpu_count(), platform.python_version()
    made = [
        [
            *(row[name] for name in COLUMNS[:5]),
            None if row["error"] else f"{seconds(row['planner'], row['blocks'], row['gpus']):.6f}",
            row["error"],
            *machine,
        ]
        for row in rows
    ]
    files.write_text(TIMES, sweep.csv_text(COLUMNS, made))


def times() -> list[dict[str, str]]:
    """The rows of times.csv that have a time."""
    with TIMES.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["planning_s"]]


def size(row: dict[str, str]) -> int:
    """What grows from row to row."""
    return int(row["layers" if row["by"] == "layers" else "gpus"])


def draw() -> None:
    """Planning time against layers and against GPUs."""
    rows = times()
    table = {
        "panel": [PANELS[row["by"]] for row in rows],
        "method": [row["method"] for row in rows],
        "size": [size(row) for row in rows],
        "ms": [1000 * float(row["planning_s"]) for row in rows],
    }
    for suffix in CHART.formats:
        figures.chart(table, CHART, FOLDER / f"planning.{suffix}")
