"""The tables of README.md from rows.csv: python experiments/planners/summary.py."""

import csv
import math
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
BEST = "spp_plus"
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")

Case = tuple[str, str, str]


def times() -> tuple[dict[Case, dict[str, float]], dict[Case, float], dict[str, float]]:
    """Seconds by case and planner, the bound of each case, and the longest planning of each planner."""
    found: dict[Case, dict[str, float]] = defaultdict(dict)
    bounds, planning = {}, defaultdict(float)
    with (HERE / "rows.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            case = row["model"], row["cluster"], row["microbatches"]
            bounds[case] = float(row["bound_s"])
            if row["iteration_time_s"]:
                found[case][row["planner"]] = float(row["iteration_time_s"])
                planning[row["planner"]] = max(planning[row["planner"]], float(row["planning_s"]))
    return found, bounds, planning


def full_pipelines(found: dict[Case, dict[str, float]], bounds: dict[Case, float]) -> str:
    """A sentence: the mean gap where there are at least four microbatches to a stage of the best plan."""
    with (HERE / "rows.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["planner"] == BEST]
    deep = [row for row in rows if int(row["microbatches"]) >= 4 * int(row["stages"])]
    cases = [(row["model"], row["cluster"], row["microbatches"]) for row in deep]
    gaps = [found[case][BEST] / bounds[case] - 1 for case in cases]
    return (
        f"Where there are at least four microbatches to a stage ({len(gaps)} cases), the gap of {BEST} is "
        f"{100 * sum(gaps) / len(gaps):.1f} % in the mean and {100 * sorted(gaps)[len(gaps) // 2]:.1f} % in the median."
    )


def geometric(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def tables() -> str:
    """Markdown: each planner beside the best one, SPP beside each planner, the gap by cluster and microbatches."""
    found, bounds, planning = times()
    planners = sorted(
        {p for row in found.values() for p in row},
        key=lambda p: (geometric([r[p] / r[BEST] for r in found.values() if p in r]), p),
    )
    lines = [
        f"{len(found)} cases.",
        "",
        full_pipelines(found, bounds),
        "",
        f"| planner | time / {BEST} | better, equal, worse | gap to bound | longest planning |",
        "|---|---|---|---|---|",
    ]
    for planner in planners:
        ratios = [row[planner] / row[BEST] for row in found.values() if planner in row]
        better, equal = sum(r < 1 - 1e-9 for r in ratios), sum(abs(r - 1) <= 1e-9 for r in ratios)
        gap = geometric([row[planner] / bounds[case] for case, row in found.items() if planner in row]) - 1
        lines.append(
            f"| {planner} | {geometric(ratios):.3f} | {better}, {equal}, {len(ratios) - better - equal} "
            f"| {100 * gap:.1f} % | {planning[planner]:.2f} s |"
        )
    lines += ["", "| SPP against | geometric mean of its speed-up | largest | where |", "|---|---|---|---|"]
    for planner in planners:
        if planner in {"spp", BEST}:
            continue
        speed = {case: row[planner] / row["spp"] for case, row in found.items() if planner in row}
        most = max(speed, key=lambda case: speed[case])
        mean, place = geometric(list(speed.values())), ", ".join(most)
        lines.append(f"| {planner} | {mean:.2f} | {speed[most]:.2f} | {place} microbatches |")
    clusters, counts = (list(dict.fromkeys(case[i] for case in found)) for i in (1, 2))
    counts.sort(key=int)
    lines += [
        "",
        f"| gap of {BEST} to the bound | " + " | ".join(f"M = {m}" for m in counts) + " |",
        "|---" * (len(counts) + 1) + "|",
    ]
    for cluster in clusters:
        cells = [[row[BEST] / bounds[case] for case, row in found.items() if case[1:] == (cluster, m)] for m in counts]
        shown = [f"{100 * (geometric(c) - 1):.1f} %" if c else "-" for c in cells]
        lines.append(f"| {cluster} | {' | '.join(shown)} |")
    return "\n".join([*lines, *constrained()]) + "\n"


def constrained() -> list[str]:
    """The table of the groups in which memory counts: each planner beside the best of each case."""
    with (HERE / "constrained.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    best: dict[tuple[str, ...], float] = {}
    keys = [tuple(row[name] for name in ("group", "model", "cluster", "microbatches", "tensor")) for row in rows]
    for row, key in zip(rows, keys, strict=True):
        best[key] = min(best.get(key, math.inf), float(row["iteration_time_s"] or math.inf))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    table = []
    for planner in dict.fromkeys(row["planner"] for row in rows):
        mine = [(row, key) for row, key in zip(rows, keys, strict=True) if row["planner"] == planner]
        cells, means = [], []
        for group in groups:
            here = [
                float(r["iteration_time_s"]) / best[key] for r, key in mine if r["group"] == group and not r["error"]
            ]
            without = sum(bool(r["error"]) for r, _ in mine if r["group"] == group)
            means.append(geometric(here) if here else math.inf)
            cells.append((f"{means[-1]:.3f}" if here else "-") + (f" ({without} without a plan)" if without else ""))
        table.append((sum(means), f"| {planner} | {' | '.join(cells)} |"))
    head = " | ".join(f"{group}: time / best known" for group in groups)
    return ["", f"| planner | {head} |", "|---" * (len(groups) + 1) + "|", *(line for _, line in sorted(table))]


if __name__ == "__main__":
    text = (HERE / "README.md").read_text(encoding="utf-8")
    before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
    (HERE / "README.md").write_text(f"{before}{MARKS[0]}\n\n{tables()}\n{MARKS[1]}{after}", encoding="utf-8")
