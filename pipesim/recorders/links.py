"""Recording a live process group: the times of messages between two processes, and of all-reduces among several.

    round 0    p2p 4 B  p2p 8 B ...  both ways 4 MiB ...  all-reduce 4 B ...
    round 1    the same again, so that a temporary disturbance affects one round; see `message_times`
    round 2

    quiet?  p2p 4 B  quiet?  p2p 8 B  quiet?  ...        on the CPU: as many processes as there are cores are busy for
                                                         200 ms before and after; unless each had a core to itself,
                                                         the measurement between is repeated

All ranks run the same steps; rank 0 keeps the results. Messages are sent both ways at once only at the largest sizes,
which decide whether a link is half duplex.
"""

import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipesim.base import tables
from pipesim.base.errors import InputError, RefusedError
from pipesim.core.cluster import Device
from pipesim.core.trace import TRANSFER_COLUMNS
from pipesim.recorders import exchanges, machine_info, pinning
from pipesim.recorders.exchanges import Row, Take
from pipesim.recorders.link_files import ALL_REDUCE, BOTH_WAYS, P2P, About, RecordedLinks
from pipesim.recorders.message_times import LARGE
from pipesim.recorders.quiet import LIMIT, PAUSE_S, REAL, WINDOW_S, Clocks, Window

if TYPE_CHECKING:
    import torch

