"""Recorded runs beside their simulations as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.columns import TextColumn, TextTable, cells
from pipesim.display.text.formatting import facts, seconds, table
from pipesim.display.text.terminal import PLAIN, Terminal


def rebuilt(data: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """A recorded run and its simulation, per rank and phase; `data` is that of `rebuilding.comparison`."""
    error = "-" if data["error"] is None else f"{100 * data['error']:+.1f} %"
    head = [
        ("iteration", f"{seconds(data['recorded_s'])} recorded, {seconds(data['replayed_s'])} replayed ({error})"),
        ("recorded", f"{data['source']}: {data['stages']} stages, {data['microbatches']} microbatches"),
        ("links", f"{data['cluster']}, {data['engine']} engine"),
    ]
    if data.get("steps"):
        own, without = (100 * data["errors"][name]["mean_absolute"] for name in ("error", "error_without_gaps"))
        text = f"{len(data['steps'])} iterations, mean absolute error {own:.2f} %; without launch gaps {without:.2f} %"
        head.append(("own operations", text))
    moved = [row for row in data["ranks"] if row["clock_shift_s"]]
    if moved:
        shifts = (f"rank {row['rank']} {row['clock_shift_s'] * 1e3:+.3f} ms" for row in moved)
        head.append(("clocks set", ", ".join(shifts)))
    columns, records = rebuilt_ranks(data)
    # Each rank is named once, in the first of its two lines.
    rows = [
        [f"rank {rank}" if which == "recorded" else "", which, *phases]
        for rank, which, *phases in cells(columns, records)
    ]
    headers = ["", "", *(one.header for one in columns[2:])]
    return f"{facts(head, on)}\n\n{table(headers, rows, left=2, on=on)}"


def rebuilt_ranks(data: Mapping[str, Any]) -> TextTable:
    """The phases of every rank, recorded and replayed, as a table."""
    phases = list(data["ranks"][0]["recorded_s"])
    columns = (
        TextColumn("rank", "rank", on_left=True),
        TextColumn("times", "times", on_left=True),
        *(TextColumn(phase, f"{phase}_s", seconds) for phase in phases),
    )
    records = [
        {"rank": row["rank"], "times": which, **{f"{phase}_s": row[f"{which}_s"][phase] for phase in phases}}
        for row in data["ranks"]
        for which in ("recorded", "replayed")
    ]
    return TextTable(columns, records)
