"""The speed of a kind of device by operation: a few constants for each generation and precision.

    product, attention     launch + max(FLOPs / (peak · e), bytes / (memory bandwidth · m))
    other kernels          launch + bytes / (memory bandwidth · m)

    e (products)           the part of the peak that large products reach
    e (attention)          the same for fused attention, of the FLOPs that it computes
    m                      the part of the memory bandwidth
    launch                 seconds that each kernel takes beside
    unaligned              the part of e that products of activations reach whose rows are no multiples of 16 bytes, as
                           with heads of 150 values: matrix cores cannot load them

A curve is `fitted` on measurements of that generation, or taken from the `nearest` generation that has one: its times
then come from data sheets and the constants of another device. experiments/efficiency fits the constants, with their
errors in sample and on models left out. A file of a user's own (`pipesim calibrate`) has curves that are `calibrated`.
Layers that state no operations are timed along a `Curve` with these products.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pipesim.architectures.efficiency import MATRIX_UNITS, Curve
from pipesim.base.checks import check_not_negative
from pipesim.base.errors import InputError
from pipesim.core.calibrations import Calibration, calibrations_of, is_calibrated
from pipesim.core.devices import DeviceKind
from pipesim.core.work import FUSED_BACKWARD, Attention, Kernels, Operation, Phase, Product

Origin = Literal["fitted", "nearest", "calibrated"]
ACCUMULATED_BYTES = 6
"""A gradient of weights is added in fp32 to that of earlier microbatches: 8 bytes, where a product alone writes 2."""
ALIGNMENT_BYTES = 16


@dataclass(frozen=True, slots=True)
class DeviceCurve:
    """The constants of one generation of devices in one precision. `source` names what they were fitted on."""

    product: float
    attention: float
    memory: float
    launch_s: float
    unaligned: float = 0.04
    origin: Origin = "fitted"
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("product", "attention", "memory", "unaligned"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} = {getattr(self, name)} found; a finite number, more than 0, was expected")
        check_not_negative("launch_s", self.launch_s)

    def __str__(self) -> str:
        return (
            f"e = {self.product:g} (products) and {self.attention:g} (attention), m = {self.memory:g}, "
            f"launch = {self.launch_s * 1e6:g} us"
        )

    @property
    def coarse(self) -> Curve:
        """The curve of layers that state no operations."""
        return replace(MATRIX_UNITS, product=self.product, convolution=self.product)


@dataclass(frozen=True, slots=True)
class Speed:
    """A curve on a kind of device: FLOP/s of products with weights and of attention, bytes/s, bytes of a value."""

    curve: DeviceCurve
    product_peak: float
    attention_peak: float
    memory_bandwidth: float
    value: int

    @classmethod
    def of(cls, curve: DeviceCurve, kind: DeviceKind, precision: str, value: int) -> "Speed":
        """On this kind; attention of a model in fp8 is in bf16."""
        peak = kind.peak[precision]
        attention = kind.peak["bf16"] if precision == "fp8" else peak
        return cls(curve, peak, attention, kind.memory_bandwidth, value)

    def seconds(self, operation: Operation, phase: Phase) -> float:
        """The time of an operation in a phase."""
        if isinstance(operation, Kernels):
            moved, count = {
                "forward": (operation.forward, operation.forward_count),
                "backward_input": (operation.backward, operation.backward_count),
                "backward_weight": (operation.weight, operation.weight_count),
            }[phase]
            return self._time(0.0, self.product_peak, moved, count)
        if isinstance(operation, Attention):
            return self._attention(operation, phase)
        return self._product(operation, phase)

    def _product(self, one: Product, phase: Phase) -> float:
        left, right, result = one.m * one.k, one.k * one.n, one.m * one.n
        moved = self.value * one.count * (left + right + result)
        peak = self.curve.product * (self.product_peak if one.weights else self.attention_peak)
        if not one.weights and (one.n * self.value % ALIGNMENT_BYTES or one.k * self.value % ALIGNMENT_BYTES):
            peak *= self.curve.unaligned
        once = self._time(one.flops, peak, moved, 1)
        if phase == "forward":
            return once
        if one.weights:
            added = ACCUMULATED_BYTES * one.count * right if phase == "backward_weight" else 0
            return self._time(one.flops, peak, moved + added, 1)
        return 2 * once if phase == "backward_input" else 0.0

    def _attention(self, one: Attention, phase: Phase) -> float:
        peak, moved = self.curve.attention * self.attention_peak, self.value * one.values
        if phase == "forward":
            return self._time(one.computed_flops, peak, moved, 1)
        if phase == "backward_input":
            return self._time(FUSED_BACKWARD * one.computed_flops, peak, 2 * moved, 1)
        return 0.0

    def _time(self, flops: float, rate: float, moved: float, count: int) -> float:
        curve = self.curve
        return curve.launch_s * count + max(flops / rate, moved / (self.memory_bandwidth * curve.memory))


A100 = DeviceCurve(
    product=0.72, attention=0.51, memory=0.85, launch_s=14e-6, unaligned=0.034,
    source="183 measurements of GPTs: Megatron-LM, vTrain, BigScience, zero-bubble; attention: SimuMax's operators",
)  # fmt: skip
V100 = replace(A100, product=0.54, source="50 iterations of GPTs in BigScience; the rest of a100")
V100_SXM3 = replace(A100, product=0.79, source="4 iterations of GPTs in Megatron-LM on a DGX-2; the rest of a100")
H100 = replace(
    A100, product=0.67, origin="nearest",
    source="a100: 0.72 x 80.3 % / 86.9 %, the largest products that are published of both devices",
)  # fmt: skip
H100_FP8 = replace(A100, product=0.59, source="13 iterations of GPT-3 175B in MLPerf; the rest of a100")
B200 = DeviceCurve(
    product=0.48, attention=0.44, memory=0.67, launch_s=49e-6,
    source="578 operators and 12 iterations of Llama 3 70B measured by SimuMax",
)  # fmt: skip

# Generation -> precision -> constants; fp16 and bf16 run on the same units at the same rate.
CURVES: Mapping[str, Mapping[str, DeviceCurve]] = {
    "v100": {"fp16": V100},
    "v100-sxm3": {"fp16": V100_SXM3},
    "a100": {"fp16": A100, "bf16": A100},
    "h100": {"fp16": H100, "bf16": H100, "fp8": H100_FP8},
    "b200": {"fp16": B200, "bf16": B200},
}
# Beginning of a kind's name -> the generations whose constants it takes, the first that has the precision.
NEAREST: Mapping[str, tuple[str, ...]] = {
    "v100": ("v100",), "titan-v": ("v100",), "titan-rtx": ("v100",), "rtx2080ti": ("v100",), "t4": ("v100",),
    "h100": ("h100",), "h200": ("h100",), "gh200": ("h100",), "h20-": ("h100",),
    "b200": ("b200", "h100"), "gb200": ("b200", "h100"), "b300": ("b200", "h100"),
}  # fmt: skip
OTHERWISE = ("a100", "h100")


def curve_of(kind: str, precision: str) -> DeviceCurve | None:
    """The constants of a kind of device, those of the nearest generation, or None where only `Curve` has any.

    A kind of a user's file has its own in the precisions that were calibrated, and those of its base in the others.
    """
    if is_calibrated(kind):
        calibrations = calibrations_of(kind)
        own = next((one for one in calibrations if one.precision == precision), None)
        return calibrated(own) if own else curve_of(calibrations[0].base, precision)
    own_names = [name for name in CURVES if f"{kind}-".startswith(f"{name}-")]
    fitted = CURVES[max(own_names, key=len)] if own_names else {}
    if precision in fitted:
        return fitted[precision]
    generations = next((NEAREST[start] for start in NEAREST if kind.startswith(start)), OTHERWISE)
    for generation in generations:
        if found := CURVES[generation].get(precision):
            return replace(found, origin="nearest", source=f"{generation}: {found.source}")
    return None


def calibrated(one: Calibration) -> DeviceCurve:
    """The curve of a user's own measurements."""
    return DeviceCurve(
        one.product, one.attention, one.memory, one.launch_s, one.unaligned, origin="calibrated", source=one.source
    )
