"""Traces as text: their origin, totals, layers, and how much their times vary."""

from collections.abc import Iterator

import numpy as np

from pipesim.analysis import spread
from pipesim.core.costs import Costs, Phase, costs_of
from pipesim.core.teams import SINGLE
from pipesim.core.trace import Trace
from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import FEW, facts, percent, seconds, shortened, size, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal

_MENTIONED = 0.01  # of the forward

_PHASES: tuple[Phase, ...] = ("forward", "backward")


def trace(trace: Trace, most: int | None = FEW, on: Terminal = PLAIN) -> str:
    """A trace: its origin, its totals, its layers, and how much their times vary."""
    costs = costs_of(trace)
    kind, samples = costs.groups[0]
    parts = [facts([*_about(trace), *_totals(costs)], on), _layers(costs_of(trace, samples), kind, most, on)]
    return "\n\n".join([*parts, *(wrapped(f"note: {note}", on, len("note: ")) for note in trace_notes(trace))])


def _about(trace: Trace) -> list[tuple[str, str]]:
    layers = trace.layers
    sizes = np.unique(layers["microbatch_size"]).tolist()
    recorded = ", ".join(map(str, sizes))
    own = "" if sizes == [trace.microbatch_size] else f" recorded; {trace.microbatch_size} by default"
    rows = f"{len(layers['layer']):,} of layers, {len(trace.transfers['bytes']):,} of transfers"
    return [
        ("model", f"{trace.model} ({trace.layer_count} layers)"),
        ("source", trace.source + (f" ({trace.machine})" if trace.machine else "")),
        ("device kinds", ", ".join(trace.device_kinds)),
        ("microbatch sizes", recorded + own),
        *_facts(trace),
        ("rows", rows),
    ]


def _facts(trace: Trace) -> list[tuple[str, str]]:
    """Widths of teams and tokens of a sample, where there are such."""
    found = []
    if any(widths != SINGLE for widths in trace.widths):
        divided = ", sequence parallel" if trace.sequence_parallel else ""
        found.append(("widths", "; ".join(map(str, trace.widths)) + divided))
    if trace.sequence:
        found.append(("sequence", f"{trace.sequence:,} tokens"))
    return found


def _totals(costs: Costs) -> list[tuple[str, str]]:
    """Seconds of all layers for each device kind, and bytes of parameters."""
    found = [("parameters", size(float(costs.model.parameter_bytes.sum())))]
    for kind in costs.kinds:
        times = [f"{phase} {seconds(float(costs.seconds(phase, kind).sum()))}" for phase in _PHASES]
        found.append((f"microbatch of {costs.model.microbatch_size} on {kind}", ", ".join(times)))
    return found


def trace_notes(trace: Trace) -> list[str]:
    """What a trace lacks, and what that means for plans made from it."""
    found = [*trace.notes, *trace.lacking]
    if not trace.layers["forward_s"].any():
        found.append("no forward takes any time")
    return [*found, *_one_way(trace)]


def _one_way(trace: Trace) -> Iterator[str]:
    """A note on layers of a training step that have a notable forward and no backward."""
    costs = costs_of(trace)
    forward, backward = (costs.seconds(phase, costs.kinds[0]) for phase in _PHASES)
    only = (forward > 0) & (backward == 0)
    share = float(forward[only].sum() / max(forward.sum(), np.finfo(float).tiny))
    if backward.any() and share >= _MENTIONED:
        names = repr(shortened(costs.model.layers[int(np.argmax(only))].name)) + (", ..." if only.sum() > 1 else "")
        yield (
            f"{only.sum()} of {len(only)} layers ({names}) have no backward, and {percent(share)} of the forward: "
            "loading, preprocessing and measuring are not layers of the model"
        )


def _layers(costs: Costs, kind: str, most: int | None, on: Terminal) -> str:
    """The first layers, and what they are the times of."""
    found = _table(costs)
    title = f"as recorded on {kind}, microbatch of {costs.model.microbatch_size}"
    title += "; medians, and their noise: MAD / median" if len(found.columns) > len(_COLUMNS) else ""
    left = 0 if most is None else max(0, len(found.records) - most)
    more = f"\n... and {left} more layers (--all)" if left else ""
    return f"{wrapped(title, on)}\n{found.text(on, most)}{more}"


def trace_layers(trace: Trace) -> TextTable:
    """Layers as recorded on the first device kind and size, and the noise of these times where there are samples."""
    costs = costs_of(trace)
    return _table(costs_of(trace, costs.groups[0][1]))


def _table(costs: Costs) -> TextTable:
    group = 0
    varies = bool((costs.count[group] > 1).any())
    forward, backward = (spread.noise(costs, phase, group) for phase in _PHASES)
    records = []
    for number, layer in enumerate(costs.model.layers):
        record = {"layer": number, "name": layer.name, "kind": layer.kind}
        record |= {"forward_s": float(forward.median[number]), "backward_s": float(backward.median[number])}
        record |= {"output_bytes": layer.output_bytes, "parameter_bytes": layer.parameter_bytes}
        if varies:
            record |= {"times": int(forward.count[number])}
            record |= {"forward_noise": _noise(forward, number), "backward_noise": _noise(backward, number)}
        records.append(record)
    return TextTable(_COLUMNS + (_OF_NOISE if varies else ()), records)


_COLUMNS = (
    TextColumn("layer", "layer", on_left=True),
    TextColumn("name", "name", shortened, on_left=True),
    TextColumn("kind", "kind", on_left=True),
    TextColumn("forward", "forward_s", seconds),
    TextColumn("backward", "backward_s", seconds),
    TextColumn("output", "output_bytes", size),
    TextColumn("parameters", "parameter_bytes", size),
)
_OF_NOISE = (
    TextColumn("times", "times"),
    TextColumn("forward noise", "forward_noise", percent),
    TextColumn("backward noise", "backward_noise", percent),
)


def _noise(noise: spread.Noise, layer: int) -> float | None:
    if noise.count[layer] < 2 or not noise.median[layer]:
        return None
    return float(noise.mad[layer] / noise.median[layer])
