"""The tables and figures of README.md: python experiments/schedules/run.py."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

from pipesim.analysis import metrics
from pipesim.base.errors import PipesimError
from pipesim.core.timeline import Timeline
from pipesim.display import figures, text
from pipesim.engines import by_name
from pipesim.lowering import Options, lower
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times
from pipesim.studies.ordering import schedule_with

HERE = Path(__file__).parent
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")
STAGES, MICROBATCHES = 4, 8
SMALL = ((2, 2), (2, 4), (2, 6), (3, 3), (3, 6), (4, 4), (4, 6))
UNIT = Times()
UNEVEN = Times.of(4, None, 3, 2, 0.5)
FACTORS = (1.0, 0.9, 0.8, 0.7, 2 / 3)
DRAWN = ("gpipe", "one_f_one_b", "interleaved", "zb_h1", "zb_v", "v_min", "chimera", "dualpipe")


def family() -> list[dict[str, object]]:
    """Every schedule with equal work per device, and the figure of some of them."""
    names = tuple(name for name in equal_stages.family() if name != "exact")
    found = equal_stages.gallery(STAGES, MICROBATCHES, Times(), schedulers=names)
    drawn = {name: made for name in DRAWN if isinstance(made := found[name], Timeline)}
    figures.gantt_grid(drawn, HERE / "gallery.png", memory="microbatches held")
    everything = {name: made for name, made in found.items() if isinstance(made, Timeline)}
    figures.gantt_grid(everything, HERE / "all.png", memory="microbatches held")
    return equal_stages.gallery_rows(found)


def gaps() -> list[list[str]]:
    """The shortest schedule there is of one stage per device, beside what searches and rules find."""
    return [
        [f"{p}, {m}", *(_seconds(name, p, m, times=times) for name in ("exact", "auto", "zb_1p", "one_f_one_b"))]
        for times in (Times(), UNEVEN)
        for p, m in SMALL
    ]


def _seconds(name: str, stages: int, microbatches: int, factor: float | None = None, times: Times = UNIT) -> str:
    try:
        made = equal_stages.setup(
            "one_f_one_b" if name == "auto" else name, stages, microbatches, times, None, Options(pair_factor=factor)
        )
        if name == "auto":  # with one stage per device, as `exact` has it
            made = replace(made, schedule=schedule_with(name, made.plan, made.costs, made.cluster))
    except PipesimError as error:
        return str(error)
    return f"{metrics.iteration_time(by_name.run(lower(made))):g}"


def pairs() -> list[list[str]]:
    """DualPipe against the time of a forward and a backward done as one."""
    return [
        [f"{factor:.2f}", *(_seconds(name, 8, 32, factor) for name in ("dualpipe", "dualpipe_v"))] for factor in FACTORS
    ]


def markdown(headers: list[str], rows: list[list[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [headers, ["---"] * len(headers), *rows])


def main() -> None:
    """Make everything again."""
    sys.path.insert(0, str(HERE.parent))
    import quantise  # noqa: PLC0415 - found only after the line above

    rows = family()
    quantise.quantise(HERE.glob("*.png"))
    with (HERE / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_plain(row) for row in rows)
    shown = [[row[0], *row[1:3], *(text.percent(float(x)) for x in row[3:6]), *row[6:]] for row in map(_plain, rows)]
    bubbles = ["idle", "1 - ideal/longest", "actual/ideal - 1"]
    tables = [
        markdown(["schedule", "makespan", "longest stage", *bubbles, "microbatches held", "transfers"], shown),
        markdown(["stages, microbatches", "exact", "auto, one stage per device", "zb_1p", "one_f_one_b"], gaps()),
        markdown(["F&B / (F + B)", "dualpipe", "dualpipe_v (two chunks of the same size)"], pairs()),
    ]
    page = (HERE / "README.md").read_text(encoding="utf-8")
    before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
    body = "\n\n".join(tables)
    (HERE / "README.md").write_text(f"{before}{MARKS[0]}\n\n{body}\n\n{MARKS[1]}{after}", encoding="utf-8")


COLUMNS = (
    "scheduler",
    "makespan",
    "longest_stage",
    "idle_share",
    "bubble_longest",
    "actual_over_ideal",
    "microbatches_held",
    "transfers",
)


def _plain(row: dict[str, object]) -> list[str]:
    if "error" in row:
        return [str(row["scheduler"]), *["nan"] * 7]
    bubble = row["bubble"]
    values = (row["makespan"], row["longest_stage"], *bubble.values(), row["peak_memory"], row["transfers"])
    return [str(row["scheduler"]), *(f"{value:.6g}" for value in values)]


if __name__ == "__main__":
    main()
