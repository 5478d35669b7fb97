"""Clocks for work on a device: the processor's clock, or events in a CUDA stream."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipesim.base import units

if TYPE_CHECKING:
    import torch

Mark = Any  # a moment: nanoseconds, or an event
Span = tuple[Mark, Mark] | None  # None: there was nothing to run


@dataclass(frozen=True, slots=True)
class DeviceClock:
    """`mark` records a point in the device's work, `settle` waits for it, `between` returns the seconds."""

    mark: Callable[[], Mark]
    settle: Callable[[], None]
    between: Callable[[Mark, Mark], float]

    def seconds(self, spans: Sequence[Span]) -> list[float]:
        """The seconds of each span; call `settle` before."""
        return [0.0 if span is None else self.between(*span) for span in spans]


def clock_of(device: "torch.device") -> DeviceClock:
    """The clock of a device."""
    if device.type == "cuda":
        return _cuda_clock(device)
    return DeviceClock(time.perf_counter_ns, lambda: None, lambda begin, end: units.to_s(end - begin))


def _cuda_clock(device: "torch.device") -> DeviceClock:
    """Events are in the stream between the kernels, so the host can run ahead as it does in training."""
    import torch

    def mark() -> Mark:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
        return event

    return DeviceClock(
        mark, lambda: torch.cuda.synchronize(device), lambda begin, end: float(begin.elapsed_time(end)) / 1e3
    )  # fmt: skip
