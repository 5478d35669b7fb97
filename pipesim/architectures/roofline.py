"""A model's seconds from data sheets: each layer at the rate of its device, or as fast as memory feeds it.

    seconds = max(FLOPs / (peak · efficiency), bytes moved / memory bandwidth)

    phase             FLOPs      bytes moved
    forward           forward    inputs and parameters read; the output and what is kept beyond the inputs written
    backward, input   forward    output's gradient, parameters and what is kept read; the inputs' gradient written
    backward, weight  forward    output's gradient and inputs read; the parameters' gradient written
    recompute         as forward

Every byte moves once, as if each layer were one kernel whose working set fits into cache. A layer that reads no other
layer (its input is data) has no gradient of the input; a layer without parameters has none of the weights. An embedding
reads only the rows it looks up, as many bytes as its output; its gradient is dense. A tied head reads, and adds its
gradient to, the parameters of the embedding. What a first layer reads from outside counts as far as it is kept.

Each gradient of a matrix product takes as many FLOPs as the product, and so it is for convolutions and linear layers.
For attention the sum is right, but the products of queries, keys and values have no weights: the gradient of the input
takes more than the half that it gets here.
"""

from collections.abc import Sequence

import numpy as np

from pipesim import devices
from pipesim.architectures.transformer import EMBEDDING, TIED_HEAD
from pipesim.devices import DeviceKind
from pipesim.errors import InputError
from pipesim.model import Layer, Model
from pipesim.trace import NO_INPUTS, Trace

SOURCE = "roofline"


def roofline(model: Model, device_kinds: Sequence[str], *, efficiency: float = 0.5, command: str = "") -> Trace:
    """The trace that data sheets promise for this model on these kinds of devices.

    `efficiency` is the part of the peak that matrix products reach. `command` is kept in the trace, to say how it was
    made. The model's layers must state their FLOPs.
    """
    if not 0 < efficiency <= 1:
        raise InputError(f"efficiency = {efficiency} found; more than 0, at most 1, was expected")
    kinds = [devices.device_kind(name) for name in device_kinds]
    if not kinds or len(set(device_kinds)) < len(kinds):
        raise InputError(f"device_kinds = {list(device_kinds)} found; at least one was expected, each named once")
    rates = [_peak(kind, model.precision) * efficiency for kind in kinds]
    rows = [
        _row(model, index, kind, rate) for kind, rate in zip(kinds, rates, strict=True) for index in range(len(model))
    ]
    return Trace(
        model=model.name,
        source=SOURCE,
        microbatch_size=model.microbatch_size,
        layers={name: np.array([row[name] for row in rows]) for name in rows[0]},
        machine=_machine(kinds, model.precision, efficiency),
        command=command,
        precision=model.precision,
    )


def _peak(kind: DeviceKind, precision: str) -> float:
    if precision not in kind.peak:
        raise InputError(
            f"precision = {precision!r} found; the data sheet of {kind.name} states a peak for {', '.join(kind.peak)}"
        )
    return kind.peak[precision]


def _machine(kinds: list[DeviceKind], precision: str, efficiency: float) -> str:
    sheets = "; ".join(
        f"{kind.name}: {kind.peak[precision] / devices.TFLOPS:g} TFLOP/s {precision}, "
        f"{kind.memory_bandwidth / devices.GB:g} GB/s"
        for kind in kinds
    )
    return f"none: calculated from data sheets at {efficiency:g} of the peak ({sheets})"


def _row(model: Model, index: int, kind: DeviceKind, rate: float) -> dict[str, int | float | str]:
    """One layer on one kind of device, as a row of the trace."""
    layer = model.layers[index]
    if layer.forward_flops is None:
        raise InputError(f"layer {index} ({layer.name!r}) does not state its FLOPs; a roofline needs them")
    forward, backward_input, backward_weight = (
        max(flops / rate, moved / kind.memory_bandwidth) for flops, moved in _work(model, index, layer.forward_flops)
    )
    return {
        "layer": index,
        "name": layer.name,
        "kind": layer.kind,
        "device_kind": kind.name,
        "microbatch_size": model.microbatch_size,
        "forward_s": forward,
        "backward_input_s": backward_input,
        "backward_weight_s": backward_weight,
        "recompute_s": forward,
        "forward_flops": layer.forward_flops,
        "output_bytes": int(layer.output_bytes),
        "parameter_bytes": layer.parameter_bytes,
        "stash_bytes": int(layer.stash_bytes),
        "inputs": _inputs_text(layer),
    }


def _work(model: Model, index: int, flops: float) -> tuple[tuple[float, float], ...]:
    """FLOPs and bytes of the forward, of the gradient of the input and of the gradient of the weights."""
    layer = model.layers[index]
    read = sum(model.layers[source].output_bytes for source in model.inputs(index))
    weights = layer.parameter_bytes + (_tied_bytes(model) if layer.kind == TIED_HEAD else 0)
    looked_up = min(weights, layer.output_bytes) if layer.kind == EMBEDDING else weights
    nothing = (0.0, 0.0)
    return (
        (flops, read + looked_up + layer.output_bytes + max(layer.stash_bytes - read, 0)),
        (flops, layer.output_bytes + weights + layer.stash_bytes + read) if model.inputs(index) else nothing,
        (flops, layer.output_bytes + read + weights) if weights else nothing,
    )


def _tied_bytes(model: Model) -> int:
    """Bytes of the parameters that a tied head shares with the embedding."""
    return next((layer.parameter_bytes for layer in model.layers if layer.kind == EMBEDDING), 0)


def _inputs_text(layer: Layer) -> str:
    if layer.inputs is None:
        return ""
    return ";".join(map(str, layer.inputs)) or NO_INPUTS
