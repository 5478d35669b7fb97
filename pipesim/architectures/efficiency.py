"""The part of its peak that a device reaches, by the size of an operation.

    seconds = start + FLOPs / (peak · e) + bytes moved / (memory bandwidth · m)

    efficiency = FLOPs / peak / seconds          ^ e
                                                 │            ····························
                                                 │     ···
    rises with the size of an operation and      │  ·
    with its FLOPs per byte, and saturates at e: │·
                                                 └─────────────────────────────> size

e is one number for matrix products and one for convolutions, m one for memory. All bytes moved by a layer count at m,
which thereby accounts for frameworks that launch several kernels where the roofline counts each byte once. Convolutions
in fp32 can exceed 1: their FLOPs are those of direct convolution, and libraries use algorithms with fewer.
"""

from dataclasses import dataclass

from pipesim.base.checks import check_not_negative
from pipesim.base.errors import InputError

# Kinds of layers: convolutions, and layers without products, whose few FLOPs take no time beside their memory accesses.
CONVOLUTIONS = frozenset({"conv", "cell"})
WITHOUT_PRODUCTS = frozenset({"pool", "add", "concat", "norm", "embedding", "tied_embedding"})


@dataclass(frozen=True, slots=True)
class Curve:
    """The part of the peak of products and of convolutions, the part of the bandwidth, and the time to start."""

    product: float
    convolution: float
    memory: float
    start_s: float

    def __post_init__(self) -> None:
        for name in ("product", "convolution", "memory"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} = {getattr(self, name)} found; a finite number, more than 0, was expected")
        check_not_negative("start_s", self.start_s)

    def __str__(self) -> str:
        return (
            f"e = {self.product:g} (products) and {self.convolution:g} (convolutions), m = {self.memory:g}, "
            f"start = {self.start_s * 1e6:g} us"
        )

    def seconds(self, kind: str, at_peak_s: float, at_bandwidth_s: float) -> float:
        """The time of an operation in a layer of this kind, from its times at the peak and at the full bandwidth."""
        reached = self.convolution if kind in CONVOLUTIONS else self.product
        computing = 0.0 if kind in WITHOUT_PRODUCTS else at_peak_s / reached
        return self.start_s + computing + at_bandwidth_s / self.memory


ORDINARY_UNITS = Curve(product=0.66, convolution=1.5, memory=0.38, start_s=30e-6)
"""fp32. Calibrated on recorded profiles of V100s: see experiments/roofline."""
MATRIX_UNITS = Curve(product=0.66, convolution=0.66, memory=0.38, start_s=30e-6)
"""All other precisions. The values of fp32, not calibrated; convolutions reach as much as products. The published rates
of GPTs on A100s agree: see experiments/roofline."""


def curve_for(precision: str) -> Curve:
    """The curve of the units for this precision, on any kind of device."""
    return ORDINARY_UNITS if precision == "fp32" else MATRIX_UNITS
