"""A profiler's file in columns: what ran on which thread or stream, with start and end.

    row         one event with a duration; rows are sorted by thread, then start, the longer of two first
    category    OP a CPU operator, RANGE a record_function, MODULE a call of a module (with_modules),
                LAUNCH a call of the CUDA (HIP, XPU) runtime, DEVICE a kernel, copy or memset on a stream

Times are whole nanoseconds since the first event of the file; `origin` is the time of that event.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipesim.base.arrays import Bools, Ints

OP, RANGE, MODULE, LAUNCH, DEVICE = range(5)
NODE_PREFIX = "autograd::engine::evaluate_function: "
MODULE_PREFIX = "nn.Module: "
# How the names of ranges and operators of process groups begin, and what the names of communication kernels contain.
GROUP_PREFIXES = ("nccl:", "rccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:")
COMMUNICATION = (*GROUP_PREFIXES, "c10d::", "_c10d_functional::", "record_param_comms")
COMMUNICATION_KERNELS = ("nccl", "rccl", "oneccl")


@dataclass(frozen=True, slots=True, eq=False)
class MemoryEvents:
    """Every allocation (size above 0) and release (below 0), in order of time."""

    time: Ints
    thread: Ints
    size: Ints
    address: Ints
    on_device: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The events of one file."""

    path: str
    names: tuple[str, ...]
    category: Ints
    name: Ints  # position in `names`
    thread: Ints  # number of a (process, thread), or of a (device, stream)
    start: Ints
    end: Ints
    correlation: Ints  # links a DEVICE row to the LAUNCH row that caused it; -1 where there is none
    sequence: Ints  # links a backward operator to its forward; -1 where there is none
    size: Ints  # bytes of the first input; -1 where shapes were not recorded
    details: dict[int, dict[str, Any]]  # row -> the arguments of a communication
    memory: MemoryEvents
    rank: int | None
    world: int
    device: str  # the name of the GPUs in the file
    origin: int  # ns
    host: str = ""
    has_shapes: bool = field(default=False)

    def __len__(self) -> int:
        return len(self.start)

    def of(self, category: int) -> Ints:
        """The rows of a category."""
        return np.flatnonzero(self.category == category)

    def named(self, *starts: str) -> Bools:
        """Rows whose name starts with one of these."""
        return self._which([name.startswith(starts) for name in self.names])

    def containing(self, *parts: str) -> Bools:
        """Rows whose name contains one of these, whatever the case."""
        return self._which([any(part in name.lower() for part in parts) for name in self.names])

    def _which(self, chosen: list[bool]) -> Bools:
        which: Bools = np.array(chosen, bool)[self.name]
        return which

    @property
    def communicates(self) -> Bools:
        """Rows that are communication: kernels, ranges and operators of process groups."""
        kernels = (self.category == DEVICE) & self.containing(*COMMUNICATION_KERNELS)
        found: Bools = kernels | ((self.category != DEVICE) & self.named(*COMMUNICATION))
        return found

    def text(self, row: int) -> str:
        """The name of a row."""
        return self.names[int(self.name[row])]
