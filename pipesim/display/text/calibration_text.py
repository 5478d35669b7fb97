"""Calibrated devices as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, percent, seconds, table

_MOST = 20  # residuals that are shown; the largest


def calibration(data: Mapping[str, Any]) -> str:
    """The constants, what they were fitted on, the residuals; `data` is that of `pipesim calibrate --json`."""
    device = data["device"]
    head = [
        ("device", f"{device['name']}: {device['base']} in {device['precision']}"),
        ("fitted", f"{', '.join(data['fitted'])}, on {len(data['residuals'])} measurements"),
        ("mean error", f"{percent(data['mean_error'])} (before: {percent(data['mean_error_before'])})"),
    ]
    names = ("product", "attention", "memory", "launch_s", "unaligned")
    constants = [[name, f"{device[name]:.4g}", "fitted" if name in data["fitted"] else "kept"] for name in names]
    return f"{facts(head)}\n\n{table(['constant', 'value', ''], constants)}\n\n{residuals(data).text(most=_MOST)}"


def residuals(data: Mapping[str, Any]) -> TextTable:
    """What was measured beside what is computed now, the largest error first, as a table."""
    return TextTable(_RESIDUALS, sorted(data["residuals"], key=lambda one: -abs(one["error"])))


_RESIDUALS = (
    TextColumn("measured", "label", on_left=True),
    TextColumn("seconds", "measured_s", seconds),
    TextColumn("computed", "computed_s", seconds),
    TextColumn("error", "error", lambda error: f"{100 * error:+.1f}%"),
)
