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

With the curve of a device ("device"), a layer that states its operations takes the sum of their times, as in
`device_curves`; one that does not, and all layers in fp32, take a `Curve`.

If t devices share each layer (tensor parallelism), they exchange tensors as each layer states, or sum the outputs of
attention, mlp and embedding in the forward, and the gradients of the inputs of attention, mlp and head in the backward.
A `team_link` times these collectives, of which a part `tp_overlap` is hidden behind the layer's own products. Without
one, they are rings with the whole bandwidth of a device's links: 2(t - 1)/t · bytes / interconnect seconds each.
Recomputation repeats those of the forward.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipesim.architectures import efficiency_names, operations
from pipesim.architectures.device_curves import DeviceCurve, Speed
from pipesim.architectures.efficiency import Curve
from pipesim.architectures.team_links import NCCL_EFFICIENCY, NCCL_STEP_S, TeamLink
from pipesim.architectures.transformer import EMBEDDING, HEAD, REDUCED, TIED_EMBEDDING, TIED_HEAD
from pipesim.base.errors import InputError
from pipesim.core import devices
from pipesim.core.devices import DeviceKind
from pipesim.core.model import Layer, Model
from pipesim.core.trace import NO_INPUTS, OptimizerStep, Trace
from pipesim.core.work import LayerWork, Phase, TeamExchange

SOURCE = "roofline"
Efficiency = float | str | Curve | DeviceCurve
"""A part of the peak, a name as in `efficiency_names`, or a curve."""

PHASES: tuple[Phase, ...] = ("forward", "backward_input", "backward_weight")
LINK_DELAY_S = 2e-6
"""Between GPUs of a node, where no cluster is known."""
# Adam in mixed precision touches, per parameter: the gradient in fp32 (norm, clipping, step, set to 0) 20 bytes, the
# fp32 copy and both moments read and written 24, the parameter written 2. It keeps the copy and the moments, 12 bytes.
ADAM_MOVED, ADAM_STATE = 46, 12
ADAM_STATE_FP32 = 8


def roofline(
    model: Model,
    device_kinds: Sequence[str],
    *,
    efficiency: Efficiency = 0.5,
    tensor_parallel: int = 1,
    team_link: TeamLink | None = None,
    tp_overlap: float = 0.0,
    command: str = "",
) -> Trace:
    """The trace that data sheets predict for this model on these kinds of devices.

    `efficiency` is the part of the peak that matrix products reach; "device": the fitted curve of each kind, or a
    `DeviceCurve`; "curve": one curve for all kinds, or a `Curve`. `tensor_parallel` is the width with which the model
    was built. `command` is kept in the trace. The model's layers must have FLOPs.
    """
    _check_efficiency(efficiency)
    operations.check_sizes(tensor_parallel=tensor_parallel)
    if not 0 <= tp_overlap <= 1:
        raise InputError(f"tp_overlap = {tp_overlap} found; a part, 0 to 1, was expected")
    kinds = [devices.device_kind(name) for name in device_kinds]
    if not kinds or len({kind.name for kind in kinds}) < len(kinds):
        raise InputError(f"device_kinds = {list(device_kinds)} found; at least one was expected, each named once")
    roofs = []
    for kind in kinds:
        own = efficiency
        if isinstance(efficiency, str):
            own = efficiency_names.named(efficiency).on(kind.name, model.precision)
        team = _Team.of(kind, tensor_parallel, team_link, tp_overlap, own)
        roofs.append(_Roof.of(kind, model.precision, own, team))
    rows = [_row(model, index, roof) for roof in roofs for index in range(len(model))]
    return Trace(
        model=model.name,
        source=SOURCE,
        microbatch_size=model.microbatch_size,
        layers={name: np.array([row[name] for row in rows]) for name in rows[0]},
        machine=_machine(roofs, model.precision),
        command=command,
        precision=model.precision,
        optimizers=_optimizers(roofs, model.precision),
        sequence_parallel=model.sequence_parallel,
        sequence=model.sequence,
    )


