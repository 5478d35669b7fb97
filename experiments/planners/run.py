"""Every planner on every model, cluster and number of microbatches: python experiments/planners/run.py.

Rows go to rows.csv as they are made; what is there already is not made again. `--quick` leaves out what takes longest:
the 64-device cluster, and 64 microbatches. `--bounds` computes only the bounds again, of the rows that are there, and
`--again PLANNER` only the rows of a planner; with both, both.
"""

import argparse
import csv
import io
import itertools
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # `cases` is beside this script

import cases

from pipesim.analysis.bounds import plan_bound
from pipesim.planners import PLANNERS

HERE = Path(__file__).parent
COLUMNS = tuple(
    "model cluster microbatches planner stages scheduler iteration_time_s bound_s planning_s error".split()  # noqa: SIM905 - names read best in one line
)

MICROBATCHES = tuple(cases.SUITE["groups"]["even"]["microbatches"])
CLUSTERS = tuple(cases.SUITE["groups"]["even"]["clusters"])
LEFT_OUT = {"brute"}  # too many plans
READ = ('spp(bandwidth="nominal")',)  # planners with other options: SPP as it is read literally

Case = tuple[str, str, int]


def rows_of(case: Case, planners: Iterable[str], bound: float | None = None) -> tuple[float, list[dict[str, object]]]:
    """The bound of a case, unless it is known, and what each planner makes of it, with the schedule that suits its plan
    best.
    """
    model, name, microbatches = case
    if bound is None:
        bound = plan_bound(cases.costs_for(model), cases.cluster_of(name), microbatches)
    rows = []
    for planner in planners:
        row: dict[str, object] = {
            "model": model,
            "cluster": name,
            "microbatches": microbatches,
            "planner": planner,
            "bound_s": bound,
        }
        row |= cases.result_of(cases.Case("even", model, name, microbatches), planner)
        rows.append(row)
    return bound, rows


def main() -> None:
    """Make the rows that are not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the 64-device cluster and 64 microbatches")
    parser.add_argument("--output", type=Path, default=HERE / "rows.csv")
    parser.add_argument("--bounds", action="store_true", help="only the bounds, of the rows that are there")
    parser.add_argument(
        "--again", metavar="PLANNER", help="only this planner's rows, where there are rows; with --bounds, these too"
    )
    parser.add_argument(
        "--alone", action="store_true", help="with --again: one case after the other, each with all cores"
    )
    parser.add_argument("--cluster", choices=CLUSTERS, action="append", help="with these: only on this cluster")
    options = parser.parse_args()
    if options.bounds or options.again:
        clusters = options.cluster or list(CLUSTERS)
        again(options.output, options.again, clusters, alone=options.alone, bounds=options.bounds)
        return
    clusters = [name for name in CLUSTERS if not (options.quick and name == "leaf-spine 64")]
    counts = [m for m in MICROBATCHES if not (options.quick and m == 64)]
    done = _done(options.output)
    wanted = [
        case
        for case in itertools.product(cases.SUITE["groups"]["even"]["models"], clusters, counts)
        if case not in done
    ]
    wanted.sort(key=lambda case: (case[1] == "leaf-spine 64", case[2]))  # what takes long comes last
    planners = [*(planner for planner in PLANNERS if planner not in LEFT_OUT), *READ]
    with (
        ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool,
        options.output.open("a", newline="") as file,
    ):
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for n, future in enumerate(as_completed([pool.submit(rows_of, case, planners) for case in wanted]), 1):
            writer.writerows(future.result()[1])
            file.flush()
            print(f"{n} of {len(wanted)}", flush=True)  # noqa: T201 - a script


def again(path: Path, planner: str | None, clusters: list[str], *, alone: bool, bounds: bool) -> None:
    """Write a planner's rows again, or with `bounds` the bound of each: what to do when one of them has become better.

    `alone`: in this process, so that its seconds of planning are those of a machine that does nothing else.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = list(dict.fromkeys((row["model"], row["cluster"], int(row["microbatches"])) for row in rows))
    found = [case for case in found if case[1] in clusters]
    found.sort(key=lambda case: (case[1] != "leaf-spine 64", -case[2]))  # what takes long comes first
    planners = itertools.repeat([planner] if planner else [])
    known = {(row["model"], row["cluster"], int(row["microbatches"])): float(row["bound_s"]) for row in rows}
    least = [None if bounds else known[case] for case in found]
    with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
        rows_made = (map if alone else pool.map)(rows_of, found, planners, least)
        made = dict(zip(found, rows_made, strict=True))
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
