"""Limits on host memory: requests are estimated, and refused before anything of that size is allocated.

    tasks       PER_TASK bytes each, including the simulation; more where `auto` tries many schedules
    tables      of planners: layers x layers, devices x devices and so on, as each planner declares
    columns     one duration per task, for each device and layer that `whatif` makes faster
    draws       the time of every layer for every microbatch, for replays with varying times

Numbers are peaks of resident memory beyond that of a small case, measured with the compiled engine on x86-64 Linux
(numpy 2, numba 0.66), with 40,000 to 600,000 tasks; `tests/core/test_limits.py` measures them again. The limit is that
of --host-memory; by default half of the machine's memory, or of the control group's limit if that is less.
"""

import functools
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from pipesim.base import units
from pipesim.base.chains import chain_bytes
from pipesim.base.errors import InputError, RefusedError, within
from pipesim.core.members import ProblemSize
from pipesim.core.plan import Plan

SHARE = 0.5  # of the machine's memory, by default
UNKNOWN = 16e9  # bytes, if the system does not report its memory

# 480 to 740 by scheduler, transfers and sharing: one_f_one_b 625 to 660, pe 710, zb_h1 630, interleaved 670, blocking
# transfers 740; tables of `pipesim schedule` 310 to 700. The SimPy engine, used for few tasks, needs up to 1,360.
PER_TASK = 750
PER_TASK_OF_AUTO = 9_000  # per task of the given plan: `auto` also tries two chunks per device and split backwards
PER_PLACE = 17  # stage x device: the number of the replica, twice, and whether there is one
PER_DURATION = 12  # of each task, for each column of a batch
PER_DRAW = 56  # layer x microbatch of a stage: the drawn sample, its seconds, the noise
PER_PAIR = 40  # devices x devices: bandwidths, the minimum of both directions, and copies
PER_PAIR_OF_JSON = 160  # the same printed: numbers, objects and text
PER_PAIR_OF_PICTURE = 80  # the same drawn


@dataclass(frozen=True, slots=True)
class Limit:
    """Bytes that a request may use, and the origin of the number."""

    size: float
    origin: str

    def shared(self, workers: int) -> "Limit":
        """The equal share of each worker."""
        return self if workers == 1 else Limit(self.size / workers, f"{self.origin}, shared by {workers} workers")


HostMemory = float | str | Limit | None


def limit_of(host_memory: HostMemory = None, root: Path = Path("/")) -> Limit:
    """The given limit, or by default a share of the memory of the machine."""
    if host_memory is None:
        return Limit(SHARE * machine_memory(root), "half of this machine's")
    if isinstance(host_memory, Limit):
        return host_memory
    with within("host memory"):
        size = units.size(host_memory)
    if not size:
        raise InputError(f"host memory: {host_memory!r} found; more than 0 bytes was expected")
    return Limit(size, "--host-memory")


