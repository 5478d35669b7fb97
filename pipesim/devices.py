"""Kinds of devices as their public data sheets state them: memory, peak rates of work, memory bandwidth."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipesim import lookup
from pipesim.errors import UnknownNameError

GB, GIB, TFLOPS = 1e9, 2**30, 1e12


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """One kind of device; `peak` is in FLOP/s, dense (without structured sparsity), by precision."""

    name: str
    memory: int
    memory_bandwidth: float
    peak: Mapping[str, float]


DEVICE_KINDS: dict[str, DeviceKind] = {
    # NVIDIA Tesla V100 data sheet (SXM2): 15.7 TFLOP/s fp32, 125 TFLOP/s tensor fp16, 900 GB/s HBM2.
    "v100-16gb": DeviceKind("v100-16gb", 16 * GIB, 900 * GB, {"fp32": 15.7 * TFLOPS, "fp16": 125 * TFLOPS}),
    "v100-32gb": DeviceKind("v100-32gb", 32 * GIB, 900 * GB, {"fp32": 15.7 * TFLOPS, "fp16": 125 * TFLOPS}),
    # NVIDIA A100 data sheet (SXM4): 19.5 TFLOP/s fp32, 312 TFLOP/s tensor fp16 and bf16; 1,555 and 2,039 GB/s.
    "a100-40gb": DeviceKind("a100-40gb", 40 * GIB, 1555 * GB, {"fp32": 19.5 * TFLOPS, "fp16": 312 * TFLOPS}),
    "a100-80gb": DeviceKind("a100-80gb", 80 * GIB, 2039 * GB, {"fp32": 19.5 * TFLOPS, "fp16": 312 * TFLOPS}),
    # NVIDIA H100 data sheet (SXM5): 67 TFLOP/s fp32, 989.4 TFLOP/s tensor fp16 dense, 3.35 TB/s HBM3.
    "h100-80gb": DeviceKind("h100-80gb", 80 * GIB, 3350 * GB, {"fp32": 67 * TFLOPS, "fp16": 989.4 * TFLOPS}),
}


def device_kind(name: str) -> DeviceKind:
    """The kind of this name, or an error that says which there are."""
    if name not in DEVICE_KINDS:
        raise UnknownNameError(f"no device kind is called {name!r}; {lookup.suggest(name, DEVICE_KINDS)}")
    return DEVICE_KINDS[name]
