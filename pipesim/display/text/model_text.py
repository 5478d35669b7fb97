"""Models as text: their sizes, by kind of layer or layer by layer."""

from collections.abc import Iterator
from typing import Any

from pipesim.architectures import operations
from pipesim.core.model import Layer, Model
from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, rate, shortened, size
from pipesim.display.text.terminal import PLAIN, Terminal


def model(model: Model, *, every: bool = False, on: Terminal = PLAIN) -> str:
    """A model: its parameters, the work of a microbatch, and its layers by kind, or each of them."""
    flops = model.forward_flops
    parameters = int(model.parameter_bytes.sum()) // operations.value_bytes(model.precision)
    head = [
        ("model", f"{model.name} ({len(model)} layers, {model.precision})"),
        ("parameters", f"{parameters:,} ({size(float(model.parameter_bytes.sum()))})"),
        ("microbatch", f"{model.microbatch_size} sample{'s' if model.microbatch_size > 1 else ''}"),
        ("forward", "unknown" if flops is None else rate(flops, "FLOP")),
        ("kept for the backward", size(float(model.stash_bytes.sum()))),
    ]
    return f"{facts(head, on)}\n\n{model_layers(model, every=every).text(on)}"


def model_layers(model: Model, *, every: bool = False) -> TextTable:
    """The layers of a model by kind, or each of them."""
    if every:
        records = [{"layer": n, "name": layer.name, **_sizes([layer])} for n, layer in enumerate(model.layers)]
        named = TextColumn("name", "name", shortened, on_left=True)
        return TextTable((TextColumn("layer", "layer", on_left=True), named, *_COLUMNS), records)
    records = [{"kind": kind, "layers": len(layers), **_sizes(layers)} for kind, layers in _kinds(model)]
    return TextTable((TextColumn("kind", "kind", on_left=True), TextColumn("layers", "layers"), *_COLUMNS), records)


_COLUMNS = (
    TextColumn("parameters", "parameter_bytes", size),
    TextColumn("forward", "forward_flops", lambda flops: rate(flops, "FLOP")),
    TextColumn("kept", "stash_bytes", size),
    TextColumn("output of one", "output_bytes", size),
)


def _kinds(model: Model) -> Iterator[tuple[str, list[Layer]]]:
    """The layers of each kind, in the order in which kinds appear."""
    for kind in dict.fromkeys(layer.kind for layer in model.layers):
        yield kind, [layer for layer in model.layers if layer.kind == kind]


def _sizes(layers: list[Layer]) -> dict[str, Any]:
    return {
        "parameter_bytes": sum(layer.parameter_bytes for layer in layers),
        "forward_flops": sum(layer.forward_flops or 0.0 for layer in layers),
        "stash_bytes": sum(layer.stash_bytes for layer in layers),
        "output_bytes": layers[0].output_bytes,
    }
