"""One plan under four schedules, side by side."""

from pathlib import Path

import quantise

from pipesim.analysis import metrics
from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.roofline import roofline
from pipesim.base import files, lookup
from pipesim.core.costs import costs_of
from pipesim.core.timeline import Timeline
from pipesim.display import figures
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower
from pipesim.studies import loading, ordering, setups, sweep

FOLDER = Path(__file__).parent / "gantts"
SCHEDULERS = {"GPipe": "gpipe", "1F1B": "one_f_one_b", "eager 1F1B": "eager_1f1b", "PE": "pe"}
COLUMNS = ["schedule", "iteration_time_s", "idle_share", "peak_memory_bytes"]


def timelines() -> dict[str, Timeline]:
    """SPP's plan for BERT-large on two servers of two GPUs, 8 microbatches."""
    costs = costs_of(roofline(lookup.call("bert-large(microbatch=4)", ARCHITECTURES, "architecture"), ["v100-16gb"]))
    cluster = loading.load_cluster('servers(2, 2, intra="25GB/s", inter="10 Gb/s")')
    plan = setups.plan_with("spp", costs, cluster, 8)
    found = {}
    for name, scheduler in SCHEDULERS.items():
        made, schedule = ordering.ordered_with(scheduler, plan, costs, cluster)
        found[name] = by_name.run(lower(Setup(made, schedule, costs, cluster)), "compiled")
    return found


def rows(found: dict[str, Timeline]) -> str:
    """What the charts show, as CSV."""
    made = [
        (n, metrics.iteration_time(t), metrics.bubble(t)["idle_share"], int(metrics.peak_memory(t).max()))
        for n, t in found.items()
    ]
    return sweep.csv_text(COLUMNS, made)


def make() -> str:
    """Draw and write; returns the rows."""
    found = timelines()
    for suffix in ("pdf", "png"):
        figures.gantt_grid(found, FOLDER / f"gantts.{suffix}")
    quantise.quantise([FOLDER / "gantts.png"])
    text = rows(found)
    files.write_text(FOLDER / "rows.csv", text)
    return text
