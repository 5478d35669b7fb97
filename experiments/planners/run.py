"""Every planner on every model, cluster and number of microbatches: python experiments/planners/run.py.

Rows go to rows.csv as they are made; what is there already is not made again. `--quick` leaves out what takes longest:
the 64-device cluster, and 64 microbatches. `--bounds` computes only the bounds again, of the
rows that are there.
"""

import argparse
import csv
import io
import itertools
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from pipesim.analysis import metrics
from pipesim.analysis.bounds import plan_bound
from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.roofline import roofline
from pipesim.base import lookup
from pipesim.base.errors import PipesimError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.core.plan import Plan
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower
from pipesim.planners import PLANNERS
from pipesim.studies import loading, ordering, setups
from pipesim.studies.pricing import SCHEDULES

HERE = Path(__file__).parent
COLUMNS = tuple(
    "model cluster microbatches planner stages scheduler iteration_time_s bound_s planning_s error".split()  # noqa: SIM905 - names read best in one line
)

# Name -> architecture; times are those of a roofline over the V100's data sheet, 16-bit.
MODELS = {
    "vgg-16": "vgg(blocks=(2, 2, 3, 3, 3), microbatch=32)",
    "vgg-19": "vgg-19(microbatch=32)",
    "resnet-50": "resnet(blocks=(3, 4, 6, 3), microbatch=32)",
    "resnet-152": "resnet-152(microbatch=32)",
    "bert-large": "bert-large(microbatch=4)",
    "bert-48": "bert(48, 1024, 16, microbatch=4)",
    "gpt2-medium": "gpt(24, 1024, 16, microbatch=4)",
    "gpt2-xl": "gpt2-xl(microbatch=1)",
    "gpt3-1.3b": "gpt(24, 2048, 16, sequence=2048, microbatch=1)",
    "gpt3-6.7b": "gpt3-6.7b(microbatch=1)",
}
CLUSTERS = {
    "2x8, 25 Gb/s": 'servers(2, 8, intra="25GB/s", inter="25Gb/s")',
    "4x8, 100 Gb/s": 'servers(4, 8, intra="25GB/s", inter="100Gb/s")',
    "DGX-1": "dgx1_v100",
    "4x4, one slow link": 'servers(4, 4, intra="25GB/s", inter="25Gb/s")',
    "random 16": 'random(16, seed=1, bandwidths=["1GB/s", "16GB/s"], distribution="log")',
    "leaf-spine 64": 'leaf_spine(8, 4, 8, bandwidth="100Gb/s", uplink="100Gb/s")',
}
MICROBATCHES = (4, 8, 16, 64)
LEFT_OUT = {"brute"}  # too many plans

Case = tuple[str, str, int]


def cluster_of(name: str) -> Cluster:
    """The cluster of the suite; in one of them a server has a quarter of its bandwidth to the others."""
    cluster = loading.load_cluster(CLUSTERS[name])
    if name != "4x4, one slow link":
        return cluster
    links = (
        replace(x, bandwidth=x.bandwidth / 4)
        if "node3.nic0" in {x.source, x.target} and "core" in {x.source, x.target}
        else x
        for x in cluster.links
    )
    return replace(cluster, name="servers-4x4-slow", links=tuple(links))


def rows_of(case: Case, planners: Iterable[str]) -> tuple[float, list[dict[str, object]]]:
    """The bound of a case, and what each planner makes of it, with the schedule that suits its plan best."""
    model, name, microbatches = case
    made = lookup.call(MODELS[model], ARCHITECTURES, "architecture")
    costs, cluster = costs_of(roofline(made, ["v100-16gb"])), cluster_of(name)
    bound = plan_bound(costs, cluster, microbatches)
    rows = []
    for planner in planners:
        row: dict[str, object] = {
            "model": model,
            "cluster": name,
            "microbatches": microbatches,
            "planner": planner,
            "bound_s": bound,
        }
        began = time.perf_counter()
        try:
            plan = setups.plan_with(planner, costs, cluster, microbatches)
            row |= {"planning_s": round(time.perf_counter() - began, 3), "stages": len(plan.stages)}
            seconds, best = min(_timed(plan, costs, cluster))
            row |= {"iteration_time_s": seconds, "scheduler": best}
        except PipesimError as error:
            row["error"] = str(error)
        rows.append(row)
    return bound, rows


def _timed(plan: Plan, costs: Costs, cluster: Cluster) -> Iterator[tuple[float, str]]:
    for scheduler in SCHEDULES:
        try:
            schedule = ordering.schedule_with(scheduler, plan, costs, cluster)
        except PipesimError:  # this scheduler does not order such plans
            continue
        case = Setup(plan, schedule, costs, cluster)
        yield metrics.iteration_time(by_name.run(lower(case), "compiled")), scheduler


def main() -> None:
    """Make the rows that are not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the 64-device cluster and 64 microbatches")
    parser.add_argument("--output", type=Path, default=HERE / "rows.csv")
    parser.add_argument("--bounds", action="store_true", help="only the bounds, of the rows that are there")
    parser.add_argument(
        "--again", metavar="PLANNER", help="only this planner's rows and the bounds, where there are rows"
    )
    parser.add_argument("--cluster", choices=CLUSTERS, action="append", help="with these: only on this cluster")
    options = parser.parse_args()
    if options.bounds or options.again:
        again(options.output, options.again, options.cluster or list(CLUSTERS))
        return
    clusters = [name for name in CLUSTERS if not (options.quick and name == "leaf-spine 64")]
    counts = [m for m in MICROBATCHES if not (options.quick and m == 64)]
    done = _done(options.output)
    cases = [case for case in itertools.product(MODELS, clusters, counts) if case not in done]
    cases.sort(key=lambda case: (case[1] == "leaf-spine 64", case[2]))  # what takes long comes last
    planners = [planner for planner in PLANNERS if planner not in LEFT_OUT]
    with (
        ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool,
        options.output.open("a", newline="") as file,
    ):
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for n, future in enumerate(as_completed([pool.submit(rows_of, case, planners) for case in cases]), 1):
            writer.writerows(future.result()[1])
            file.flush()
            print(f"{n} of {len(cases)}", flush=True)  # noqa: T201 - a script


def again(path: Path, planner: str | None, clusters: list[str]) -> None:
    """Write the bound of each row again, and all of a planner's: what to do when one of them has become better."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    cases = list(dict.fromkeys((row["model"], row["cluster"], int(row["microbatches"])) for row in rows))
    cases = [case for case in cases if case[1] in clusters]
    cases.sort(key=lambda case: (case[1] != "leaf-spine 64", -case[2]))  # what takes long comes first
    with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
        made = dict(zip(cases, pool.map(rows_of, cases, itertools.repeat([planner] if planner else [])), strict=True))
    for n, row in enumerate(rows):
        case = row["model"], row["cluster"], int(row["microbatches"])
        if case not in made:
            continue
        bound, fresh = made[case]
        rows[n] = row | {"bound_s": repr(bound)} | (fresh[0] if row["planner"] == planner else {})
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")


def _done(path: Path) -> set[Case]:
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {(row["model"], row["cluster"], int(row["microbatches"])) for row in csv.DictReader(file)}


if __name__ == "__main__":
    main()