def _check_efficiency(efficiency: object) -> None:
    if isinstance(efficiency, str):
        efficiency_names.named(efficiency)
    elif isinstance(efficiency, Curve | DeviceCurve):
        return
    elif isinstance(efficiency, bool) or not isinstance(efficiency, int | float) or not 0 < efficiency <= 1:
        raise InputError(
            f"efficiency = {efficiency} found; more than 0, at most 1, was expected, or a name such as 'device'"
        )


@dataclass(frozen=True, slots=True)
class _Team:
    """The devices that share a layer: their number, their link, the part of exchanges that takes no time."""

    width: int
    link: TeamLink | None
    overlap: float

    @classmethod
    def of(cls, kind: DeviceKind, width: int, link: TeamLink | None, overlap: float, efficiency: Efficiency) -> "_Team":
        """By default a ring over what the data sheet states; that of a device's curve as NCCL reaches it."""
        if width == 1 or link:
            return cls(width, link, overlap)
        if not kind.interconnect:
            raise InputError(f"the data sheet of {kind.name} states no interconnect; tensor parallelism needs it")
        if isinstance(efficiency, DeviceCurve):
            return cls(width, TeamLink(kind.interconnect * NCCL_EFFICIENCY, LINK_DELAY_S + NCCL_STEP_S), overlap)
        return cls(width, TeamLink(kind.interconnect), overlap)

    def seconds(self, exchanges: Sequence[TeamExchange], phase: Phase) -> float:
        """The time of a layer's exchanges in a phase."""
        if self.link is None:
            return 0.0
        times = (self.link.seconds(one.collective, one.bytes, self.width) for one in exchanges if one.phase == phase)
        return (1 - self.overlap) * sum(times)


@dataclass(frozen=True, slots=True)
class _Roof:
    """The speed of a kind of device in one precision: a constant part of its peak, or a curve, or one by operation."""

    kind: DeviceKind
    peak: float
    constant: float | None
    curve: Curve | None
    speed: Speed | None
    team: _Team

    @classmethod
    def of(cls, kind: DeviceKind, precision: str, efficiency: Efficiency, team: _Team) -> "_Roof":
        peak = _peak(kind, precision)
        if isinstance(efficiency, DeviceCurve):
            speed = Speed.of(efficiency, kind, precision, operations.value_bytes(precision))
            return cls(kind, peak, None, efficiency.coarse, speed, team)
        if isinstance(efficiency, Curve):
            return cls(kind, peak, None, efficiency, None, team)
        return cls(kind, peak, float(efficiency), None, None, team)

    def seconds(self, layer: Layer, flops: float, moved: float) -> float:
        """The time of one phase of a layer that is one operation; 0 without FLOPs and bytes."""
        if not flops and not moved:
            return 0.0
        if self.curve:
            return self.curve.seconds(layer.kind, flops / self.peak, moved / self.kind.memory_bandwidth)
        return max(flops / (self.peak * (self.constant or 1)), moved / self.kind.memory_bandwidth)

    def __str__(self) -> str:
        if self.speed:
            curve = self.speed.curve
            return f"by operation with {curve.origin} constants {curve} ({curve.source})"
        return f"along the efficiency curve {self.curve}" if self.curve else f"at {self.constant:g} of the peak"


def _peak(kind: DeviceKind, precision: str) -> float:
    if precision not in kind.peak:
        raise InputError(
            f"precision = {precision!r} found; the data sheet of {kind.name} states a peak for {', '.join(kind.peak)}"
        )
    return kind.peak[precision]


def _machine(roofs: list[_Roof], precision: str) -> str:
    """How the times were calculated; once where it is the same for all kinds."""
    team = roofs[0].team
    common = str(roofs[0]) if len({str(roof) for roof in roofs}) == 1 else ""
    sheets = "; ".join(
        f"{roof.kind.name}: {roof.peak / devices.TFLOPS:g} TFLOP/s {precision}, "
        f"{roof.kind.memory_bandwidth / devices.GB:g} GB/s"
        + (f", {_to_others(roof) / devices.GB:g} GB/s to others" if team.width > 1 else "")
        + ("" if common else f", {roof}")
        for roof in roofs
    )
    width = f", for one of {team.width} tensor-parallel devices" if team.width > 1 else ""
    hidden = f", {team.overlap:g} of their exchanges hidden" if team.width > 1 and team.overlap else ""
    return f"none: calculated from data sheets{' ' * bool(common)}{common}{width}{hidden} ({sheets})"