SMALLEST, LARGEST = 4, 64 * 2**20
WARMUP, WARMUP_LATER = 3, 1  # in the first round, and in those after it
FEW = 8  # ranks up to which all-reduces of every number of participants are timed; above, powers of two


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """What to time. `samples` in all, over the rounds; `patience_s`: how long, in all, to wait for quiet."""

    samples: int = 15
    smallest: int = SMALLEST
    largest: int = LARGEST
    patience_s: float = 60.0
    gated: bool = True
    rounds: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= self.samples:
            raise InputError(
                f"samples {self.samples} in {self.rounds} rounds found; at least 1 round, and 1 sample in each, "
                "were expected"
            )
        if not SMALLEST <= self.smallest < self.largest:
            raise InputError(
                f"sizes from {self.smallest} to {self.largest} bytes found; at least {SMALLEST}, and two, were expected"
            )

    def sizes(self, factor: int) -> list[int]:
        """From the smallest to the largest, each `factor` times the one before."""
        found = [self.smallest]
        while found[-1] * factor < self.largest:
            found.append(found[-1] * factor)
        return [*found, self.largest]

    def large_sizes(self) -> list[int]:
        """The sizes that determine the bandwidth: every other one from the large end, and at least two."""
        found = self.sizes(2)[::-1]
        large = [size for size in found[::2] if size * LARGE >= self.largest]
        return large[::-1] if len(large) > 1 else found[1::-1]

    def takes(self) -> list[Take]:
        """The rounds, each with its share of the samples; the first ones have more if it is uneven."""
        firsts = [-(-self.samples * number // self.rounds) for number in range(self.rounds + 1)]
        return [
            Take(WARMUP_LATER if number else WARMUP, first, until - first, number)
            for number, (first, until) in enumerate(pairwise(firsts))
        ]


@dataclass(frozen=True, slots=True)
class _Here:
    """This process among the others."""

    rank: int
    count: int
    devices: tuple[Device, ...]
    device: "torch.device"
    takes_part: bool  # in the test for a quiet machine: a node has at most as many such processes as cores
    cores: str


def record_links(settings: LinkSettings, device: "torch.device", clocks: Clocks = REAL) -> RecordedLinks | None:
    """Time transfers in the default process group, which must be initialised; None but on rank 0."""
    import torch.distributed as dist

    here = _here(device)
    if here.count < 2:
        raise RefusedError("a process group of one has no links; at least two processes were expected")
    gate = _Gate(here, settings, clocks) if settings.gated and device.type == "cpu" else None
    rows: list[Row] = []
    times: Counter[tuple[str, int]] = Counter()
    runs = _runs(here, settings)
    for take in settings.takes():
        for run in runs:
            timed = partial(run.time, run.size, take)
            found = gate.quietly(timed) if gate else timed()
            if found is not None:
                rows += found
                times[run.what, run.size] += 1
    dist.barrier()
    if here.rank:
        return None
    # A size that was measured in only one of several rounds cannot be checked for repeatability.
    missing = [run for run in runs if times[run.what, run.size] < min(2, settings.rounds)]
    kind = machine_info.machine(device, 1)
    about = About(here.devices, dist.get_backend(), kind, not_measured=_grouped(missing), cores=here.cores)
    cells = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in TRANSFER_COLUMNS]
    columns = {column.name: values for column, values in zip(TRANSFER_COLUMNS, cells, strict=True)}
    return RecordedLinks(about, tables.checked(TRANSFER_COLUMNS, columns))


def _here(device: "torch.device") -> _Here:
    """The position of each process: nodes in order of their first ranks, devices in order of the ranks of a node."""
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    everyone: list[Any] = [None] * count
    dist.all_gather_object(everyone, (socket.gethostname(), pinning.core()))
    hosts = [host for host, _ in everyone]
    order = list(dict.fromkeys(hosts))
    places = [(order.index(host), hosts[:r].count(host)) for r, host in enumerate(hosts)]
    noun = "gpu" if device.type == "cuda" else "cpu"
    kind, memory = machine_info.device_kind(device), machine_info.memory(device)
    devices = tuple(Device(f"node{node}.{noun}{local}", kind, f"node{node}", memory) for node, local in places)
    cores = pinning.described([(devices[r].name, node, everyone[r][1]) for r, (node, _) in enumerate(places)])
    return _Here(rank, count, devices, device, places[rank][1] < (os.cpu_count() or 1), cores)


@dataclass(frozen=True, slots=True)
class _Run:
    """One message size, timed by all participants."""

    what: str
    size: int
    time: Callable[[int, Take], list[Row]]


def _runs(here: _Here, settings: LinkSettings) -> list[_Run]:
    """Everything to time in one round, in the same order on all ranks."""
    import torch.distributed as dist

    found = []
    for other in range(1, here.count):
        name = here.devices[other].name
        one_way, both_ways = partial(_pair, here, P2P, other), partial(_pair, here, BOTH_WAYS, other)
        found += [_Run(f"p2p with {name}", size, one_way) for size in settings.sizes(2)]
        found += [_Run(f"p2p both ways with {name}", size, both_ways) for size in settings.large_sizes()]
    for k in _participants(here.count):
        all_reduce = partial(_all_reduce, here, k, dist.new_group(list(range(k))))
        found += [_Run(f"all-reduce among {k}", size, all_reduce) for size in settings.sizes(4)]
    return found


def _grouped(runs: list[_Run]) -> tuple[str, ...]:
    """What could not be timed, for a report."""
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


def _pair(here: _Here, kind: str, other: int, size: int, take: Take) -> list[Row]:
    if here.rank not in {0, other}:
        return []
    timed = exchanges.ping_pong if kind == P2P else exchanges.both_ways
    taken = timed(here.rank, other, here.device, size, take)
    return exchanges.rows((here.devices[0].name, here.devices[other].name, size), kind, 2, take, taken)


def _all_reduce(here: _Here, k: int, group: Any, size: int, take: Take) -> list[Row]:  # noqa: ANN401 - a group
    if here.rank >= k:
        return []
    taken = exchanges.all_reduce(group, here.device, size, take)
    message = here.devices[0].name, here.devices[k - 1].name, 4 * exchanges.values(size)
    return exchanges.rows(message, ALL_REDUCE, k, take, taken)


class _Gate:
    """Runs a measurement between two quiet windows, repeatedly until it succeeds or patience ends; on all ranks."""

    def __init__(self, here: _Here, settings: LinkSettings, clocks: Clocks) -> None:
        self._here, self._clocks = here, clocks
        self._again = int(settings.patience_s / (WINDOW_S + PAUSE_S))
        self.lost: list[float] = []

    def quietly(self, run: Callable[[], list[Row]]) -> list[Row] | None:
        """The result of `run`, or None if every attempt was disturbed."""
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
        """Whether every process had its core for a window, by the worst of all."""
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
