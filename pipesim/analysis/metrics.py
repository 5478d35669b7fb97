"""Metrics of a timeline: time, bubble, memory, load of links, exposed communication, path of the last microbatch.

The bubble has three definitions in use; reports show `idle_share`, the first, unless they name another.

bubble      idle_share            1 - busy time of all devices / (devices x makespan)
            longest_stage         1 - ideal / longest stage     (a stage lasts from its first start to its last end)
            actual_over_ideal     makespan / ideal - 1          (ideal: busy time of the busiest device, with optimizer)

exposed     communication         a device is idle while the input of its next task is being transferred
            all-reduce            a device is idle while its gradients are being reduced
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis import critical_path as paths
from pipesim.analysis.critical_path import SPENT_ON, last_need
from pipesim.base import moved, units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.intervals import covered, union
from pipesim.core.cluster import Cluster
from pipesim.core.program import BACKWARD, COLLECTIVES, FORWARD, WEIGHT
from pipesim.core.timeline import Simulated, Timeline, timeline_of


def iteration_time(timeline: Timeline) -> float:
    """Seconds from the first start to the last end."""
    return units.to_s(timeline.makespan)


# --- devices ---------------------------------------------------------------------------------------------------------


def busy(timeline: Timeline) -> Ints:
    """Nanoseconds that each device computes."""
    program = timeline.program
    compute = program.is_compute
    worked = (timeline.end - timeline.start)[compute]
    found = np.bincount(program.lane[compute], worked, minlength=len(program.devices)).astype(np.int64)
    return program.of_lanes(found)


def longest_stage(timeline: Timeline) -> int:
    """Nanoseconds from the first start to the last end on the device where that is longest."""
    lanes = [lane for lane in timeline.program.order if len(lane)]
    return max((int(timeline.end[lane[-1]] - timeline.start[lane[0]]) for lane in lanes), default=0)


def bubble(timeline: Timeline) -> dict[str, float]:
    """The bubble under each of its three definitions."""
    worked = busy(timeline)
    ideal, actual, longest = int(worked.max(initial=0)), timeline.makespan, longest_stage(timeline)
    return {
        "idle_share": 1 - float(worked.sum()) / (len(worked) * actual) if actual else 0.0,
        "longest_stage": 1 - ideal / longest if longest else 0.0,
        "actual_over_ideal": actual / ideal - 1 if ideal else 0.0,
    }


def peak_memory(timeline: Timeline) -> Ints:
    """Peak bytes of each device: parameters, gradients, optimizer state, and activations kept for the backward."""
    program = timeline.program
    # Tasks of a lane do not overlap, so the order of their starts and ends is that of the schedule.
    kept = [_peak(np.stack([program.memory_start[lane], program.memory_end[lane]], axis=1)) for lane in program.order]
    return program.static_memory + program.of_lanes(np.array(kept, np.int64))


def in_flight(timeline: Timeline) -> Ints:
    """The most microbatches on each device between forward and backward; each chunk counts separately.

    Only for programs lowered from plans; others (execution traces) have no microbatches.
    """
    program = timeline.program
    change = np.select([program.kind == FORWARD, np.isin(program.kind, [BACKWARD, WEIGHT])], [1, -1], 0)
    return program.of_lanes(np.array([_peak(change[lane]) for lane in program.order], np.int64))


def _peak(changes: Ints) -> int:
    return int(np.cumsum(changes).max(initial=0))


# --- links -----------------------------------------------------------------------------------------------------------


def link_busy(timeline: Timeline) -> Ints:
    """Nanoseconds during which at least one transfer is under way on each medium."""
    route = timeline.program.route
    task, medium = route.row_of_value(), route.values
    groups = _groups(medium, len(timeline.program.media))
    found = [covered(timeline.start[task[rows]], timeline.end[task[rows]]) for rows in groups]
    return timeline.program.of_media(np.array(found, np.int64))


def bytes_out_of_nodes(timeline: Timeline, cluster: Cluster) -> float:
    """Bytes over links that leave a node: from a device, or from what is named after its node (node0.nic0), to
    something that is not of that node. A medium of both directions counts half of its bytes.
    """
    node_of = {device.name: device.node for device in cluster.devices}
    nodes, found = set(node_of.values()), 0.0
    for name, carried in zip(timeline.program.media, timeline.moved.tolist(), strict=True):
        both = "<->" in name
        source, _, target = name.partition("<->" if both else "->")
        ends = [node_of.get(end, end.partition(".")[0]) for end in (source, target)]
        if ends[0] != ends[1] and nodes & set(ends if both else ends[:1]):
            found += carried / 2 if both else carried
    return found


def _groups(key: Ints, count: int) -> list[Ints]:
    """The rows of each key."""
    return np.split(np.argsort(key, kind="stable"), np.searchsorted(np.sort(key), np.arange(1, count)))[:count]


# --- waiting ---------------------------------------------------------------------------------------------------------


def exposed_communication(timeline: Timeline) -> Ints:
    """Nanoseconds that each device is idle while the input of its next task is transferred or waits for a link."""
    program, order = timeline.program, timeline.program.order
    task, lane = order.values, order.row_of_value()
    free = np.zeros(len(task), np.int64)
    free[1:] = np.where(lane[1:] == lane[:-1], timeline.end[task[:-1]], 0)
    need = last_need(timeline)[task]
    transfer = (need >= 0) & (program.lane[need] < 0) & ~np.isin(program.kind[need], COLLECTIVES)
    waited = np.where(transfer, timeline.start[task] - np.maximum(free, timeline.ready[need]), 0)
    found = np.bincount(lane, np.maximum(waited, 0), minlength=len(program.devices)).astype(np.int64)
    return program.of_lanes(found)


def exposed_all_reduce(timeline: Timeline) -> Ints:
    """Nanoseconds that each device is idle while the gradients of one of its stages are reduced."""
    program = timeline.program
    reducing = np.isin(program.kind, COLLECTIVES)
    ring = np.flatnonzero(reducing & (program.size > 0))
    joins = np.concatenate([program.lane[program.order.values], program.source[ring], program.target[ring]])
    stage = np.concatenate([program.stage[program.order.values], program.stage[ring], program.stage[ring]])
    pairs = np.unique(np.stack([joins, stage], axis=1), axis=0)
    stages_of = np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, len(program.devices))))
    known: dict[bytes, tuple[Ints, Ints]] = {}
    exposed = np.zeros(len(program.devices), np.int64)
    for device, (lane, stages) in enumerate(zip(program.order, stages_of, strict=True)):
        if program.folded is not None and program.folded.lanes[device] != device:
            continue
        key = stages.tobytes()
        if key not in known:
            rows = np.flatnonzero(reducing & np.isin(program.stage, stages))
            known[key] = union(timeline.start[rows], timeline.end[rows])
        start, end = known[key]
        working = _work_before(timeline, lane, end) - _work_before(timeline, lane, start)
        exposed[device] = int((end - start - working).sum())
    return program.of_lanes(exposed)


def _work_before(timeline: Timeline, lane: Ints, time: Ints) -> Ints:
    """Nanoseconds that a lane has worked by each time."""
    if not len(lane):
        return np.zeros(len(time), np.int64)
    start, end = timeline.start[lane], timeline.end[lane]
    done = np.concatenate([[0], np.cumsum(end - start)])
    begun = np.searchsorted(start, time, side="right")
    last = np.maximum(begun - 1, 0)
    return np.where(begun > 0, done[last] + np.clip(time - start[last], 0, end[last] - start[last]), 0)


@dataclass(frozen=True, slots=True)
class LastMicrobatchPath:
    """The chain of needs that ends last, through the microbatch that ends last; nanoseconds by category."""

    tasks: tuple[int, ...]
    spent: dict[str, int]


CATEGORIES = ("forward", "backward", "transfer", "all_reduce", "optimizer", "waiting_for_lane", "waiting_for_link")


def last_microbatch_path(timeline: Timeline) -> LastMicrobatchPath:
    """Follow the needs that ended last from the last end back to the start, and count time between them as waiting.

        F0 ──> transfer ──> F1 . . . . . B1 ──> transfer ──> B0        . waiting for a lane, or for a link

    The parts add up to the makespan. Of a transfer that shared its links, its time alone counts as transfer and the
    rest as waiting for the link.
    """
    program, need = timeline.program, last_need(timeline)
    spent = dict.fromkeys(CATEGORIES, 0)
    tasks: list[int] = []
    task = int(np.argmax(timeline.end)) if len(program) else -1
    while task >= 0:
        tasks.append(task)
        kind, compute = int(program.kind[task]), bool(program.lane[task] >= 0)
        lasted = int(timeline.end[task] - timeline.start[task])
        alone = lasted if compute else min(lasted, int(program.duration[task]))
        spent[SPENT_ON.get(kind, "transfer")] += alone
        waited = int(timeline.start[task] - timeline.ready[task])
        spent["waiting_for_lane" if compute else "waiting_for_link"] += waited + lasted - alone
        task = int(need[task])
    return LastMicrobatchPath(tuple(tasks[::-1]), spent)


# --- summary ---------------------------------------------------------------------------------------------------------


def throughput(timeline: Timeline) -> float:
    """Samples per second."""
    return timeline.program.samples / iteration_time(timeline) if timeline.makespan else 0.0


def flops_utilisation(timeline: Timeline) -> float | None:
    """FLOPs of the model as a share of the peak of the devices; None if either is unknown."""
    program = timeline.program
    if program.flops is None or program.peak_flops is None or not timeline.makespan:
        return None
    return program.flops / (iteration_time(timeline) * program.peak_flops)


def summary(timeline: Timeline | Simulated) -> dict[str, Any]:
    """All metrics as one mapping of plain numbers, in seconds and bytes.

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")')
    >>> ps.summary(result.timeline)["microbatches"]
    8
    """
    return _summary(timeline_of(timeline))


def _summary(timeline: Timeline) -> dict[str, Any]:
    program = timeline.program
    path = last_microbatch_path(timeline)
    return {
        "iteration_time_s": iteration_time(timeline),
        "engine": timeline.engine,
        "sharing": program.sharing,
        "transfers": program.transfers,
        "microbatches": program.microbatches,
        "tasks": program.represented,
        "throughput_samples_per_s": throughput(timeline),
        "flops_utilisation": flops_utilisation(timeline),
        "bubble": bubble(timeline),
        "critical_path": paths.critical_path(timeline).as_data(),
        "last_microbatch_path_s": {name: units.to_s(spent) for name, spent in path.spent.items()},
        "peak_memory_bytes": _by_device(timeline, peak_memory(timeline)),
        "devices": _devices(timeline),
        "links": _links(timeline),
    }


def _by_device(timeline: Timeline, values: Ints) -> dict[str, int]:
    return dict(zip(timeline.program.devices, values.tolist(), strict=True))


def _devices(timeline: Timeline) -> dict[str, dict[str, Any]]:
    program, span = timeline.program, max(timeline.makespan, 1)
    peak = peak_memory(timeline)
    columns = zip(
        program.devices,
        busy(timeline).tolist(),
        exposed_communication(timeline).tolist(),
        exposed_all_reduce(timeline).tolist(),
        in_flight(timeline).tolist(),
        peak.tolist(),
        program.memory.tolist(),
        strict=True,
    )
    return {
        name: {
            "busy_share": worked / span,
            "exposed_communication_s": units.to_s(communication),
            "exposed_all_reduce_s": units.to_s(reduce),
            "peak_in_flight": flying,
            "peak_memory_bytes": most,
            "memory_headroom_bytes": memory - most if memory else None,
        }
        for name, worked, communication, reduce, flying, most, memory in columns
    }


def _links(timeline: Timeline) -> dict[str, dict[str, float]]:
    """Metrics of media with transfers."""
    program, span = timeline.program, max(timeline.makespan, 1)
    columns = zip(
        program.media,
        timeline.moved.tolist(),
        timeline.used.tolist(),
        link_busy(timeline).tolist(),
        program.capacity.tolist(),
        strict=True,
    )
    return {
        name: {"bytes": moved, "busy_share": occupied / span, "load_share": used / (capacity * span)}
        for name, moved, used, occupied, capacity in columns
        if occupied
    }


def fits_memory(timeline: Timeline) -> bool:
    """Whether no device with known memory exceeds it."""
    return memory_excess(timeline) == 0


def memory_excess(timeline: Timeline) -> int:
    """The most bytes by which a device with known memory exceeds it."""
    program = timeline.program
    short = np.where(program.memory == 0, 0, peak_memory(timeline) - program.memory)
    return int(short.max(initial=0))


PERCENTILES = (50, 95, 99)
_NORMAL = 1.96  # a 95 % interval of the normal distribution, in standard deviations


def statistics(seconds: Floats, rng: np.random.Generator, resamples: int = 2000) -> dict[str, Any]:
    """Mean, median and tail of iteration times, with 95 % confidence intervals.

    That of the mean is by bootstrap; those of percentiles are order statistics of the sample, and an end is None where
    too few iterations were simulated for it.
    """
    means = rng.choice(seconds, (resamples, len(seconds))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    found: dict[str, Any] = {
        "iterations": len(seconds),
        "mean_s": float(seconds.mean()),
        "ci95_low_s": float(low),
        "ci95_high_s": float(high),
    }
    for each in PERCENTILES:
        below, above = _order_interval(seconds, each / 100)
        found |= {f"p{each}_s": float(np.percentile(seconds, each))}
        found |= {f"p{each}_low_s": below, f"p{each}_high_s": above}
    return found | {"min_s": float(seconds.min()), "max_s": float(seconds.max())}


def _order_interval(seconds: Floats, part: float) -> tuple[float | None, float | None]:
    """Of the sorted sample the values whose ranks enclose that of a percentile: the number below it is binomial."""
    count, ordered = len(seconds), np.sort(seconds)
    reach = _NORMAL * np.sqrt(count * part * (1 - part))
    low, high = int(np.floor(count * part - reach)), int(np.ceil(count * part + reach))
    return (float(ordered[low]) if low >= 0 else None), (float(ordered[high]) if high < count else None)


# Until 0.1 the path of the last microbatch was named the critical path.
__getattr__ = moved.renamed(
    __name__,
    {
        "CriticalPath": f"{__name__}:LastMicrobatchPath",
        "critical_path": f"{__name__}:last_microbatch_path",
    },
)
