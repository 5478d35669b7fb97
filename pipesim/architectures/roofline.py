"""A model's seconds from data sheets: each layer at the peak of its device or at the bandwidth of its memory.

    seconds = max(FLOPs / (peak · efficiency), bytes moved / memory bandwidth)                with a constant efficiency
    seconds = start + FLOPs / (peak · e) + bytes moved / (memory bandwidth · m)               with a curve, `efficiency`

    phase             FLOPs      bytes moved
    forward           forward    inputs and parameters read; the output and what is kept beyond the inputs written
    backward, input   forward    output's gradient, parameters and what is kept read; the inputs' gradient written
    backward, weight  forward    output's gradient and inputs read; the parameters' gradient written
    recompute         as forward

Every byte moves once, as if each layer were one kernel whose working set fits into cache. A layer that reads no other
layer (its input is data) has no gradient of the input; a layer without parameters has none of the weights. An embedding
reads only the rows it looks up, as many bytes as its output; its gradient is dense. A tied head or embedding reads, and
adds its gradient to, the parameters of the first embedding. The input data of a first layer counts if it is kept.

Each gradient of a matrix product, a convolution or a linear layer takes as many FLOPs as its forward.
For attention the sum is right, but the products of queries, keys and values have no weights: the gradient of the input
takes more than the half that it gets here.

If t devices share each layer (tensor parallelism), they sum the outputs of attention, mlp and embedding in the forward,
and the gradients of the inputs of attention, mlp and head in the backward: each time a ring with the whole bandwidth of
a device's links, which adds 2(t - 1)/t · bytes / interconnect seconds. Recomputation repeats those of the forward.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipesim.architectures import operations
from pipesim.architectures.efficiency import Curve, curve_for
from pipesim.architectures.transformer import EMBEDDING, HEAD, REDUCED, TIED_EMBEDDING, TIED_HEAD
from pipesim.base.errors import InputError
from pipesim.core import devices
from pipesim.core.devices import DeviceKind
from pipesim.core.model import Layer, Model
from pipesim.core.trace import NO_INPUTS, Trace

SOURCE = "roofline"
CURVE: Literal["curve"] = "curve"

Efficiency = float | Literal["curve"] | Curve


def roofline(
    model: Model,
    device_kinds: Sequence[str],
    *,
    efficiency: Efficiency = 0.5,
    tensor_parallel: int = 1,
    command: str = "",
) -> Trace:
    """The trace that data sheets predict for this model on these kinds of devices.

    `efficiency` is the part of the peak that matrix products reach, or "curve": that of recorded profiles, by the size
    of each layer; or a `Curve`. `tensor_parallel` is the width with which the model was built. `command` is kept in the
    trace. The model's layers must have FLOPs.
    """
    _check_efficiency(efficiency)
    operations.check_sizes(tensor_parallel=tensor_parallel)
    kinds = [devices.device_kind(name) for name in device_kinds]
    if not kinds or len({kind.name for kind in kinds}) < len(kinds):
        raise InputError(f"device_kinds = {list(device_kinds)} found; at least one was expected, each named once")
    roofs = [_Roof.of(kind, model.precision, efficiency, tensor_parallel) for kind in kinds]
    rows = [_row(model, index, roof) for roof in roofs for index in range(len(model))]
    return Trace(
        model=model.name,
        source=SOURCE,
        microbatch_size=model.microbatch_size,
        layers={name: np.array([row[name] for row in rows]) for name in rows[0]},
        machine=_machine(roofs, model.precision, efficiency),
        command=command,
        precision=model.precision,
    )


def _check_efficiency(efficiency: object) -> None:
    if isinstance(efficiency, Curve) or efficiency == CURVE:
        return
    if isinstance(efficiency, bool) or not isinstance(efficiency, int | float) or not 0 < efficiency <= 1:
        raise InputError(f"efficiency = {efficiency} found; more than 0, at most 1, was expected, or {CURVE!r}")


@dataclass(frozen=True, slots=True)
class _Roof:
    """The speed of a kind of device in one precision: a constant part of its peak, or a curve."""

    kind: DeviceKind
    peak: float
    constant: float | None
    curve: Curve | None
    tensor_parallel: int

    @classmethod
    def of(cls, kind: DeviceKind, precision: str, efficiency: Efficiency, tensor_parallel: int) -> "_Roof":
        peak = _peak(kind, precision)
        if isinstance(efficiency, Curve):
            return cls(kind, peak, None, efficiency, tensor_parallel)
        if isinstance(efficiency, str):
            return cls(kind, peak, None, curve_for(precision), tensor_parallel)
        return cls(kind, peak, efficiency, None, tensor_parallel)

    def seconds(self, layer: Layer, flops: float, moved: float) -> float:
        """The time of one phase of a layer; 0 without FLOPs and bytes."""
        if not flops and not moved:
            return 0.0
        if self.curve:
            return self.curve.seconds(layer.kind, flops / self.peak, moved / self.kind.memory_bandwidth)
        return max(flops / (self.peak * (self.constant or 1)), moved / self.kind.memory_bandwidth)

    def ring_seconds(self, reduced: float) -> float:
        """The time to sum these bytes over all tensor-parallel devices."""
        if self.tensor_parallel == 1 or not reduced:
            return 0.0
        if not self.kind.interconnect:
            raise InputError(f"the data sheet of {self.kind.name} states no interconnect; tensor parallelism needs it")
        return 2 * (self.tensor_parallel - 1) / self.tensor_parallel * reduced / self.kind.interconnect


def _peak(kind: DeviceKind, precision: str) -> float:
    if precision not in kind.peak:
        raise InputError(
            f"precision = {precision!r} found; the data sheet of {kind.name} states a peak for {', '.join(kind.peak)}"
        )
    return kind.peak[precision]


def _machine(roofs: list[_Roof], precision: str, efficiency: Efficiency) -> str:
    sheets = "; ".join(
        f"{roof.kind.name}: {roof.peak / devices.TFLOPS:g} TFLOP/s {precision}, "
        f"{roof.kind.memory_bandwidth / devices.GB:g} GB/s"
        + (f", {roof.kind.interconnect / devices.GB:g} GB/s to others" if roof.tensor_parallel > 1 else "")
        for roof in roofs
    )
    curve, shared = roofs[0].curve, roofs[0].tensor_parallel
    how = f"along the efficiency curve {curve}" if curve else f"at {efficiency:g} of the peak"
    width = f", for one of {shared} tensor-parallel devices" if shared > 1 else ""
    return f"none: calculated from data sheets {how}{width} ({sheets})"


def _row(model: Model, index: int, roof: _Roof) -> dict[str, int | float | str]:
    """One layer on one kind of device, as a row of the trace."""
    layer = model.layers[index]
    if layer.forward_flops is None:
        raise InputError(f"layer {index} ({layer.name!r}) does not state its FLOPs; a roofline needs them")
    work = _work(model, index, layer.forward_flops)
    reduced = _reduced(model, index)
    forward, backward_input, backward_weight = (
        roof.seconds(layer, flops, moved) + roof.ring_seconds(ring)
        for (flops, moved), ring in zip(work, reduced, strict=True)
    )
    return {
        "layer": index,
        "name": layer.name,
        "kind": layer.kind,
        "device_kind": roof.kind.name,
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
    read = _read_bytes(model, index)
    weights = layer.parameter_bytes + (_tied_bytes(model) if layer.kind in {TIED_HEAD, TIED_EMBEDDING} else 0)
    looked_up = min(weights, layer.output_bytes) if layer.kind in {EMBEDDING, TIED_EMBEDDING} else weights
    nothing = (0.0, 0.0)
    return (
        (flops, read + looked_up + layer.output_bytes + max(layer.stash_bytes - read, 0)),
        (flops, layer.output_bytes + weights + layer.stash_bytes + read) if model.inputs(index) else nothing,
        (flops, layer.output_bytes + read + weights) if weights else nothing,
    )


def _reduced(model: Model, index: int) -> tuple[float, float, float]:
    """Bytes that tensor-parallel devices sum: of the output, and of the gradient of the inputs."""
    layer = model.layers[index]
    inputs = _read_bytes(model, index) if layer.kind in {*REDUCED, HEAD, TIED_HEAD} else 0
    return layer.output_bytes if layer.kind in REDUCED else 0, inputs, 0


def _read_bytes(model: Model, index: int) -> float:
    return sum(model.layers[source].output_bytes for source in model.inputs(index))


def _tied_bytes(model: Model) -> int:
    """Bytes of the parameters that a tied head, or a second embedding, shares with the first embedding."""
    return next((layer.parameter_bytes for layer in model.layers if layer.kind == EMBEDDING), 0)


def _inputs_text(layer: Layer) -> str:
    if layer.inputs is None:
        return ""
    return ";".join(map(str, layer.inputs)) or NO_INPUTS
