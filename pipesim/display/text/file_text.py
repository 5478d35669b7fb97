"""Files that people write, as text: scenarios, calibrated devices, sweeps."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.base import serialisation
from pipesim.core.calibrations import Calibrations
from pipesim.core.scenario import Scenario, Slow
from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, percent, seconds
from pipesim.display.text.terminal import PLAIN, Terminal


def scenario(shown: Scenario, on: Terminal = PLAIN) -> str:
    """Slow devices and degraded links."""
    found = scenario_parts(shown)
    return found.text(on) if found.records else "no device is slow, no link is degraded"


def scenario_parts(shown: Scenario) -> TextTable:
    """What is slow or degraded, as a table."""
    rows = [[*_place(each), f"takes {each.factor:g} times as long", _window(each)] for each in shown.slow]
    for each in shown.degraded:
        arrow = "->" if each.one_way else "<->"
        what = f"{each.source} {arrow} {each.target}"
        rows.append(["link", what, f"has {percent(each.fraction)} of its bandwidth", _window(each)])
    names = ("what", "which", "change", "when")
    columns = [TextColumn(name, name, on_left=True) for name in names]
    return TextTable(columns, [dict(zip(names, row, strict=True)) for row in rows])


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
    return calibrated_devices(shown).text()


def calibrated_devices(shown: Calibrations) -> TextTable:
    """The fitted constants of kinds of devices, as a table."""
    return TextTable(_CALIBRATED, [serialisation.to_data(each) for each in shown.devices])


_CALIBRATED = (
    TextColumn("device", "name", on_left=True), TextColumn("base", "base", on_left=True),
    TextColumn("precision", "precision", on_left=True), TextColumn("product", "product", percent),
    TextColumn("attention", "attention", percent), TextColumn("memory", "memory", percent),
    TextColumn("launch", "launch_s", seconds), TextColumn("unaligned", "unaligned", percent),
)  # fmt: skip


def sweep_file(data: Mapping[str, Any], axes: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """A sweep: what all points have in common, and what varies."""
    common = facts((name, str(value)) for name, value in data["simulate"].items()) if data["simulate"] else "-"
    head = [
        ("sweep", data["name"]),
        ("points", f"{data['points']} before filters" if data["filtered"] else str(data["points"])),
        ("metrics", ", ".join(data["metrics"])),
        ("charts", ", ".join(data["charts"]) or "-"),
    ]
    parts = [facts(head), f"all points\n{common}", sweep_axes(axes).text() if axes else "no axes"]
    return "\n\n".join(parts)


def sweep_axes(axes: Sequence[tuple[str, Sequence[Any]]]) -> TextTable:
    """What varies in a sweep, as a table."""
    records = [{"axis": name, "count": len(values), "values": _some(values)} for name, values in axes]
    return TextTable(
        (TextColumn("axis", "axis", on_left=True), TextColumn("values", "count"), TextColumn("", "values")), records
    )


def _some(values: Sequence[Any], most: int = 6) -> str:
    shown = ", ".join(map(str, values[:most]))
    return f"{shown}, ..., {values[-1]}" if len(values) > most else shown
