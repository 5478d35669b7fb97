"""Several programs as one: jobs on one cluster, each iterating, that share links, and devices where that is allowed.

    job 0     iteration 0 | iteration 1 | ...          an iteration begins when all tasks of the one before have ended
    job 1     ······ iteration 0 | iteration 1 | ...   a later start is a pause before its first tasks

Lanes and links keep their names. The tasks of a job keep their order; so do jobs. Pauses, and tasks without duration
that join an iteration, are behind all others. On a lane of several jobs, tasks are in the order of a simulation without
contention between transfers, in which a free lane takes what was ready first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pipesim.base.arrays import Ints, Ragged
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, RefusedError
from pipesim.core import program as programs
from pipesim.core.program import ALL_REDUCE, Program
from pipesim.core.scenario import Speeds
from pipesim.lowering.lane_order import lane_order

_PER_TASK = ("kind", "stage", "microbatch", "duration", "delay", "size", "limit", "memory_start", "memory_end")


class Part(NamedTuple):
    """A program, how often it is done in a row, and when it starts (ns)."""

    program: Program
    iterations: int = 1
    start: int = 0


@dataclass(frozen=True, eq=False)
class Merged:
    """Programs as one: for each of its tasks the job and the iteration that it is of; -1 for pauses and joins."""

    program: Program
    job: Ints
    iteration: Ints


def merge(parts: Sequence[Part], *, share_devices: bool = False) -> Merged:
    """One program of the jobs of a cluster.

    >>> program = ps.lower(ps.make_setup("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=2))
    >>> both = ps.lowering.merging.merge([ps.lowering.merging.Part(program, iterations=3)])
    >>> len(both.program), both.iteration.max()
    (38, 2)
    """
    _check(parts, share_devices=share_devices)
    lanes: dict[str, int] = {}
    for part in parts:
        for name in part.program.devices:
            lanes.setdefault(name, len(lanes))
    blocks = [_Block.of(part, lanes) for part in parts]
    joins, needs = _joined(blocks)
    of_job = np.repeat([*range(len(parts)), -1], [*(block.count for block in blocks), len(joins)]).astype(np.int64)
    iteration = np.concatenate([*(block.iteration for block in blocks), np.full(len(joins), -1)]).astype(np.int64)
    program = _program(blocks, lanes, joins, needs)
    if sum(len(part.program.devices) for part in parts) > len(lanes):
        program = _with_shared_lanes(program, of_job)
    programs.check(program)
    return Merged(program, of_job, iteration)


def _check(parts: Sequence[Part], *, share_devices: bool) -> None:
    if not parts:
        raise InputError("no programs found; at least one was expected")
    first, holder = parts[0].program, dict[str, int]()
    for number, (program, iterations, start) in enumerate(parts):
        check_at_least("iterations", iterations)
        check_at_least("start", start, 0)
        if not program.sharing_rule.has_links:
            raise RefusedError(f"sharing {program.sharing!r} has a channel between stages, which jobs cannot share")
        if program.sharing != first.sharing:
            raise InputError(
                f"sharing {program.sharing!r} found for job {number}; {first.sharing!r} was expected, as job 0"
            )
        if (program.media, program.buckets) != (first.media, first.buckets) or not np.array_equal(
            program.capacity, first.capacity
        ):
            raise InputError(f"job {number} has other links than job 0; one cluster was expected for all jobs")
        if _speeds(program) != _speeds(first):
            raise InputError(
                f"job {number} has other speeds of links than job 0; one scenario was expected for all jobs"
            )
        for name in program.devices:
            if holder.setdefault(name, number) != number and not share_devices:
                raise InputError(
                    f"device {name!r} is used by job {holder[name]} and job {number}; devices of its own were "
                    "expected for each job (or let jobs share them)"
                )


def _speeds(program: Program) -> dict[int, tuple[tuple[int, ...], tuple[float, ...]]]:
    return {medium: (tuple(speeds.times), tuple(speeds.values)) for medium, speeds in program.media_speeds.items()}


@dataclass(frozen=True, eq=False)
class _Block:
    """The tasks of one job, all its iterations, numbered from 0."""

    part: Part
    lane_of: Ints  # lane of the program -> lane of the whole
    count: int
    iteration: Ints
    needs: tuple[Ints, Ints]  # (task, what it waits for)
    roots: Ints  # tasks of an iteration that wait for none
    sinks: Ints  # those that none waits for

    @classmethod
    def of(cls, part: Part, lanes: dict[str, int]) -> "_Block":
        """The block of a job."""
        program, times = part.program, part.iterations
        size = len(program)
        offset = np.repeat(np.arange(times) * size, len(program.needs.values))
        waiting = np.tile(program.needs.row_of_value(), times) + offset
        awaited = np.tile(program.needs.values, times) + offset
        needed = np.zeros(size, bool)
        needed[program.needs.values] = True
        return cls(
            part,
            np.array([lanes[name] for name in program.devices], np.int64),
            size * times,
            np.repeat(np.arange(times), size),
            (waiting, awaited),
            np.flatnonzero(program.needs.lengths == 0),
            np.flatnonzero(~needed),
        )

    def column(self, name: str) -> Ints:
        """A column of the program, once for each iteration; lanes are those of the whole."""
        column = getattr(self.part.program, name)
        if name in {"lane", "source", "target"}:
            column = np.where(column < 0, -1, self.lane_of[column])
        tiled: Ints = np.tile(column, self.part.iterations)
        return tiled


def _begins(blocks: Sequence[_Block]) -> list[int]:
    """The number of the first task of each block, and of the first behind all."""
    return [0, *np.cumsum([block.count for block in blocks]).tolist()]


def _joined(blocks: Sequence[_Block]) -> tuple[list[tuple[int, int]], list[tuple[Ints, Ints]]]:
    """(block, ns) of the tasks behind all others, and what waits for what in the whole."""
    joins: list[tuple[int, int]] = []
    needs: list[tuple[Ints, Ints]] = []
    *begins, after = _begins(blocks)
    for number, (block, begin) in enumerate(zip(blocks, begins, strict=True)):
        size = len(block.part.program)
        waiting, awaited = block.needs
        needs.append((waiting + begin, awaited + begin))
        if block.part.start:
            needs.append((block.roots + begin, np.full(len(block.roots), after + len(joins))))
            joins.append((number, block.part.start))
        for iteration in range(1, block.part.iterations):
            join, here = after + len(joins), begin + iteration * size
            needs.append((np.full(len(block.sinks), join), block.sinks + here - size))
            needs.append((block.roots + here, np.full(len(block.roots), join)))
            joins.append((number, 0))
    return joins, needs


def _program(
    blocks: Sequence[_Block],
    lanes: dict[str, int],
    joins: Sequence[tuple[int, int]],
    needs: Sequence[tuple[Ints, Ints]],
) -> Program:
    parts, count = [block.part for block in blocks], _begins(blocks)[-1] + len(joins)
    first = parts[0].program
    pause = np.array([ns for _, ns in joins], np.int64)
    owner = np.array([blocks[number].lane_of[0] for number, _ in joins], np.int64)
    blank = {
        "kind": np.full(len(joins), ALL_REDUCE),
        "duration": pause,
        "delay": pause,
        "microbatch": np.full(len(joins), -1),
        "limit": np.full(len(joins), np.inf),
        "lane": np.full(len(joins), -1),
        "source": owner,
        "target": owner,
    }
    columns: dict[str, Any] = {
        name: np.concatenate([*(block.column(name) for block in blocks), blank.get(name, np.zeros(len(joins)))]).astype(
            getattr(first, name).dtype
        )
        for name in (*_PER_TASK, "lane", "source", "target")
    }
    waiting, awaited = (np.concatenate(side) for side in zip(*needs, strict=True))
    return Program(
        sharing=first.sharing,
        transfers=first.transfers,
        devices=tuple(lanes),
        media=first.media,
        capacity=first.capacity,
        **columns,
        order=_orders(blocks, len(lanes)),
        needs=Ragged.of_pairs(count, waiting, awaited),
        route=_routes(blocks, len(joins)),
        static_memory=_by_lane(parts, lanes, "static_memory"),
        memory=_by_lane(parts, lanes, "memory", most=True),
        microbatches=sum(part.program.microbatches for part in parts),
        samples=sum(part.program.samples * part.iterations for part in parts),
        flops=_summed([_times(part.program.flops, part.iterations) for part in parts]),
        peak_flops=_summed([part.program.peak_flops for part in parts]),
        lane_speeds=_lane_speeds(parts, lanes),
        media_speeds=first.media_speeds,
        buckets=first.buckets,
    )


def _orders(blocks: Sequence[_Block], lanes: int) -> Ragged:
    """Lane -> its tasks, job after job, and of a job iteration after iteration."""
    lane, task = [], []
    for block, begin in zip(blocks, _begins(blocks)[:-1], strict=True):
        order, times = block.part.program.order, block.part.iterations
        offset = np.repeat(np.arange(times) * len(block.part.program), len(order.values))
        lane.append(np.tile(block.lane_of[order.row_of_value()], times))
        task.append(np.tile(order.values, times) + offset + begin)
    return Ragged.of_pairs(lanes, np.concatenate(lane), np.concatenate(task))


def _routes(blocks: Sequence[_Block], joins: int) -> Ragged:
    routes = [(block.part.program.route, block.part.iterations) for block in blocks]
    lengths = np.concatenate([*(np.tile(route.lengths, times) for route, times in routes), np.zeros(joins, np.int64)])
    return Ragged.of_lengths(lengths, np.concatenate([np.tile(route.values, times) for route, times in routes]))


def _by_lane(parts: Sequence[Part], lanes: dict[str, int], name: str, *, most: bool = False) -> Ints:
    """A column of lanes: what all jobs of a lane have together, or the most of them."""
    found = np.zeros(len(lanes), np.int64)
    for part in parts:
        at = [lanes[device] for device in part.program.devices]
        column = getattr(part.program, name)
        found[at] = np.maximum(found[at], column) if most else found[at] + column
    return found


def _lane_speeds(parts: Sequence[Part], lanes: dict[str, int]) -> dict[int, Speeds]:
    return {
        lanes[part.program.devices[lane]]: speeds for part in parts for lane, speeds in part.program.lane_speeds.items()
    }


def _times(value: float | None, iterations: int) -> float | None:
    return None if value is None else value * iterations


def _summed(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _with_shared_lanes(program: Program, of_job: Ints) -> Program:
    """The program with lanes in which jobs take turns: what is ready first runs first, of equals the smaller number."""
    needs = [row.tolist() for row in program.needs]
    for tasks in program.order:
        for before, task in pairwise(tasks.tolist()):
            if of_job[before] == of_job[task]:  # the tasks of a job stay in its order
                needs[task].append(before)
    lanes = len(program.devices)
    order = lane_order(program.lane.tolist(), program.duration.tolist(), None, needs, lanes)
    return replace(program, order=Ragged.of(order))
