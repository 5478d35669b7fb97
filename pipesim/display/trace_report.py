"""Words about traces: what one holds, how its times vary, how two differ, what a recorded run comes to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pipesim.analysis import spread
from pipesim.analysis.trace_diff import Change, GroupChange, LayerChange
from pipesim.core.costs import Costs, Phase, costs_of
from pipesim.core.trace import Trace
from pipesim.display.report import facts, percent, seconds, size, table

FEW = 24  # rows of a table that are shown unless all are asked for
_MENTIONED = 0.01  # of the forward
_PHASES: tuple[Phase, ...] = ("forward", "backward")


def trace(trace: Trace, most: int | None = FEW) -> str:
    """What a trace holds: where it comes from, its totals, its layers, and how much their times vary."""
    costs = costs_of(trace)
    kind, samples = costs.groups[0]
    parts = [facts([*_about(trace), *totals(costs)]), _layers(costs_of(trace, samples), kind, most)]
    return "\n\n".join([*parts, *(f"note: {note}" for note in notes(trace))])


def _about(trace: Trace) -> list[tuple[str, str]]:
    layers = trace.layers
    sizes = np.unique(layers["microbatch_size"]).tolist()
    recorded = ", ".join(map(str, sizes))
    own = "" if sizes == [trace.microbatch_size] else f" recorded; {trace.microbatch_size} where nothing else is said"
    rows = f"{len(layers['layer']):,} of layers, {len(trace.transfers['bytes']):,} of transfers"
    return [
        ("model", f"{trace.model} ({trace.layer_count} layers)"),
        ("source", trace.source + (f" ({trace.machine})" if trace.machine else "")),
        ("device kinds", ", ".join(trace.device_kinds)),
        ("microbatch sizes", recorded + own),
        ("rows", rows),
    ]


def totals(costs: Costs) -> list[tuple[str, str]]:
    """Seconds of all layers for each device kind, and bytes of parameters."""
    found = [("parameters", size(float(costs.model.parameter_bytes.sum())))]
    for kind in costs.kinds:
        times = [f"{phase} {seconds(float(costs.seconds(phase, kind).sum()))}" for phase in _PHASES]
        found.append((f"microbatch of {costs.model.microbatch_size} on {kind}", ", ".join(times)))
    return found


def notes(trace: Trace) -> list[str]:
    """What a trace does not have, and what that means for who plans with it."""
    layers = trace.layers
    found = []
    if not layers["output_bytes"].any():
        found.append("no layer says how many bytes it hands on: transfers between stages will take no time")
    if not layers["parameter_bytes"].any():
        found.append("no layer says how many bytes of parameters it has: all-reduces and memory will be left out")
    if not layers["forward_s"].any():
        found.append("no forward takes any time")
    return [*found, *_one_way(trace)]


def _one_way(trace: Trace) -> Iterator[str]:
    """A word on layers of a training step that have a forward worth mentioning and no backward."""
    costs = costs_of(trace)
    forward, backward = (costs.seconds(phase, costs.kinds[0]) for phase in _PHASES)
    only = (forward > 0) & (backward == 0)
    share = float(forward[only].sum() / max(forward.sum(), np.finfo(float).tiny))
    if backward.any() and share >= _MENTIONED:
        names = repr(_short(costs.model.layers[int(np.argmax(only))].name)) + (", ..." if only.sum() > 1 else "")
        yield (
            f"{only.sum()} of {len(only)} layers ({names}) have no backward, and {percent(share)} of the forward: "
            "what only loads, prepares or measures is no layer of the model"
        )


def _layers(costs: Costs, kind: str, most: int | None) -> str:
    """Layers as recorded on the first device kind and size, and the noise of these times where there are samples."""
    group = 0
    varies = bool((costs.count[group] > 1).any())
    forward, backward = (spread.noise(costs, phase, group) for phase in _PHASES)
    headers = ["layer", "name", "kind", "forward", "backward", "output", "parameters"]
    headers += ["times", "forward noise", "backward noise"] if varies else []
    rows = []
    for number, layer in enumerate(costs.model.layers[:most]):
        row = [str(number), _short(layer.name), layer.kind]
        row += [seconds(float(times.median[number])) for times in (forward, backward)]
        row += [size(layer.output_bytes), size(layer.parameter_bytes)]
        if varies:
            row += [str(forward.count[number]), *(_noise(times, number) for times in (forward, backward))]
        rows.append(row)
    left = len(costs.model) - len(rows)
    title = f"as recorded on {kind}, microbatch of {costs.model.microbatch_size}"
    title += "; medians, and their noise: MAD / median" if varies else ""
    more = f"\n... and {left} more layers (--all)" if left else ""
    return f"{title}\n{table(headers, rows, left=3)}{more}"


def _noise(noise: spread.Noise, layer: int) -> str:
    if noise.count[layer] < 2:
        return "-"
    return percent(float(noise.mad[layer] / noise.median[layer])) if noise.median[layer] else "-"


def _short(name: str, most: int = 40) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


# --- a run -----------------------------------------------------------------------------------------------------------


def run(summary: Mapping[str, Any], most: int = 16) -> str:
    """What `metrics.summary` says of a run that was not planned here: no stages, no microbatches, no bounds."""
    head = [
        ("run time", seconds(summary["iteration_time_s"])),
        ("idle", f"{percent(summary['bubble']['idle_share'])} of the devices' time"),
        ("replayed", f"{summary['tasks']:,} tasks, sharing {summary['sharing']}, {summary['transfers']} transfers"),
    ]
    devices = [
        [
            name,
            percent(device["busy_share"]),
            seconds(device["exposed_communication_s"]),
            seconds(device["exposed_all_reduce_s"]),
        ]
        for name, device in list(summary["devices"].items())[:most]
    ]
    left = len(summary["devices"]) - len(devices)
    lanes = table(["device", "busy", "exposed transfers", "exposed collectives"], devices)
    lanes += f"\n... and {left} more devices" if left else ""
    busiest = sorted(summary["links"].items(), key=lambda item: (-item[1]["busy_share"], item[0]))[:5]
    links = [[name, size(x["bytes"]), percent(x["busy_share"]), percent(x["load_share"])] for name, x in busiest]
    carried = [table(["busiest links", "carried", "busy", "of capacity"], links)] if links else []
    return "\n\n".join([facts(head), lanes, *carried])


# --- two traces ------------------------------------------------------------------------------------------------------


def difference(groups: Sequence[GroupChange], most: int | None = FEW) -> str:
    """What changed from one trace to another: totals, then layers, those first that changed most."""
    return "\n\n".join(_group(group, most) for group in groups)


def _group(group: GroupChange, most: int | None) -> str:
    kinds, sizes = group.kinds, group.microbatch_sizes
    title = f"on {kinds[0]}" if kinds[0] == kinds[1] else f"on {kinds[0]} (A) and {kinds[1]} (B)"
    title += f", microbatch of {sizes[0]}" + ("" if sizes[0] == sizes[1] else f" (A) and {sizes[1]} (B)")
    together = [["", "all layers", change.phase, *_words(change)] for change in group.totals]
    timed = [(layer, change) for layer in group.layers for change in layer.times if change.verdict != "same"]
    timed.sort(key=lambda pair: (pair[1].verdict not in {"slower", "faster"}, -abs(pair[1].b_s - pair[1].a_s)))
    shown = sorted(timed[:most], key=lambda pair: (pair[0].a or 0, pair[1].phase != "forward"))
    rows = [[_number(layer), _short(layer.name), change.phase, *_words(change)] for layer, change in shown]
    headers = ["layer", "name", "phase", "A", "B", "change", "95 % interval", "verdict"]
    parts = [f"{title}\n{table(headers, [*together, *rows], left=3)}"]
    if len(timed) > len(shown):
        parts.append(f"... and {len(timed) - len(shown)} more rows (--all)")
    sure = sum(any(change.verdict in {"slower", "faster"} for change in layer.times) for layer in group.layers)
    parts.append(_sentence(group, sure))
    return "\n".join([*parts, *_structure(group.layers, most)])


def _sentence(group: GroupChange, sure: int) -> str:
    paired = [layer for layer in group.layers if layer.times]
    lonely = sum(any(change.verdict == "one sample: no confidence" for change in layer.times) for layer in paired)
    text = f"{sure} of {len(paired)} layers changed for sure"
    text += " (at most 5 % chance that any of them did not)" if sure else ""
    return text + (f"; {lonely} have one sample in A or B: no confidence" if lonely else "")


def _words(change: Change) -> list[str]:
    interval = "-"
    if change.low_s is not None and change.high_s is not None and change.a_s:
        interval = f"{100 * change.low_s / change.a_s:+.1f} to {100 * change.high_s / change.a_s:+.1f} %"
    part = f"{100 * (change.b_s / change.a_s - 1):+.1f} %" if change.a_s else "-"
    return [seconds(change.a_s), seconds(change.b_s), part, interval, change.verdict]


def _number(layer: LayerChange) -> str:
    return str(layer.a) if layer.a == layer.b else f"{layer.a} -> {layer.b}"


def _structure(layers: Sequence[LayerChange], most: int | None) -> list[str]:
    """Layers that came or went, and sizes that changed."""
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
