"""Differences of two traces as text."""

from collections.abc import Sequence
from typing import Any

from pipesim.analysis.trace_diff import Change, GroupChange, LayerChange
from pipesim.base import serialisation
from pipesim.display.text.columns import TextColumn, TextTable, shown
from pipesim.display.text.formatting import FEW, seconds, shortened, size, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal


def difference(groups: Sequence[GroupChange], most: int | None = FEW, on: Terminal = PLAIN) -> str:
    """What changed from one trace to another: totals, then the layers that changed most, in their order."""
    return "\n\n".join(_group(group, most, on) for group in groups)


def _group(group: GroupChange, most: int | None, on: Terminal) -> str:
    kinds, sizes = group.kinds, group.microbatch_sizes
    title = f"on {kinds[0]}" if kinds[0] == kinds[1] else f"on {kinds[0]} (A) and {kinds[1]} (B)"
    title += f", microbatch of {sizes[0]}" + ("" if sizes[0] == sizes[1] else f" (A) and {sizes[1]} (B)")
    together = [_record("", "all layers", change) for change in group.totals]
    timed = [(layer, change) for layer in group.layers for change in layer.times if change.verdict != "same"]
    timed.sort(key=lambda pair: (pair[1].verdict not in {"slower", "faster"}, -abs(pair[1].b_s - pair[1].a_s)))
    chosen = sorted(timed[:most], key=lambda pair: (pair[0].a or 0, pair[1].phase != "forward"))
    rows = [_record(_number(layer), layer.name, change) for layer, change in chosen]
    sure = sum(any(change.verdict in {"slower", "faster"} for change in layer.times) for layer in group.layers)
    parts = [wrapped(title, on), wrapped(_sentence(group, sure), on), "", shown(_COLUMNS, [*together, *rows], on)]
    if len(timed) > len(chosen):
        parts.append(f"... and {len(timed) - len(chosen)} more rows (--all)")
    return "\n".join([*parts, *_structure(group.layers, most)])


def changed_layers(groups: Sequence[GroupChange]) -> TextTable:
    """The times that changed from one trace to another, of all kinds of devices and sizes, as a table."""
    records = [
        {"group": f"{group.kinds[0]}, {group.microbatch_sizes[0]}", **_record(_number(layer), layer.name, change)}
        for group in groups
        for layer in group.layers
        for change in layer.times
        if change.verdict != "same"
    ]
    several = (TextColumn("device, microbatch", "group", on_left=True),) if len(groups) > 1 else ()
    return TextTable((*several, *_COLUMNS), records)


def _record(number: str, name: str, change: Change) -> dict[str, Any]:
    part = change.b_s / change.a_s - 1 if change.a_s else None
    return {
        "layer": number,
        "name": name,
        **serialisation.to_data(change),
        "change": part,
        "interval": _interval(change),
    }


_COLUMNS = (
    TextColumn("layer", "layer", on_left=True),
    TextColumn("name", "name", shortened, on_left=True),
    TextColumn("phase", "phase", on_left=True),
    TextColumn("A", "a_s", seconds, drop=2),
    TextColumn("B", "b_s", seconds, drop=1),
    TextColumn("change", "change", lambda part: "-" if part is None else f"{100 * part:+.1f} %"),
    TextColumn("95 % interval", "interval", drop=3),
    TextColumn("verdict", "verdict"),
)


def _sentence(group: GroupChange, sure: int) -> str:
    paired = [layer for layer in group.layers if layer.times]
    single = sum(any(change.verdict == "one sample: no confidence" for change in layer.times) for layer in paired)
    text = f"{sure} of {len(paired)} layers changed for sure"
    text += " (at most 5 % chance that any of them did not)" if sure else ""
    return text + (f"; {single} have one sample in A or B: no confidence" if single else "")


def _interval(change: Change) -> str:
    if change.low_s is None or change.high_s is None or not change.a_s:
        return "-"
    return f"{100 * change.low_s / change.a_s:+.1f} to {100 * change.high_s / change.a_s:+.1f} %"


def _number(layer: LayerChange) -> str:
    return str(layer.a) if layer.a == layer.b else f"{layer.a} -> {layer.b}"


def _structure(layers: Sequence[LayerChange], most: int | None) -> list[str]:
    """Layers that were added or removed, and sizes that changed."""
    lines = [
        f"{'removed' if layer.b is None else 'added'}: layer {layer.a if layer.b is None else layer.b}, {layer.name}"
        for layer in layers
        if layer.a is None or layer.b is None
    ]
    lines += [
        f"layer {_number(layer)}, {layer.name}: {name.replace('_bytes', '')} {size(old)} -> {size(new)}"
        for layer in layers
        for name, old, new in layer.sizes
    ]
    more = [f"... and {len(lines) - most} more such changes (--all)"] if most is not None and len(lines) > most else []
    return [*lines[:most], *more]
