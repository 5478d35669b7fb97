"""Differences of two traces as text."""

from collections.abc import Sequence

from pipesim.analysis.trace_diff import Change, GroupChange, LayerChange
from pipesim.display.text.formatting import FEW, seconds, shortened, size, table, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal


def difference(groups: Sequence[GroupChange], most: int | None = FEW, on: Terminal = PLAIN) -> str:
    """What changed from one trace to another: totals, then the layers that changed most, in their order."""
    return "\n\n".join(_group(group, most, on) for group in groups)


def _group(group: GroupChange, most: int | None, on: Terminal) -> str:
    kinds, sizes = group.kinds, group.microbatch_sizes
    title = f"on {kinds[0]}" if kinds[0] == kinds[1] else f"on {kinds[0]} (A) and {kinds[1]} (B)"
    title += f", microbatch of {sizes[0]}" + ("" if sizes[0] == sizes[1] else f" (A) and {sizes[1]} (B)")
    together = [["", "all layers", change.phase, *_cells(change)] for change in group.totals]
    timed = [(layer, change) for layer in group.layers for change in layer.times if change.verdict != "same"]
    timed.sort(key=lambda pair: (pair[1].verdict not in {"slower", "faster"}, -abs(pair[1].b_s - pair[1].a_s)))
    shown = sorted(timed[:most], key=lambda pair: (pair[0].a or 0, pair[1].phase != "forward"))
    rows = [[_number(layer), shortened(layer.name), change.phase, *_cells(change)] for layer, change in shown]
    headers = ["layer", "name", "phase", "A", "B", "change", "95 % interval", "verdict"]
    sure = sum(any(change.verdict in {"slower", "faster"} for change in layer.times) for layer in group.layers)
    drop = ("95 % interval", "A", "B")
    shown_table = table(headers, [*together, *rows], left=3, on=on, drop=drop)
    parts = [wrapped(title, on), wrapped(_sentence(group, sure), on), "", shown_table]
    if len(timed) > len(shown):
        parts.append(f"... and {len(timed) - len(shown)} more rows (--all)")
    return "\n".join([*parts, *_structure(group.layers, most)])


def _sentence(group: GroupChange, sure: int) -> str:
    paired = [layer for layer in group.layers if layer.times]
    single = sum(any(change.verdict == "one sample: no confidence" for change in layer.times) for layer in paired)
    text = f"{sure} of {len(paired)} layers changed for sure"
    text += " (at most 5 % chance that any of them did not)" if sure else ""
    return text + (f"; {single} have one sample in A or B: no confidence" if single else "")


def _cells(change: Change) -> list[str]:
    interval = "-"
    if change.low_s is not None and change.high_s is not None and change.a_s:
        interval = f"{100 * change.low_s / change.a_s:+.1f} to {100 * change.high_s / change.a_s:+.1f} %"
    part = f"{100 * (change.b_s / change.a_s - 1):+.1f} %" if change.a_s else "-"
    return [seconds(change.a_s), seconds(change.b_s), part, interval, change.verdict]


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
