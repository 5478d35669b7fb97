"""Files that people write, as text: scenarios, calibrated devices, sweeps."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.core.calibrations import Calibrations
from pipesim.core.scenario import Scenario, Slow
from pipesim.display.text.formatting import facts, percent, seconds, table


def scenario(shown: Scenario) -> str:
    """Slow devices and degraded links."""
    rows = [[*_place(each), f"takes {each.factor:g} times as long", _window(each)] for each in shown.slow]
    for each in shown.degraded:
        arrow = "->" if each.one_way else "<->"
        what = f"{each.source} {arrow} {each.target}"
        rows.append(["link", what, f"has {percent(each.fraction)} of its bandwidth", _window(each)])
    return (
        table(["what", "which", "change", "when"], rows, left=4) if rows else "no device is slow, no link is degraded"
    )


def _place(each: Slow) -> tuple[str, str]:
    if not each.node:
        return "device", each.device
    return "node", f"{each.node}, {each.device}" if each.device else each.node


def _window(each: Any) -> str:  # noqa: ANN401 - a slow device or a degraded link
    if not each.start and each.end is None:
        return "throughout"
    return f"from {seconds(each.start)}" + (f" to {seconds(each.end)}" if each.end is not None else "")


def calibrations(shown: Calibrations) -> str:
    """The fitted constants of kinds of devices."""
    headers = ["device", "base", "precision", "product", "attention", "memory", "launch", "unaligned"]
    rows = [
        [
            each.name, each.base, each.precision, percent(each.product), percent(each.attention), percent(each.memory),
            seconds(each.launch_s), percent(each.unaligned),
        ]
        for each in shown.devices
    ]  # fmt: skip
    return table(headers, rows, left=3)


def sweep_file(data: Mapping[str, Any], axes: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """A sweep: what all points have in common, and what varies."""
    common = facts((name, str(value)) for name, value in data["simulate"].items()) if data["simulate"] else "-"
    rows = [[name, str(len(values)), _some(values)] for name, values in axes]
    head = [
        ("sweep", data["name"]),
        ("points", f"{data['points']} before filters" if data["filtered"] else str(data["points"])),
        ("metrics", ", ".join(data["metrics"])),
        ("charts", ", ".join(data["charts"]) or "-"),
    ]
    parts = [facts(head), f"all points\n{common}", table(["axis", "values", ""], rows, left=1) if rows else "no axes"]
    return "\n\n".join(parts)


def _some(values: Sequence[Any], most: int = 6) -> str:
    shown = ", ".join(map(str, values[:most]))
    return f"{shown}, ..., {values[-1]}" if len(values) > most else shown
