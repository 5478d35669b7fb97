"""Schedules as text: one in detail, or all of them in a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.answer_text import bubble
from pipesim.display.text.columns import TextColumn, TextTable, shown
from pipesim.display.text.formatting import facts, percent, seconds
from pipesim.display.text.terminal import PLAIN, Terminal


def exploration(data: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """The makespan, bubble and activations of a schedule; `data` is that of `equal_stages.exploration`."""
    peaks = " ".join(map(str, data["peak_in_flight"].values()))
    return facts(
        [
            ("makespan", on.bold(seconds(data["makespan"]))),
            ("longest stage", seconds(data["longest_stage"])),
            ("bubble", bubble(data["bubble"])),
            ("in flight at most", f"{peaks} (microbatches on each device, chunks counted apart)"),
        ],
        on,
    )


def schedule_difference(data: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """A schedule against another: their times, and for each rank the first action that differs."""
    other = data["against"]
    gain = other["makespan"] / data["makespan"] - 1 if data["makespan"] else 0.0
    head = f"against {other['scheduler']}: {seconds(other['makespan'])}, {100 * gain:+.1f} %; {bubble(other['bubble'])}"
    if other["stage_factor"] != 1:
        head += f"\nits stages take {other['stage_factor']:g} times as long: the same work on each device"
    changed = [one for one in other["ranks"] if one["first"] is not None]
    if not changed:
        return f"{head}\nthe orders are the same"
    same = len(other["ranks"]) - len(changed)
    return f"{head}\n\n{changed_ranks(data).text(on)}" + (f"\n{same} ranks have the same order" if same else "")


def changed_ranks(data: Mapping[str, Any]) -> TextTable:
    """The ranks whose order differs from that of the other schedule, as a table."""
    other = data["against"]
    columns = (
        TextColumn("rank", "rank", on_left=True),
        TextColumn("first difference at", "first"),
        TextColumn(data["scheduler"], "here", _action),
        TextColumn(other["scheduler"], "there", _action),
        TextColumn("actions elsewhere", "moved"),
    )
    return TextTable(columns, [one for one in other["ranks"] if one["first"] is not None])


def _action(word: str | None) -> str:
    return word or "-"


def schedule_rows(rows: Sequence[str], columns: int = 110) -> str:
    """A schedule's text form, one line per rank, cut off after so many columns."""
    lines = [f"{rank}: {row.replace(',', ' ')}" for rank, row in enumerate(rows)]
    return "\n".join(row if len(row) <= columns else f"{row[: columns - 4]} ..." for row in lines)


def schedulers_columns() -> list[TextColumn]:
    """The columns of all schedulers."""
    return [TextColumn("scheduler", "scheduler", on_left=True), TextColumn("about", "about", on_left=True)]


def gallery_columns() -> list[TextColumn]:
    """The columns of a gallery; the longest stage and other definitions of the bubble are left out first."""
    return [
        TextColumn("scheduler", "scheduler", on_left=True),
        TextColumn("makespan", "makespan", seconds),
        TextColumn("longest stage", "longest_stage", seconds, drop=2),
        TextColumn("idle", "bubble.idle_share", percent),
        TextColumn("1 - ideal/longest", "bubble.longest_stage", percent, drop=4),
        TextColumn("actual/ideal - 1", "bubble.actual_over_ideal", percent, drop=3),
        TextColumn("peak", "peak_memory", "{:.2f}".format),
        TextColumn("transfers", "transfers", drop=1),
    ]


def gallery(data: Sequence[Mapping[str, Any]], on: Terminal = PLAIN) -> str:
    """One line per scheduler, the shortest bold; those that make no schedule here with the reason."""
    done = [row for row in data if "error" not in row]
    least = min((row["makespan"] for row in done), default=None)
    best = [n for n, row in enumerate(done) if row["makespan"] == least]
    failed = [f"{row['scheduler']}: {row['error']}" for row in data if "error" in row]
    legend = ["peak: activations of so many microbatches on the fullest device"] if done else []
    return "\n".join([*([shown(gallery_columns(), done, on, best)] if done else []), *legend, *failed])
