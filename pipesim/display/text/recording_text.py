"""Recordings of models as text: times of layers, checks, and what was not measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipesim.display.text.formatting import facts, percent, seconds, table

if TYPE_CHECKING:
    from pipesim.recorders.layer_recording import LayerRecording
    from pipesim.recorders.noise import LayerNoise

LARGE_SCATTER = 0.25  # of the median: a forward or backward that scatters more is listed


def recording(recording: "LayerRecording", noise: "Sequence[LayerNoise]") -> str:
    """The times of every layer and microbatch size, then the properties of the recording."""
    headers = ["layer", "name", "microbatch", "forward", "± MAD", "backward", "± MAD"]
    rows = [[str(one.layer), one.name, str(one.microbatch_size), *map(seconds, one.seconds())] for one in noise]
    found = [*_head(recording), *_scatter(noise), *_not_measured(recording)]
    return f"{table(headers, rows, left=2)}\n\n{facts(found)}"


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
