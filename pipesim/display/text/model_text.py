"""Models as text: their sizes, by kind of layer or layer by layer."""

from collections.abc import Iterator

from pipesim.architectures import operations
from pipesim.core.model import Layer, Model
from pipesim.display.text.formatting import facts, rate, shortened, size, table
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
    columns = ["parameters", "forward", "kept", "output of one"]
    if every:
        rows = ([f"{n}  {shortened(layer.name)}", *_sizes([layer])] for n, layer in enumerate(model.layers))
        return f"{facts(head, on)}\n\n{table(['layer', *columns], rows, on=on)}"
    rows = ([kind, f"{len(layers)}", *_sizes(layers)] for kind, layers in _kinds(model))
    return f"{facts(head, on)}\n\n{table(['kind', 'layers', *columns], rows, on=on)}"


def _kinds(model: Model) -> Iterator[tuple[str, list[Layer]]]:
    """The layers of each kind, in the order in which kinds appear."""
    for kind in dict.fromkeys(layer.kind for layer in model.layers):
        yield kind, [layer for layer in model.layers if layer.kind == kind]


def _sizes(layers: list[Layer]) -> list[str]:
    flops = sum(layer.forward_flops or 0.0 for layer in layers)
    return [
        size(sum(layer.parameter_bytes for layer in layers)),
        rate(flops, "FLOP"),
        size(sum(layer.stash_bytes for layer in layers)),
        size(layers[0].output_bytes),
    ]
