"""The speed of a kind of device by operation: a few constants for each generation and precision.

    product, attention     launch + max(FLOPs / (peak · e), bytes / (memory bandwidth · m))
    other kernels          launch + bytes / (memory bandwidth · m)

    e (products)           the part of the peak that large products reach
    e (attention)          the same for fused attention, of the FLOPs that it computes
    m                      the part of the memory bandwidth
    launch                 seconds that each kernel takes beside

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
from pipesim.core.devices import DeviceKind
from pipesim.core.work import FUSED_BACKWARD, Attention, Kernels, Operation, Phase, Product

Origin = Literal["fitted", "nearest", "calibrated"]
ACCUMULATED_BYTES = 6
"""A gradient of weights is added in fp32 to that of earlier microbatches: 8 bytes, where a product alone writes 2."""
ALIGNMENT = 8
"""Tensor cores need rows of 16 bytes: 8 values."""


@dataclass(frozen=True, slots=True)
class DeviceCurve:
    """The constants of one generation of devices in one precision. `source` names what they were fitted on."""

    product: float
    attention: float
    memory: float
    launch_s: float
    origin: Origin = "fitted"
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("product", "attention", "memory"):
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


A100 = DeviceCurve(0.69, 0.52, 0.78, 10e-6, source="GPTs of Megatron-LM, vTrain and BigScience; zero-bubble profiles")

# Generation -> precision -> constants; fp16 and bf16 run on the same units at the same rate.
CURVES: Mapping[str, Mapping[str, DeviceCurve]] = {"a100": {"fp16": A100, "bf16": A100}}
# Beginning of a kind's name -> the generation whose constants it takes.
NEAREST: Mapping[str, str] = {}
OTHERWISE = "a100"


def curve_of(kind: str, precision: str) -> DeviceCurve | None:
    """The constants of a kind of device, those of the nearest generation, or None where only `Curve` has any."""
    own = CURVES.get(kind.partition("-")[0])
    if own and precision in own:
        return own[precision]
    nearest = next((NEAREST[start] for start in NEAREST if kind.startswith(start)), OTHERWISE)
    found = CURVES[nearest].get("bf16" if precision == "fp8" else precision)
    return None if found is None else replace(found, origin="nearest", source=f"{nearest}: {found.source}")
