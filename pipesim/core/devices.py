"""Kinds of devices as their public data sheets state them: memory, peak rates of work, bandwidths.

Peaks are dense, without structured sparsity: matrix (tensor) cores for tf32, bf16, fp16, fp8, sums in fp32 where
the sheet distinguishes them; fp32 is the rate of the ordinary units. Memory sizes are powers of 1024, as devices report
them; bandwidths are powers of 1000, as sheets state them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipesim.base import lookup
from pipesim.base.errors import UnknownNameError, shown
from pipesim.core.calibrations import calibrations_of, is_calibrated

GB, GIB, TFLOPS = 1e9, 2**30, 1e12


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """One kind of device; `peak` is in FLOP/s, dense (without structured sparsity), by precision.

    `interconnect` is what its links to other devices carry together, in bytes/s in each direction; `sheet` names where
    the numbers are from.
    """

    name: str
    memory: int
    memory_bandwidth: float
    peak: Mapping[str, float]
    interconnect: float = 0.0
    sheet: str = ""


def _kind(
    name: str, gibibytes: int, gb_per_s: float, link_gb_per_s: float, sheet: str, **tflops: float
) -> tuple[str, DeviceKind]:
    peak = {precision: value * TFLOPS for precision, value in tflops.items()}
    return name, DeviceKind(name, gibibytes * GIB, gb_per_s * GB, peak, link_gb_per_s * GB, sheet)


_V100 = {"fp32": 15.7, "fp16": 125.0}
_A100 = {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0}
_HOPPER = {"fp32": 67.0, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}
_HGX_BLACKWELL = {"fp32": 75.0, "tf32": 1125.0, "bf16": 2250.0, "fp16": 2250.0, "fp8": 4500.0}

DEVICE_KINDS: dict[str, DeviceKind] = dict(
    [
        # name, memory (GiB), its bandwidth (GB/s), links together in each direction (GB/s), data sheet, peaks (TFLOP/s)
        _kind("v100-16gb", 16, 900, 150, "NVIDIA Tesla V100 data sheet (SXM2)", **_V100),
        _kind("v100-32gb", 32, 900, 150, "NVIDIA Tesla V100 data sheet (SXM2)", **_V100),
        _kind("v100-sxm3-32gb", 32, 900, 150, "NVIDIA DGX-2 data sheet, a sixteenth of it (SXM3)", **_V100),
        _kind("a100-40gb", 40, 1555, 300, "NVIDIA A100 data sheet (SXM4)", **_A100),
        _kind("a100-80gb", 80, 2039, 300, "NVIDIA A100 data sheet (SXM4)", **_A100),
        _kind("a800-80gb", 80, 2039, 200, "NVIDIA A800 data sheet (SXM4)", **_A100),
        _kind("h100-80gb", 80, 3350, 450, "NVIDIA H100 data sheet (SXM5)", **_HOPPER),
        _kind(
            "h100-nvl-94gb", 94, 3900, 300, "NVIDIA H100 data sheet (NVL), half of its sparse peaks",
            fp32=60, tf32=417.5, bf16=835.5, fp16=835.5, fp8=1670.5,
        ),
        _kind("h200-141gb", 141, 4800, 450, "NVIDIA H200 data sheet (SXM5)", **_HOPPER),
        _kind("h20-96gb", 96, 4000, 450, "NVIDIA H20 data sheet (SXM5)", fp32=44, tf32=74, bf16=148, fp16=148, fp8=296),
        _kind("gh200-96gb", 96, 4000, 450, "NVIDIA GH200 data sheet (HBM3)", **_HOPPER),
        _kind("b200-180gb", 180, 8000, 900, "NVIDIA HGX B200 data sheet, an eighth of it", **_HGX_BLACKWELL),
        _kind(
            "gb200-186gb", 186, 8000, 900, "NVIDIA GB200 NVL72 data sheet, a 72nd of it, half of its sparse peaks",
            fp32=80, tf32=1250, bf16=2500, fp16=2500, fp8=5000,
        ),
        _kind("b300-270gb", 270, 7700, 900, "NVIDIA Blackwell Ultra data sheet (HGX B300)", **_HGX_BLACKWELL),
        _kind(
            "a10-24gb", 24, 600, 32, "NVIDIA A10 data sheet (PCIe 4.0 x16)", fp32=31.2, tf32=62.5, bf16=125, fp16=125
        ),
        _kind("t4-16gb", 16, 320, 16, "NVIDIA T4 data sheet (PCIe 3.0 x16)", fp32=8.1, fp16=65),
        _kind(
            "l4-24gb", 24, 300, 32, "NVIDIA L4 data sheet (PCIe 4.0 x16), half of its sparse peaks",
            fp32=30.3, tf32=60, bf16=121, fp16=121, fp8=242.5,
        ),
        _kind(
            "l40s-48gb", 48, 864, 32, "NVIDIA L40S data sheet (PCIe 4.0 x16)",
            fp32=91.6, tf32=183, bf16=362.05, fp16=362.05, fp8=733,
        ),
        # Two dies on one module; the system shows them as two devices, each with half of all this.
        _kind("mi250-128gb", 128, 3276.8, 300, "AMD Instinct MI250 data sheet", fp32=45.3, bf16=362.1, fp16=362.1),
        _kind(
            "mi300x-192gb", 192, 5300, 448, "AMD Instinct MI300X data sheet",
            fp32=163.4, tf32=653.7, bf16=1307.4, fp16=1307.4, fp8=2614.9,
        ),
        _kind(
            "mi325x-256gb", 256, 6000, 448, "AMD Instinct MI325X data sheet",
            fp32=163.4, tf32=653.7, bf16=1307.4, fp16=1307.4, fp8=2614.9,
        ),
        _kind(
            "mi355x-288gb", 288, 8000, 537.6, "AMD Instinct MI355X data sheet",
            fp32=157.3, bf16=2516.6, fp16=2516.6, fp8=5033.2,
        ),
        _kind("titan-v-12gb", 12, 652.8, 16, "NVIDIA Titan V specifications (PCIe 3.0 x16)", fp32=13.8, fp16=110),
        _kind("rtx2080ti-11gb", 11, 616, 16, "NVIDIA Turing white paper (PCIe 3.0 x16)", fp32=13.4, fp16=53.8),
        _kind("titan-rtx-24gb", 24, 672, 16, "NVIDIA Turing white paper (PCIe 3.0 x16)", fp32=16.3, fp16=130.5),
        _kind(
            "rtx3090-24gb", 24, 936, 32, "NVIDIA Ampere GA102 white paper (PCIe 4.0 x16)",
            fp32=35.6, tf32=35.6, bf16=71, fp16=71,
        ),
        _kind(
            "rtx4090-24gb", 24, 1008, 32, "NVIDIA Ada white paper (PCIe 4.0 x16)",
            fp32=82.6, tf32=82.6, bf16=165.2, fp16=165.2, fp8=330.3,
        ),
    ]
)  # fmt: skip


def device_kind(name: str) -> DeviceKind:
    """The kind of this name, or an error that lists those that exist.

    "gb" can be left out ("a100-80"), and the memory where only one kind has the name ("h100"). A kind of a file,
    "my-devices.toml:a100-80gb", has the data sheet of its base.
    """
    if is_calibrated(name):
        base = device_kind(calibrations_of(name)[0].base)
        return replace(base, name=name, sheet=f"{base.sheet}, calibrated")
    if name in DEVICE_KINDS:
        return DEVICE_KINDS[name]
    meant = [kind for full, kind in DEVICE_KINDS.items() if name in {full.removesuffix("gb"), full.rpartition("-")[0]}]
    if len(meant) != 1:
        raise UnknownNameError(f"unknown device kind {shown(name)}; {lookup.suggest(name, DEVICE_KINDS)}")
    return meant[0]
