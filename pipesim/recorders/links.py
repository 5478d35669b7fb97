"""A live process group, recorded: how long messages take between two processes, and all-reduces among several.

    p2p           rank 0 sends to rank k, which sends the same back: half of the time there and back is a transfer
    all_reduce    ranks 0 .. k-1 together, one after the other without a pause; timed on rank 0

    quiet?  p2p 4 B  quiet?  p2p 8 B  quiet?  ...        on the CPU: as many processes as there are cores are busy for
                                                         200 ms before and after; unless all had a core to themselves,
                                                         what was measured between is measured again

All ranks run the same steps; rank 0 keeps what was measured.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pipesim import tables
from pipesim.cluster import Device
from pipesim.errors import InputError, RefusedError
from pipesim.recorders import machine as machines
from pipesim.recorders.link_files import About, Links
from pipesim.recorders.quiet import LIMIT, PAUSE_S, REAL, WINDOW_S, Clocks, Window
from pipesim.trace import TRANSFER_COLUMNS

if TYPE_CHECKING:
    import torch

P2P, ALL_REDUCE = "p2p", "all_reduce"
SMALLEST, LARGEST = 4, 64 * 2**20
WARMUP = 3
FEW = 8  # ranks up to which all-reduces of every number of participants are timed; above, powers of two

Row = tuple[str, str, int, float, str, int, int]


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """What to time. `patience_s`: how long, in all, to wait for the machine to be quiet."""

    samples: int = 15
    smallest: int = SMALLEST
    largest: int = LARGEST
    patience_s: float = 60.0
    gated: bool = True

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise InputError(f"samples {self.samples} found; at least 1 was expected")
        if not SMALLEST <= self.smallest < self.largest:
            raise InputError(
                f"sizes from {self.smallest} to {self.largest} bytes found; at least {SMALLEST}, and two, were expected"
            )

    def sizes(self, factor: int) -> list[int]:
        """From the smallest to the largest, each so many times the one before."""
        found = [self.smallest]
        while found[-1] * factor < self.largest:
            found.append(found[-1] * factor)
        return [*found, self.largest]


@dataclass(frozen=True, slots=True)
class _Here:
    """This process among the others."""

    rank: int
    count: int
    devices: tuple[Device, ...]
    device: "torch.device"
    takes_part: bool  # in the test for quiet: a node has no more such processes than cores


def record_links(settings: LinkSettings, device: "torch.device", clocks: Clocks = REAL) -> Links | None:
    """Time transfers in the default process group, which must be initialised; None but on rank 0."""
    import torch.distributed as dist

    here = _here(device)
    if here.count < 2:
        raise RefusedError("a process group of one has no links; at least two processes were expected")
    gate = _Gate(here, settings, clocks) if settings.gated and device.type == "cpu" else None
    rows: list[Row] = []
    missing = []
    for run in _runs(here, settings):
        found = gate.quietly(run) if gate else run()
        if found is None:
            missing.append(run)
        else:
            rows += found
    dist.barrier()
    if here.rank:
        return None
    about = About(here.devices, dist.get_backend(), machines.machine(device, 1), not_measured=_grouped(missing))
    cells = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in TRANSFER_COLUMNS]
    columns = {column.name: values for column, values in zip(TRANSFER_COLUMNS, cells, strict=True)}
    return Links(about, tables.checked(TRANSFER_COLUMNS, columns))


def _here(device: "torch.device") -> _Here:
    """Who is where: nodes are numbered as their first ranks are, devices as the ranks of their node."""
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    hosts: list[Any] = [None] * count
    dist.all_gather_object(hosts, socket.gethostname())
    order = list(dict.fromkeys(hosts))
    places = [(order.index(host), hosts[:r].count(host)) for r, host in enumerate(hosts)]
    noun = "gpu" if device.type == "cuda" else "cpu"
    kind, memory = machines.device_kind(device), machines.memory(device)
    devices = tuple(Device(f"node{node}.{noun}{local}", kind, f"node{node}", memory) for node, local in places)
    return _Here(rank, count, devices, device, places[rank][1] < (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class _Run:
    """One size of message, timed by all that take part."""

    what: str
    size: int
    time: Callable[[int], list[Row]]

    def __call__(self) -> list[Row]:
        return self.time(self.size)


def _runs(here: _Here, settings: LinkSettings) -> Iterator[_Run]:
    """Everything to time, in the same order on all ranks."""
    import torch.distributed as dist

    for other in range(1, here.count):
        ping_pong = partial(_ping_pong, here, settings.samples, other)
        yield from (_Run(f"p2p with {here.devices[other].name}", size, ping_pong) for size in settings.sizes(2))
    for k in _participants(here.count):
        all_reduce = partial(_all_reduce, here, settings.samples, k, dist.new_group(list(range(k))))
        yield from (_Run(f"all-reduce among {k}", size, all_reduce) for size in settings.sizes(4))


def _grouped(runs: list[_Run]) -> tuple[str, ...]:
    """What could not be timed, in few words."""
    found = []
    for what in dict.fromkeys(run.what for run in runs):
        sizes = [str(run.size) for run in runs if run.what == what]
        found.append(f"{what}: {', '.join(sizes)} bytes")
    return tuple(found)


def _participants(count: int) -> list[int]:
    if count <= FEW:
        return list(range(2, count + 1))
    powers = [2**n for n in range(1, count.bit_length()) if 2**n < count]
    return [*powers, count]


def _ping_pong(here: _Here, samples: int, other: int, size: int) -> list[Row]:
    import torch
    import torch.distributed as dist

    if here.rank not in {0, other}:
        return []
    message = torch.zeros(size, dtype=torch.uint8, device=here.device)
    taken = []
    for _ in range(WARMUP + samples):
        _settle(here.device)
        begin = time.perf_counter_ns()
        if here.rank == 0:
            dist.send(message, other)
            dist.recv(message, other)
        else:
            dist.recv(message, 0)
            dist.send(message, 0)
        _settle(here.device)
        taken.append((time.perf_counter_ns() - begin) / 2e9)
    ends = here.devices[0].name, here.devices[other].name
    return [(*ends, size, seconds, P2P, 2, sample) for sample, seconds in enumerate(taken[WARMUP:])]


def _all_reduce(here: _Here, samples: int, k: int, group: Any, size: int) -> list[Row]:  # noqa: ANN401 - a group
    import torch
    import torch.distributed as dist

    if here.rank >= k:
        return []
    message = torch.zeros(-(-size // 4), dtype=torch.float32, device=here.device)  # whole values
    taken = []
    for _ in range(WARMUP + samples):
        begin = time.perf_counter_ns()
        dist.all_reduce(message, group=group)
        _settle(here.device)
        taken.append((time.perf_counter_ns() - begin) / 1e9)
    ends = here.devices[0].name, here.devices[k - 1].name
    return [(*ends, message.nbytes, seconds, ALL_REDUCE, k, sample) for sample, seconds in enumerate(taken[WARMUP:])]


def _settle(device: "torch.device") -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Gate:
    """Runs what is to be timed between two quiet windows, until it succeeds or patience ends; on all ranks alike."""

    def __init__(self, here: _Here, settings: LinkSettings, clocks: Clocks) -> None:
        self._here, self._clocks = here, clocks
        self._again = int(settings.patience_s / (WINDOW_S + PAUSE_S))
        self.lost: list[float] = []

    def quietly(self, run: Callable[[], list[Row]]) -> list[Row] | None:
        """What it returns, or None if it never was quiet."""
        quiet = self._window() if not self.lost else self.lost[-1] <= LIMIT
        while True:
            found = run() if quiet else None
            quiet_after = self._window()
            if quiet and quiet_after:
                return found
            if self._again <= 0:
                return None
            self._again -= 1
            if not quiet_after:
                self._clocks.sleep(PAUSE_S)
            quiet = quiet_after

    def _window(self) -> bool:
        """Whether every process had its core for a window; all learn of the worst."""
        import torch
        import torch.distributed as dist

        dist.barrier()
        lost = 0.0
        if self._here.takes_part:
            window = Window(self._clocks)
            window.fill()
            lost = window.lost()
        worst = torch.tensor(lost)
        dist.all_reduce(worst, dist.ReduceOp.MAX)
        self.lost.append(float(worst))
        return self.lost[-1] <= LIMIT
