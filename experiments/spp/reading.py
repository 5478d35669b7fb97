"""The rows of experiments, what several of them come to, and the tables of the page."""

import csv
from collections.abc import Callable, Iterable
from math import exp, log
from pathlib import Path

import planning  # a script beside this one

from pipesim.display.figures.chart_kinds import power_law
from pipesim.display.figures.paper import time_unit

HERE = Path(__file__).parent
SLOW = ("slow GPU", "slow link")
TIME = "iteration_time_s"
_PLACES = {
    "model": "{}",
    "gpus": "{} GPUs",
    "microbatches": "{} microbatches",
    "rate": "{} Gb/s",
    "layers": "{} blocks",
    "hidden": "hidden size {}",
}

Row = dict[str, str]


def rows_of(name: str) -> list[Row]:
    """The rows of an experiment that have a result."""
    with (HERE / name / "expected.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row.get(TIME, "?")]


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    found = list(values)
    return exp(sum(map(log, found)) / len(found))


def named(axis: str, value: str) -> str:
    """A place on an axis as a sentence names it: "64 GPUs"."""
    return _PLACES.get(axis, f"{axis} {{}}").format(value)


def over(name: str, *axes: str, ours: str = "SPP") -> dict[str, dict[str, float]]:
    """Method -> place -> its time over that of ours there, where both fit the memory."""
    rows = [row for row in rows_of(name) if row["fits_memory"] not in {"False", "0"}]
    places = [", ".join(named(axis, row[axis]) for axis in axes) for row in rows]
    base = {place: float(row[TIME]) for place, row in zip(places, rows, strict=True) if row["method"] == ours}
    found: dict[str, dict[str, float]] = {}
    for place, row in zip(places, rows, strict=True):
        if place not in base:
            continue
        found.setdefault(row["method"], {})[place] = float(row[TIME]) / base[place]
    return found


def ends(
    name: str, axis: str, what: Callable[[Row], float], series: str = "method", chosen: str = "SPP"
) -> list[float]:
    """The geometric mean of a number at the least and at the greatest value of an axis, of one series."""
    rows = [row for row in rows_of(name) if not series or row[series] == chosen]
    places = sorted({float(row[axis]) for row in rows})
    return [mean(what(row) for row in rows if float(row[axis]) == end) for end in (places[0], places[-1])]


def disturbed(method: str, what: str) -> tuple[float, float]:
    """p95 over p95 without the disturbance, and a replanned iteration over one that is not; means of the models."""
    rows = [row for row in rows_of("robustness") if row["method"] == method]
    calm = {row["model"]: float(row["replay_p95_s"]) for row in rows if row["disturbance"] == "jitter"}
    mine = [row for row in rows if row["disturbance"] == what]
    return (
        mean(float(row["replay_p95_s"]) / calm[row["model"]] for row in mine),
        mean(float(row["replanned_s"]) / float(row[TIME]) for row in mine),
    )


def robustness_table() -> str:
    """The same of every planner."""
    lines = [f"| planner | {' | '.join(f'p95 with a {what} | won back' for what in SLOW)} |", "|---|---|---|---|---|"]
    for method in dict.fromkeys(row["method"] for row in rows_of("robustness")):
        cells = [
            f"{cost:.2f} times | {100 * (1 - again):.0f} %" for cost, again in (disturbed(method, w) for w in SLOW)
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def models_table() -> str:
    """The speed-ups over each rival: geometric mean of the models, largest and where, smallest."""
    lines = [
        "| rival | SPP: mean | largest | where | smallest | SPP+: mean | largest | where | smallest |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    both = [over("models", "model", ours=ours) for ours in ("SPP", "SPP+")]
    for rival in both[0]:
        cells = [faster(found[rival]) for ours, found in zip(("SPP", "SPP+"), both, strict=True) if ours != rival]
        if len(cells) == len(both):
            lines.append(f"| {rival} | {' | '.join(cells)} |")
    return "\n".join(lines)


def faster(places: dict[str, float]) -> str:
    """Times of a rival over ours, as the cells of a table."""
    where = max(places, key=places.__getitem__)
    average, most, least = (
        f"{100 * (value - 1):+.0f} %" for value in (mean(places.values()), places[where], min(places.values()))
    )
    return f"{average} | {most} | {where} | {least}"


def planning_rows() -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Method -> what grows -> (size, seconds of planning)."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in planning.times():
        sizes = found.setdefault(row["method"], {}).setdefault(row["by"], [])
        sizes.append((planning.size(row), float(row["planning_s"])))
    return found


def planning_table() -> str:
    """Slopes, and the largest sizes."""
    head = "| planner | layers to the power of | longest | GPUs to the power of | longest |"
    lines = [head, "|---|---|---|---|---|"]
    for method, of in planning_rows().items():
        cells = [f"{power_law(*zip(*of[by], strict=True))[0]:z.1f} | {spoken(of[by][-1])}" for by in planning.PANELS]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spoken(last: tuple[int, float]) -> str:
    """A size and how long it took."""
    size, seconds = last
    unit, ns = time_unit(1e9 * seconds)
    value = 1e9 * seconds / ns
    return f"{value:.{0 if value >= 10 else 1}f} {unit} for {size}"