def _to_others(roof: _Roof) -> float:
    return roof.team.link.bandwidth if roof.team.link else roof.kind.interconnect


def _optimizers(roofs: list[_Roof], precision: str) -> tuple[OptimizerStep, ...]:
    """Adam on the slowest of the kinds; only beside times by operation."""
    speeds = [roof.speed for roof in roofs if roof.speed]
    if not speeds:
        return ()
    rate = min(speed.memory_bandwidth * speed.curve.memory for speed in speeds)
    value = operations.value_bytes(precision)
    state = ADAM_STATE if value < operations.value_bytes("fp32") else ADAM_STATE_FP32
    return (OptimizerStep("adam", ADAM_MOVED / value / rate, state / value),)


def _row(model: Model, index: int, roof: _Roof) -> dict[str, int | float | str]:
    """One layer on one kind of device, as a row of the trace."""
    layer = model.layers[index]
    if layer.forward_flops is None:
        raise InputError(f"layer {index} ({layer.name!r}) does not state its FLOPs; a roofline needs them")
    work = layer.work if roof.speed else None
    computing = _by_operation(model, index, roof.speed, work) if roof.speed and work else _as_one(model, index, roof)
    exchanges = layer.work.exchanges if layer.work and roof.speed else _summed(model, index)
    forward, backward_input, backward_weight = (
        seconds + roof.team.seconds(exchanges, phase) for seconds, phase in zip(computing, PHASES, strict=True)
    )
    row: dict[str, int | float | str] = {
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
        "stash_bytes": int(layer.stash_bytes + (work.loss_bytes if work else 0)),
        "inputs": _inputs_text(layer),
        "tensor": roof.team.width,
    }
    return row | _core(roof, work)


def _core(roof: _Roof, work: LayerWork | None) -> dict[str, int | float | str]:
    """What selective recomputation frees and does again; known where layers are timed by operation."""
    if not roof.speed or not work:
        return {"core_stash_bytes": 0, "core_recompute_s": float("nan")}
    again = sum(roof.speed.seconds(one, "forward") for one in work.operations if one.core)
    return {"core_stash_bytes": int(work.core_stash_bytes), "core_recompute_s": float(again)}


def _by_operation(model: Model, index: int, speed: Speed, work: LayerWork) -> tuple[float, ...]:
    """Seconds of the three phases; what a layer without inputs does backward counts as gradient of its weights."""
    forward, of_inputs, of_weights = (
        sum(speed.seconds(operation, phase) for operation in work.operations) for phase in PHASES
    )
    return (forward, of_inputs, of_weights) if model.inputs(index) else (forward, 0.0, of_inputs + of_weights)


def _as_one(model: Model, index: int, roof: _Roof) -> tuple[float, ...]:
    """Seconds of the three phases of a layer as one operation each."""
    layer = model.layers[index]
    work = _work(model, index, layer.forward_flops or 0.0)
    return tuple(roof.seconds(layer, flops, moved) for flops, moved in work)


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


def _summed(model: Model, index: int) -> tuple[TeamExchange, ...]:
    """What tensor-parallel devices sum where the layer does not state it: the output, the gradient of the inputs."""
    layer = model.layers[index]
    inputs = _read_bytes(model, index) if layer.kind in {*REDUCED, HEAD, TIED_HEAD} else 0
    output = layer.output_bytes if layer.kind in REDUCED else 0
    return TeamExchange("all_reduce", output, "forward"), TeamExchange("all_reduce", inputs, "backward_input")


def _read_bytes(model: Model, index: int) -> float:
    return sum(model.layers[source].output_bytes for source in model.inputs(index))


def _tied_bytes(model: Model) -> int:
    """Bytes of the parameters that a tied head, or a second embedding, shares with the first embedding."""
    return next((layer.parameter_bytes for layer in model.layers if layer.kind == EMBEDDING), 0)


def _inputs_text(layer: Layer) -> str:
    if layer.inputs is None:
        return ""
    return ";".join(map(str, layer.inputs)) or NO_INPUTS
