"""Recorded runs beside their simulations as text."""

from collections.abc import Mapping
from typing import Any

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
    phases = list(data["ranks"][0]["recorded_s"])
    rows = [
        [f"rank {row['rank']}" if which == "recorded" else "", which, *(seconds(row[f"{which}_s"][p]) for p in phases)]
        for row in data["ranks"]
        for which in ("recorded", "replayed")
    ]
    return f"{facts(head, on)}\n\n{table(['', '', *phases], rows, left=2, on=on)}"
