"""A timeline as columns of whole numbers, packed for the browser.

    task     in the order of lanes and starts, then transfers: start, duration, kind, stage, microbatch, source, target,
             bytes, what held it and why, slack, whether it is on the critical path
    row      a lane, a link with transfers; the memory of a device, the load of a link: names, groups, their tasks
    steps    time and value of the curves of memory and load

A column is a run of bytes: the lowest byte of each value, then the next, as many as the largest value needs. Values are
differences from the value before, where that is smaller, and are twice their amount, less one if they are negative.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis import critical_path as paths
from pipesim.analysis import curves
from pipesim.base import units
from pipesim.base.arrays import Floats, Ints, Ragged
from pipesim.base.intervals import tracks
from pipesim.core.program import KINDS, LETTERS
from pipesim.core.timeline import Timeline
from pipesim.display.pages.detail_levels import levels

_MANY = 50_000  # spans; above, the page draws from levels of detail until it has all columns
_MOST_STEPS = 200_000  # points of all curves; above, curves are kept at so many times
_TIMES = 2048
_TRACKS = 8  # transfers drawn at once on a link
_LOAD = 10_000  # parts of a link's capacity

_WORDS = {
    "input": "input gradient",
    "weight": "weight gradient",
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
}  # kinds of tasks whose names in a program are short


@dataclass(frozen=True)
class Packed:
    """A chart: what is read first, the levels of detail, and all columns."""

    head: dict[str, Any]
    coarse: bytes
    columns: bytes


def packed(name: str, timeline: Timeline) -> Packed:
    """A chart for the browser."""
    program = timeline.program
    order = _order(timeline)
    rows, row_task, row_track = _rows(timeline, order)
    path = paths.critical_path(timeline)
    columns = _task_columns(timeline, order, path) | {"row_task": row_task.values, "row_track": row_track}
    steps, step_columns = _steps(timeline)
    columns |= step_columns
    layout, body = _packed_columns(columns)
    count = len(row_task.values)
    shown = levels(timeline, row_task.row_of_value(), order[row_task.values], len(row_task)) if count > _MANY else []
    return Packed(
        head={
            "name": name,
            "makespan": timeline.makespan,
            "tasks": len(program),
            "engine": timeline.engine,
            "devices": list(program.devices),
            "nodes": [_node(device) for device in program.devices],
            "kinds": [_WORDS.get(kind, kind) for kind in KINDS],
            "letters": LETTERS,
            "rows": rows,
            "row_starts": row_task.starts.tolist(),
            "steps": steps,
            "layout": layout,
            "levels": [level.shape[1] for level, _ in shown],
            "path": _path(path),
        },
        coarse=b"".join(part.tobytes() for level in shown for part in level),
        columns=body,
    )


def _path(path: paths.CriticalPath) -> dict[str, Any]:
    """The path by cause and place."""
    return {"causes": {cause: ns for cause, ns in path.spent.items() if ns}, "tasks": len(path.tasks)}


def _order(timeline: Timeline) -> Ints:
    """Tasks in the order of the page: those of each lane by start, then transfers by start; none without any time."""
    program = timeline.program
    lane = np.where(program.is_compute, program.lane, len(program.devices))
    order = np.lexsort((np.arange(len(program)), timeline.start, lane))
    kept = program.is_compute | (timeline.end > timeline.start) | (program.size > 0)
    return order[kept[order]]


def _task_columns(timeline: Timeline, order: Ints, path: paths.CriticalPath) -> dict[str, Ints]:
    program = timeline.program
    place = np.full(len(program), -1, np.int64)
    place[order] = np.arange(len(order))
    held, by = paths.holders(timeline)
    held = _shown_holder(held, place)
    critical = np.zeros(len(program), np.int64)
    critical[list(path.tasks)] = 1
    at = np.arange(len(order))
    holder = held[order]
    return {
        "start": timeline.start[order],
        "duration": (timeline.end - timeline.start)[order],
        "kind": program.kind[order],
        "stage": program.stage[order],
        "microbatch": program.microbatch[order],
        "source": program.source[order],
        "target": program.target[order],
        "bytes": np.where(program.is_compute, 0, np.rint(program.size)).astype(np.int64)[order],
        "held": np.where(holder >= 0, at - place[holder], 0),
        "by": by[order],
        "slack": paths.slack(timeline)[order],
        "critical": critical[order],
    }


def _shown_holder(held: Ints, place: Ints) -> Ints:
    """What held a task; of transfers that take no time and are not shown, what held them."""
    while True:
        hidden = (held >= 0) & (place[held] < 0)
        if not hidden.any():
            return held
        held = np.where(hidden, held[held], held)


# --- rows ------------------------------------------------------------------------------------------------------------


def _node(name: str) -> str:
    """The node of a device or NIC, by its name: node0 of node0.gpu1."""
    node, dot, _ = name.partition(".")
    return node if dot else ""


def _rows(timeline: Timeline, order: Ints) -> tuple[list[dict[str, Any]], Ragged, Ints]:
    """Lanes, then links with transfers; the tasks of each by start, and their tracks."""
    program = timeline.program
    ordered_lanes = program.lane[order]
    lane_tasks = np.flatnonzero(ordered_lanes >= 0)
    first_stage = [int(program.stage[lane].min()) if len(lane) else -1 for lane in program.order]
    rows = [
        {"kind": "lane", "name": name, "node": _node(name), "stage": stage}
        for name, stage in zip(program.devices, first_stage, strict=True)
    ]
    media, medium, task = _crossings(timeline, order)
    rows += [
        {"kind": "link", "name": program.media[m], "node": _node(program.media[m].partition("->")[0]), "stage": -1}
        for m in media.tolist()
    ]
    track = _tracks(timeline, medium, order[task])
    row = np.concatenate([ordered_lanes[lane_tasks], len(program.devices) + medium])
    lengths = np.bincount(row, minlength=len(rows)).astype(np.int64)
    every = np.concatenate([lane_tasks, task])
    return rows, Ragged.of_lengths(lengths, every), np.concatenate([np.zeros(len(lane_tasks), np.int64), track])


def _crossings(timeline: Timeline, order: Ints) -> tuple[Ints, Ints, Ints]:
    """Media with transfers, and each transfer on each of them as (position of the medium, task), by start."""
    program = timeline.program
    routes = program.route.take(order)
    task, medium = routes.row_of_value(), routes.values
    lasting = (timeline.end > timeline.start)[order[task]]
    media, position = np.unique(medium[lasting], return_inverse=True)
    task = task[lasting]
    by_start = np.lexsort((task, timeline.start[order[task]], position))
    return media, position[by_start], task[by_start]


def _tracks(timeline: Timeline, row: Ints, task: Ints) -> Ints:
    """Tracks of transfers at the same time; of very many, one."""
    if len(row) > 4 * _MANY:
        return np.zeros(len(row), np.int64)
    return np.minimum(tracks(row, timeline.start[task], timeline.end[task]), _TRACKS - 1)


# --- curves ----------------------------------------------------------------------------------------------------------


def _steps(timeline: Timeline) -> tuple[list[dict[str, Any]], dict[str, Ints]]:
    """Rows of memory and of load, with the columns of their points."""
    program = timeline.program
    media = np.flatnonzero(timeline.moved > 0)
    found: list[tuple[dict[str, Any], Ints, Ints]] = []
    memory, load = curves.memory_curves(timeline), curves.load_curves(timeline)
    few = len(memory.time) + len(load.time) <= _MOST_STEPS
    edges = np.unique(np.linspace(0, timeline.makespan, _TIMES, dtype=np.int64))
    for lane, name in enumerate(program.devices):
        time, value = memory[lane]
        if not value.any():
            continue
        head = {"kind": "memory", "name": name, "of": lane, "most": int(program.memory[lane]), "unit": "B"}
        found.append((head, *((time, value) if few else _peaks(time, value, edges))))
    for medium in media.tolist():
        time, rate = load[medium]
        share = np.rint(rate / program.capacity[medium] * _LOAD).astype(np.int64)
        head = {"kind": "load", "name": program.media[medium], "of": medium, "most": _LOAD, "unit": ""}
        found.append((head, *((time, share) if few else _means(time, share, edges))))
    starts = np.cumsum([0, *(len(time) for _, time, _ in found)]).tolist()
    heads = [head | {"from": starts[n], "to": starts[n + 1]} for n, (head, _, _) in enumerate(found)]
    none = [np.zeros(0, np.int64)]
    times, values = [time for _, time, _ in found], [value for _, _, value in found]
    return heads, {"step_time": np.concatenate(times or none), "step_value": np.concatenate(values or none)}


def _peaks(time: Ints, value: Ints, edges: Ints) -> tuple[Ints, Ints]:
    """The largest value between each two of these times."""
    found = value[np.searchsorted(time, edges, side="right") - 1]
    np.maximum.at(found, np.searchsorted(edges, time, side="right") - 1, value)
    return edges, found


def _means(time: Ints, value: Ints, edges: Ints) -> tuple[Ints, Ints]:
    """The mean between each two of these times."""
    if len(edges) < 2:
        return edges, value[: len(edges)]
    mean: Floats = curves.averages(time, value, edges)
    return edges[:-1], np.rint(mean).astype(np.int64)


# --- packing ---------------------------------------------------------------------------------------------------------


def _packed_columns(columns: dict[str, Ints]) -> tuple[list[list[Any]], bytes]:
    """For each column its name, length, bytes of a value, and whether it holds differences; and all bytes."""
    layout, parts = list[list[Any]](), list[bytes]()
    for name, column in columns.items():
        plain, differences = _planes(column), _planes(np.diff(column, prepend=0))
        differs = name in _DIFFERENCES or len(differences) < len(plain)
        planes = differences if differs else plain
        layout.append([name, len(column), len(planes), int(differs)])
        parts += [plane.tobytes() for plane in planes]
    return layout, b"".join(parts)


_DIFFERENCES = {"start", "row_task", "step_time"}


def _planes(values: Ints) -> list[Any]:
    """The lowest byte of each value, the next, and so on; values without sign."""
    if len(values) and np.abs(values).max() > units.LONGEST_NS:
        values = np.clip(values, -units.LONGEST_NS, units.LONGEST_NS)
    plain = np.where(values < 0, -2 * values - 1, 2 * values).astype("<u8")
    most = int(plain.max(initial=0))
    count = max(1, (most.bit_length() + 7) // 8)
    table = plain.view(np.uint8).reshape(-1, 8)
    return [np.ascontiguousarray(table[:, n]) for n in range(count)]
