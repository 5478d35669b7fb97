"""Comparisons of planners and schedulers as text."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipesim.display.text.formatting import percent, seconds, size, table
from pipesim.display.text.scaling_text import OTHER, under_other_scaling


def comparison(rows: Sequence[Mapping[str, Any]], best: int | None) -> str:
    """One line per planner and scheduler, then the reason of each failure.

    `best` is the index of the best row, marked `**`; the best of each planner is marked `*`.
    """
    others = _other_scalings(rows)
    lines = [_line(row, others, "**" if index == best else "*") for index, row in enumerate(rows)]
    more = ["samples/s", "idle", "peak memory", "fits"]
    headers = ["planner", "scheduler", "iteration", *others.values(), *more]
    legend = []
    if best is not None:
        fits = rows[best]["fits_memory"]
        fitting, none = "* fastest that fits in memory, of each planner; ** of all", "** fastest; none fits in memory"
        legend = [none if fits is False else fitting]
    return "\n".join([table(headers, lines, left=2), *legend, *_failures(rows)])


def gaps(rows: Sequence[Mapping[str, Any]]) -> str:
    """How far each row is above the certified lower bound for plans and schedules of its sort."""
    done = [row for row in rows if "error" not in row]
    lines = [
        [
            row["planner"],
            row["scheduler"],
            seconds(row["bound_s"]),
            f"{100 * (row['iteration_time_s'] / row['bound_s'] - 1):+.1f} %" if row["bound_s"] else "-",
        ]
        for row in done
    ]
    return table(["planner", "scheduler", "lower bound", "gap to bound"], lines, left=2)


def _line(row: Mapping[str, Any], others: Collection[str], mark: str) -> list[str]:
    """The cells of a row, with times under the other scalings too."""
    if "error" in row:
        return [row["planner"], row["scheduler"], "failed", *[""] * (4 + len(others))]
    time = row["iteration_time_s"]
    starred = mark == "**" or row.get("starred")
    return [
        row["planner"],
        row["scheduler"] + (f" {mark}" if starred else ""),
        seconds(time),
        *(seconds((row["iteration_time_by_scaling_s"] or {}).get(name, time)) for name in others),
        f"{row['throughput_samples_per_s']:.1f}",
        percent(row["bubble"]["idle_share"]),
        size(row["peak_memory_bytes"]),
        {True: "yes", False: "NO", None: "unknown"}[row["fits_memory"]],
    ]


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