def machine_memory(root: Path = Path("/")) -> float:
    """Bytes of memory of this machine, or the limit of the control groups of this process if that is less."""
    found = [UNKNOWN]
    with suppress(ValueError, OSError, AttributeError):  # not Unix
        found = [float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]
    return min([*found, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[float]:
    """The limits of the control groups of this process and of their parents, in versions 1 and 2."""
    text = ""
    with suppress(OSError):
        text = (root / "proc/self/cgroup").read_text(encoding="utf-8")
    for line in text.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        group = PurePosixPath(path.lstrip("/"))
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):  # "max", or a group that is not visible inside a container
                yield float(int((root / "sys/fs/cgroup" / base / folder / name).read_text(encoding="utf-8")))


def refuse_beyond(host_memory: HostMemory, size: float, what: str, instead: str) -> None:
    """Refuse a request above the limit; the message begins with `what` and suggests `instead`."""
    limit = limit_of(host_memory)
    if size > limit.size:
        raise RefusedError(
            f"{what}, about {gigabytes(size)} of memory; the limit is {gigabytes(limit.size)} ({limit.origin}): "
            f"{instead} or raise --host-memory"
        )


def gigabytes(size: float) -> str:
    """Bytes as text, with about two digits."""
    scale, unit = next(
        ((s, u) for s, u in ((1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB")) if size >= s), (1e6, "MB")
    )
    value = size / scale
    return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


# --- tasks -----------------------------------------------------------------------------------------------------------


def tasks_of(plan: Plan, *, parts: int = 2) -> int:
    """Number of tasks of an iteration, including transfers; a microbatch has `parts` actions on a stage, 2 or 3.

    An upper bound if replicas take whole microbatches and two stages share devices.
    """
    split, m = plan.replicas == "split", plan.microbatches
    actions = m * (sum(plan.replication) if split else len(plan.stages))
    transfers = 0
    for a, b in pairwise(plan.stages):
        same = len({*a.devices} & {*b.devices})
        pairs = len(a.devices) * len(b.devices) - same if split else int(a.devices != b.devices)
        gpus = sum(len(plan.team(stage.devices[0])) for stage in (a, b))  # each sends to one or two of the others
        transfers += 2 * m * pairs * (gpus - 1)
    replicated = (stage for stage in plan.stages if len(stage.devices) > 1)
    edges = sum(len(stage.devices) * len(plan.team(stage.devices[0])) for stage in replicated)
    return parts * actions + transfers + edges


def check_tasks(host_memory: HostMemory, plan: Plan, *, parts: int = 2, every_schedule: bool = False) -> None:
    """Refuse a plan whose schedule and simulation need more memory than the limit."""
    tasks, stages = tasks_of(plan, parts=parts), len(plan.stages)
    size = tasks * (PER_TASK_OF_AUTO if every_schedule else PER_TASK) + stages * len(plan.devices) * PER_PLACE
    tried = ", of which auto tries many orders" if every_schedule else ""
    what = f"{plan.microbatches:,} microbatches on {stages:,} stages make {tasks:,} tasks{tried}"
    refuse_beyond(host_memory, size, what, "use fewer microbatches")


def check_microbatches(host_memory: HostMemory, microbatches: int) -> None:
    """Refuse more microbatches than fit with any plan: even one stage has a forward and a backward of each."""
    tasks = 2 * microbatches
    what = f"{microbatches:,} microbatches make {tasks:,} tasks or more"
    refuse_beyond(host_memory, tasks * PER_TASK, what, "use fewer microbatches")


def check_columns(host_memory: HostMemory, tasks: int, columns: int) -> None:
    """Refuse more sets of durations than fit in memory."""
    what = f"{columns:,} devices and layers, each made faster in {tasks:,} tasks, make {columns * tasks:,} durations"
    refuse_beyond(host_memory, PER_DURATION * columns * tasks, what, "use fewer microbatches, or --only device,")


def check_draws(host_memory: HostMemory, microbatches: int, layers: int) -> None:
    """Refuse draws of more times at once than fit in memory."""
    what = f"{layers:,} layers drawn for each of {microbatches:,} microbatches make {layers * microbatches:,} times"
    refuse_beyond(host_memory, PER_DRAW * layers * microbatches, what, "use fewer microbatches")


@functools.cache  # read from the system once
def most_changes(size: int) -> int:
    """The most changes of rates that an engine may store, at `size` bytes each.

    Their number is known only during the simulation: with n transfers on one link it can be n squared. So engines
    count them and stop at the limit of the machine; --host-memory is not passed to them.
    """
    return int(limit_of().size / size)


def too_many_changes(size: int) -> RefusedError:
    """The error of an engine that stops at `most_changes`."""
    limit = limit_of()
    return RefusedError(
        f"the rates of transfers changed more than {most_changes(size):,} times, more than {gigabytes(limit.size)} "
        f"({limit.origin}) hold: use fewer microbatches, or --sharing fifo, where rates do not change"
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def check_chunks(host_memory: HostMemory, stages: int, layers: int) -> None:
    """Refuse more stages than the table of the partitioning fits in memory for."""
    what = f"{layers:,} layers cut into {stages:,} stages"
    refuse_beyond(host_memory, chain_bytes(stages, layers), what, "use fewer chunks")


def check_pairs(host_memory: HostMemory, devices: int, per_pair: int = PER_PAIR) -> None:
    """Refuse the bandwidths between all devices if they do not fit in memory."""
    what = f"the bandwidths between {devices:,} devices are {devices**2:,} numbers"
    refuse_beyond(host_memory, per_pair * devices**2, what, "leave out --json and --plot,")


def check_planner(host_memory: HostMemory, planner: str, size: ProblemSize, tables: float) -> None:
    """Refuse a planner whose tables, of so many bytes, do not fit in memory."""
    what = f"planner {planner!r} makes tables of {size.layers:,} layers on {size.devices:,} devices"
    refuse_beyond(host_memory, tables, what, "use another planner, fewer layers or fewer devices,")
