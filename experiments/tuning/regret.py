"""The layout that simulated times choose among those of one model that others measured, and what the choice costs.

python experiments/tuning/regret.py            prints the table and writes regret.csv

A case: rows of a source with the same model, GPUs, sequence and global batch, and at least two different layouts; of
BigScience also of the same day, since its software changed between days. The simulated times are those of
experiments/validation/expected.csv, from computed times; nothing is simulated here.
"""

import csv
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VALIDATION = HERE.parent / "validation"
SOURCES = ("bigscience", "megatron_published", "mlperf", "sailor", "simumax", "vtrain", "zero_bubble")
SAME = ("model", "layers", "hidden", "heads", "gpu", "gpus", "sequence", "global_batch", "precision", "date")
LAYOUT = ("tp", "pp", "vpp", "dp", "microbatch", "schedule", "recompute", "zero_stage", "sequence_parallel", "layout")
# Of rows that are simulated in two ways: from computed times, as those of a search for a layout are.
NOT_COMPUTED = {("zero_bubble", "main"), ("zero_bubble", "profile of more microbatches")}

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """The rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def simulated() -> dict[tuple[str, str], Row]:
    """Measured and simulated seconds of each row, by source and name."""
    found = {}
    for row in rows_of(VALIDATION / "expected.csv"):
        if row["simulated_s"] and row["measured_s"] and (row["source"], row["group"]) not in NOT_COMPUTED:
            found[row["source"], row["id"]] = row
    return found


def cases(same: tuple[str, ...] = SAME) -> dict[tuple[str, ...], list[tuple[str, float, float]]]:
    """For each case its layouts: name, measured and simulated seconds."""
    times, found = simulated(), defaultdict(dict)
    for source in SOURCES:
        for row in rows_of(VALIDATION / "data" / f"{source}.csv"):
            known = times.get((source, row["id"]))
            if known is None:
                continue
            key = (source, *(row.get(name, "") for name in same))
            layout = tuple(row.get(name, "") for name in LAYOUT)
            found[key].setdefault(layout, []).append(
                (row["id"], float(known["measured_s"]), float(known["simulated_s"]))
            )
    return {key: [_mean(runs) for runs in by_layout.values()] for key, by_layout in found.items() if len(by_layout) > 1}


def _mean(runs: list[tuple[str, float, float]]) -> tuple[str, float, float]:
    """Runs of one layout as one."""
    return runs[0][0], sum(run[1] for run in runs) / len(runs), sum(run[2] for run in runs) / len(runs)


def judged(key: tuple[str, ...], layouts: list[tuple[str, float, float]]) -> dict[str, Any]:
    """What the choice by simulated times costs, and how many pairs are in order."""
    chosen, best = min(layouts, key=lambda one: one[2]), min(layouts, key=lambda one: one[1])
    pairs = [(a, b) for a, b in combinations(layouts, 2) if a[1] != b[1]]
    right = sum((a[1] < b[1]) == (a[2] < b[2]) for a, b in pairs)
    return {
        "source": key[0], "model": key[1], "gpus": key[6], "global_batch": key[8], "layouts": len(layouts),
        "chosen": chosen[0], "best": best[0], "regret_percent": f"{100 * (chosen[1] / best[1] - 1):.2f}",
        "spread_percent": f"{100 * (max(one[1] for one in layouts) / best[1] - 1):.1f}",
        "pairs": len(pairs), "pairs_in_order": right, "spearman": f"{spearman(layouts):.3f}",
    }  # fmt: skip


def spearman(layouts: list[tuple[str, float, float]]) -> float:
    """The rank correlation of measured and simulated times; equal times share their rank."""
    columns = []
    for place in (1, 2):
        values = [one[place] for one in layouts]
        columns.append([sum(v < x for v in values) + sum(v == x for v in values) / 2 for x in values])
    means = [sum(column) / len(column) for column in columns]
    a, b = ([value - mean for value in column] for column, mean in zip(columns, means, strict=True))
    norm = (sum(x * x for x in a) * sum(x * x for x in b)) ** 0.5
    return sum(x * y for x, y in zip(a, b, strict=True)) / norm if norm else 1.0


def table(same: tuple[str, ...] = SAME) -> list[dict[str, Any]]:
    """A row for each case."""
    return [judged(key, layouts) for key, layouts in sorted(cases(same).items())]


def with_same_microbatches() -> list[str]:
    """The summary of BigScience and of all where a case has layouts of one size of microbatches only."""
    lines = summary(table((*SAME, "microbatch")))
    chosen = [line for line in lines if line.startswith(("| bigscience", "| all"))]
    return [line.replace(" |", ", microbatches alike |", 1).replace("|,", "|") for line in chosen]


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """For each source and for all: cases, mean regret, pairs in order, mean rank correlation."""
    lines = []
    for source in [*dict.fromkeys(row["source"] for row in rows), "all"]:
        mine = [row for row in rows if source in {row["source"], "all"}]
        regrets = [float(row["regret_percent"]) for row in mine]
        right, pairs = sum(row["pairs_in_order"] for row in mine), sum(row["pairs"] for row in mine)
        exact = sum(row["chosen"] == row["best"] for row in mine)
        rank = sum(float(row["spearman"]) for row in mine) / len(mine)
        lines.append(
            f"| {source} | {len(mine)} | {sum(row['layouts'] for row in mine)} | {sum(regrets) / len(regrets):.2f} % | "
            f"{max(regrets):.2f} % | {exact} | {right} of {pairs} | {rank:.2f} |"
        )
    return lines


def main() -> None:
    """Print the summary, and write the table."""
    rows = table()
    with (HERE / "regret.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    sys.stdout.write("\n".join(summary(rows) + with_same_microbatches()) + "\n")


if __name__ == "__main__":
    main()
