"""Schedules as text: one in detail, or all of them in a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.answer_text import bubble
from pipesim.display.text.formatting import facts, percent, seconds, table

_HEADERS = (
    "scheduler",
    "makespan",
    "longest stage",
    "idle",
    "1 - ideal/longest",
    "actual/ideal - 1",
    "peak",
    "transfers",
)


def exploration(data: Mapping[str, Any]) -> str:
    """The makespan, bubble and activations of a schedule; `data` is that of `equal_stages.exploration`."""
    peaks = " ".join(map(str, data["peak_in_flight"].values()))
    return facts(
        [
            ("makespan", seconds(data["makespan"])),
            ("longest stage", seconds(data["longest_stage"])),
            ("bubble", bubble(data["bubble"])),
            ("in flight at most", f"{peaks} (microbatches on each device, chunks counted apart)"),
        ]
    )


def schedule_rows(rows: Sequence[str], columns: int = 110) -> str:
    """A schedule's text form, one line per rank, cut off after so many columns."""
    shown = [f"{rank}: {row.replace(',', ' ')}" for rank, row in enumerate(rows)]
    return "\n".join(row if len(row) <= columns else f"{row[: columns - 4]} ..." for row in shown)


def gallery(data: Sequence[Mapping[str, Any]]) -> str:
    """One line per scheduler; those that make no schedule here with the reason."""
    lines = [
        [
            row["scheduler"],
            seconds(row["makespan"]),
            seconds(row["longest_stage"]),
            *(percent(row["bubble"][name]) for name in ("idle_share", "longest_stage", "actual_over_ideal")),
            f"{row['peak_memory']:.2f}",
            str(row["transfers"]),
        ]
        for row in data
        if "error" not in row
    ]
    failed = [f"{row['scheduler']}: {row['error']}" for row in data if "error" in row]
    legend = ["peak: activations of so many microbatches on the fullest device"] if lines else []
    return "\n".join([*([table(_HEADERS, lines)] if lines else []), *legend, *failed])
