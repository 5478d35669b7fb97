"""Calibrated devices as text."""

from collections.abc import Mapping
from typing import Any

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
    largest = sorted(data["residuals"], key=lambda one: -abs(one["error"]))[:_MOST]
    rows = [
        [one["label"], seconds(one["measured_s"]), seconds(one["computed_s"]), f"{100 * one['error']:+.1f}%"]
        for one in largest
    ]
    shown = table(["measured", "seconds", "computed", "error"], rows)
    return f"{facts(head)}\n\n{table(['constant', 'value', ''], constants)}\n\n{shown}"
