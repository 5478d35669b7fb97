"""Any planner on the suite, beside those whose rows are kept: python experiments/planners/judge.py MODULE:FUNCTION

A planner is a function (model, cluster, costs, microbatches) -> Plan, as docs/guides/your-own-planner.md has it, or the
name of one of pipesim's. `--quick` takes the cases that take seconds. Prints the standing; `--output` keeps the rows.
"""

import argparse
import csv
import io
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # `cases` is beside this script
sys.path.insert(0, str(Path.cwd()))  # and the planner that is judged in the folder where this is called

import cases  # noqa: E402 - found only after the lines above
from cases import Case  # noqa: E402 - as above

from pipesim.base import files, lookup  # noqa: E402 - as above
from pipesim.base.errors import PipesimError  # noqa: E402 - as above
from pipesim.planners import PLANNERS  # noqa: E402 - as above

COLUMNS = (*Case._fields, "planner", "stages", "scheduler", "iteration_time_s", "planning_s", "error")
SLOW = "leaf-spine 64"

Row = dict[str, Any]


def kept() -> dict[Case, dict[str, float]]:
    """Seconds of the kept rows, by case and planner."""
    found: dict[Case, dict[str, float]] = {}
    for name in ("rows.csv", "constrained.csv"):
        with (HERE / name).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                case = Case(
                    row.get("group", "even"),
                    row["model"],
                    row["cluster"],
                    int(row["microbatches"]),
                    int(row.get("tensor", 1)),
                )
                found.setdefault(case, {})
                if row["iteration_time_s"]:
                    found[case][row["planner"]] = float(row["iteration_time_s"])
    return found


def chosen(groups: list[str], *, quick: bool) -> list[Case]:
    """The cases of these groups; `quick`: without 64 devices, and of `even` only 4 microbatches."""
    every = [case for group in groups for case in cases.cases(group)]
    if not quick:
        return every
    return [case for case in every if case.cluster != SLOW and (case.group != "even" or case.microbatches == 4)]


def rows_of(case: Case, planners: list[str]) -> list[Row]:
    """A row of each planner."""
    return [case._asdict() | {"planner": planner} | cases.result_of(case, planner) for planner in planners]


def text_of(rows: list[Row]) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def standing(planner: str, seconds: dict[Case, float], known: dict[Case, dict[str, float]], failed: int) -> list[str]:
    """Lines: the planner against the best of each case that is kept, and its place among all."""
    lines = [f"{planner}: {len(seconds)} cases with a plan, {failed} without"]
    for group in dict.fromkeys(case.group for case in seconds):
        here = {case: value for case, value in seconds.items() if case.group == group and known.get(case)}
        if not here:
            continue
        best = [value / min(known[case].values()) for case, value in here.items()]
        names = dict.fromkeys(name for case in here for name in known[case] if name != planner)
        means = {
            name: geometric([known[case][name] / value for case, value in here.items() if name in known[case]])
            for name in names
        }
        place = 1 + sum(mean < 1 for mean in means.values())
        wins, ties = sum(x < 1 - 1e-9 for x in best), sum(abs(x - 1) <= 1e-9 for x in best)
        lines.append(
            f"  {group}: {geometric(best):.3f} times the best that is known (better {wins}, equal {ties}, worse "
            f"{len(best) - wins - ties}); place {place} of {len(means) + 1}"
        )
        lines += [
            f"    {name} takes {mean:.3f} times as long" for name, mean in sorted(means.items(), key=lambda x: x[1])
        ]
    return lines


def geometric(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> int:
    """Judge planners; 2 for a name that is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "planners", nargs="+", metavar="MODULE:FUNCTION", help="or a name such as spp, or spp(option=...)"
    )
    parser.add_argument("--group", action="append", choices=list(cases.SUITE["groups"]), help="default: all")
    parser.add_argument(
        "--quick", action="store_true", help="without 64 devices; 4 microbatches where memory is no limit"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="write the rows as CSV")
    options = parser.parse_args()
    try:
        for planner in options.planners:
            lookup.resolve(planner, PLANNERS, "planner")
    except PipesimError as error:
        parser.error(str(error))
    made = chosen(options.group or list(cases.SUITE["groups"]), quick=options.quick)
    rows: list[Row] = []
    with ProcessPoolExecutor(options.workers, mp_context=get_context("forkserver"), initializer=_see) as pool:
        for n, found in enumerate(pool.map(rows_of, made, [options.planners] * len(made)), 1):
            rows += found
            print(f"{n} of {len(made)}: {', '.join(map(str, made[n - 1]))}", file=sys.stderr, flush=True)  # noqa: T201 - a script
    if options.output:
        files.write_text(options.output, text_of(rows))
    known = kept()
    for planner in options.planners:
        mine = [row for row in rows if row["planner"] == planner]
        seconds = {
            Case(*(row[name] for name in Case._fields)): row["iteration_time_s"] for row in mine if "error" not in row
        }
        print("\n".join(standing(planner, seconds, known, len(mine) - len(seconds))))  # noqa: T201 - a script
    return 0


def _see() -> None:
    """Let a worker find the planner."""
    sys.path[:0] = [str(Path.cwd()), str(HERE)]


if __name__ == "__main__":
    raise SystemExit(main())
