"""Comparisons of planners and schedulers as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.columns import TextColumn, shown
from pipesim.display.text.formatting import facts, no_layout_faster, percent, seconds, size, table, wrapped
from pipesim.display.text.scaling_text import OTHER, under_other_scaling
from pipesim.display.text.terminal import PLAIN, Terminal
from pipesim.display.text.validation_text import measured_interval


def comparison(rows: Sequence[Mapping[str, Any]], best: int | None, on: Terminal = PLAIN) -> str:
    """One line per planner and scheduler, then the reason of each failure.

    `best` is the index of the best row, marked `**`; the best of each planner is marked `*`.
    """
    marks = ["**" if index == best else "*" if row.get("starred") else "" for index, row in enumerate(rows)]
    marked = [_marked(row, mark) for row, mark in zip(rows, marks, strict=True)]
    legend = []
    if best is not None:
        fits = rows[best]["fits_memory"]
        fitting, none = "* fastest that fits in memory, of each planner; ** of all", "** fastest; none fits in memory"
        legend = [none if fits is False else fitting]
        legend.append(f"** measured runs: {measured_interval(rows[best]['measured_interval'])}")
    red = [index for index, row in enumerate(rows) if row.get("fits_memory") is False]
    bold = [] if best is None else [best]
    below = [wrapped(line, on, 3) for line in [*legend, *_failures(rows)]]
    return "\n".join([shown(comparison_columns(rows), marked, on, bold, red), *below])


def _marked(row: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """A row with its stars, its failure, and its time where both scalings give the same."""
    found = {
        **row,
        "scheduler": f"{row['scheduler']}: failed" if "error" in row else f"{row['scheduler']} {mark}".rstrip(),
    }
    if "error" not in row and not row["iteration_time_by_scaling_s"]:
        found["iteration_time_by_scaling_s"] = dict.fromkeys(OTHER, row["iteration_time_s"])
    return found


def comparison_columns(rows: Sequence[Mapping[str, Any]]) -> list[TextColumn]:
    """The columns of a comparison; times under the other scaling where they differ in any row."""
    return [
        TextColumn("planner", "planner", on_left=True),
        TextColumn("scheduler", "scheduler", on_left=True),
        TextColumn("iteration", "iteration_time_s", seconds),
        *(
            TextColumn(label, f"iteration_time_by_scaling_s.{name}", seconds, drop=1)
            for name, label in _other_scalings(rows).items()
        ),
        TextColumn("samples/s", "throughput_samples_per_s", "{:.1f}".format, drop=3),
        TextColumn("idle", "bubble.idle_share", percent, drop=2),
        TextColumn("peak memory", "peak_memory_bytes", size, drop=4),
        TextColumn("fits", "fits_memory", {True: "yes", False: "NO", None: "unknown"}.__getitem__),
    ]


def nearest_bound(row: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """The certified bound of the best row, and how far it is above."""
    lines = [("lower bound", "-")]
    if row["bound_s"]:
        gap = percent(row["iteration_time_s"] / row["bound_s"] - 1)
        lines = [
            ("lower bound", f"{seconds(row['bound_s'])} for plans and schedules of its kind; the best is {gap} above")
        ]
    if row.get("layout_bound_s") and row.get("fits_memory") is not False:
        lines.append(("any layout", no_layout_faster(row["layout_bound_s"], row["iteration_time_s"])))
    return facts(lines, on)


def gaps(rows: Sequence[Mapping[str, Any]], on: Terminal = PLAIN) -> str:
    """How far each row is above the certified lower bound for plans and schedules of its sort."""
    done = [row for row in rows if "error" not in row]
    lines = [
        [
            row["planner"],
            row["scheduler"],
            seconds(row["bound_s"]),
            _gap(row, "bound_s"),
            seconds(row["layout_bound_s"]) if row.get("layout_bound_s") else "-",
            _gap(row, "layout_bound_s"),
        ]
        for row in done
    ]
    return table(
        ["planner", "scheduler", "lower bound", "gap to bound", "any layout", "gap to it"], lines, left=2, on=on
    )


def _gap(row: Mapping[str, Any], bound: str) -> str:
    """How far a row is above one of its bounds; that of all layouts is of those that fit in memory."""
    if bound == "layout_bound_s" and row.get("fits_memory") is False:
        return "-"
    return _signed(row["iteration_time_s"] / row[bound] - 1) if row.get(bound) else "-"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"


def _other_scalings(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The other scaling and the header of its column, where it makes a difference in any row."""
    shown = [OTHER[row["scaling"]] for row in rows if "error" not in row and under_other_scaling(row)]
    return dict(shown[:1])


def _failures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rows failed; schedulers that failed with the same error for a planner share a line."""
    by_error: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "error" in row:
            by_error.setdefault((row["planner"], row["error"]), []).append(row["scheduler"])
    return [f"{planner} + {', '.join(schedulers)}: {error}" for (planner, error), schedulers in by_error.items()]
