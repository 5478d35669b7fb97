"""Recordings of models as text: times of layers, checks, and what was not measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, percent, seconds

if TYPE_CHECKING:
    from pipesim.recorders.layer_recording import LayerRecording
    from pipesim.recorders.noise import LayerNoise

LARGE_SCATTER = 0.25  # of the median: a forward or backward that scatters more is listed


def recording(recording: "LayerRecording", noise: "Sequence[LayerNoise]") -> str:
    """The times of every layer and microbatch size, then the properties of the recording."""
    found = [*_head(recording), *_scatter(noise), *_not_measured(recording)]
    return f"{recorded_layers(noise).text()}\n\n{facts(found)}"


def recorded_layers(noise: "Sequence[LayerNoise]") -> TextTable:
    """The times of every layer and microbatch size, as a table."""
    times = ("forward_s", "forward_mad_s", "backward_s", "backward_mad_s")
    records = [
        {"layer": one.layer, "name": one.name, "microbatch_size": one.microbatch_size}
        | dict(zip(times, one.seconds(), strict=True))
        for one in noise
    ]
    return TextTable(_LAYERS, records)


_LAYERS = (
    TextColumn("layer", "layer", on_left=True),
    TextColumn("name", "name", on_left=True),
    TextColumn("microbatch", "microbatch_size"),
    TextColumn("forward", "forward_s", seconds),
    TextColumn("± MAD", "forward_mad_s", seconds),
    TextColumn("backward", "backward_s", seconds),
    TextColumn("± MAD", "backward_mad_s", seconds),
)


def _head(recording: "LayerRecording") -> list[tuple[str, str]]:
    trace = recording.trace
    found = [
        ("model", f"{trace.model}, {trace.layer_count} layers, {trace.precision}"),
        ("machine", trace.machine),
    ]
    for check in recording.checks:
        whole, layers = seconds(check.reference_s), seconds(check.layers_s)
        difference = f"{100 * check.difference:+.1f} %"
        found.append(
            (f"microbatch of {check.microbatch_size}", f"{whole} whole, {layers} layer by layer ({difference})")
        )
        if check.split is not None:
            found.append(
                ("split backwards", f"both parts take {check.split:.2f} of whole ones (graph search left out)")
            )
    found += [(f"step of {step.name}", f"{1e9 * step.s_per_byte:.4g} ns per byte") for step in trace.optimizers]
    if recording.lost:
        used = len(recording.lost) - recording.disturbed
        found.append(("quiet windows", f"{used}; discarded {recording.disturbed}"))
    return found


def _scatter(noise: "Sequence[LayerNoise]") -> list[tuple[str, str]]:
    return [
        ("scatters", f"{one.name}, microbatch of {one.microbatch_size}: MAD {percent(one.scatter)} of the median")
        for one in noise
        if one.scatter > LARGE_SCATTER
    ]


def _not_measured(recording: "LayerRecording") -> list[tuple[str, str]]:
    found = []
    for absent in recording.not_measured:
        layers = ", ".join(absent.layers) or "all layers"
        what = f"{absent.what}, microbatch of {absent.microbatch_size}" if absent.microbatch_size else absent.what
        found.append(("not measured", f"{what}: {layers}: {absent.why}"))
    return found
