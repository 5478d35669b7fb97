"""Schedules from files and tables: on which ranks their stages are, and a plan of equal stages for them."""

import numpy as np

from pipesim.base.errors import ScheduleError
from pipesim.core.members import Layout
from pipesim.core.plan import Plan, Replicas, Stage
from pipesim.core.schedule import FORWARD, Schedule
from pipesim.schedulers.layouts import lane_order


def ranks_of_stages(schedule: Schedule) -> list[tuple[int, ...]]:
    """For each stage the ranks that do its forwards: of microbatch 0, 1, ..., each rank once."""
    stages = int(schedule.stage.max(initial=-1)) + 1
    found: list[dict[int, None]] = [{} for _ in range(stages)]
    forward = np.flatnonzero(schedule.kind == FORWARD)
    for at in forward[np.argsort(schedule.microbatch[forward], kind="stable")].tolist():
        found[int(schedule.stage[at])].setdefault(int(schedule.rank[at]))
    return [tuple(ranks) for ranks in found]


def layout_of(schedule: Schedule) -> tuple[Layout, int] | None:
    """The layout of a table's stages on its ranks, and its stages per rank; None for any other."""
    ranks, lanes = ranks_of_stages(schedule), len(schedule)
    chunks, rest = divmod(len(ranks), lanes) if lanes else (0, 1)
    if rest or not chunks:
        return None
    if all(len(held) == 1 for held in ranks):
        order = [held[0] for held in ranks]
        if chunks == 1 and order == lane_order("straight", lanes, 1):
            return "straight", 1
        layouts: tuple[Layout, ...] = ("loop", "wave")
        return next(((one, chunks) for one in layouts if chunks > 1 and order == lane_order(one, lanes, chunks)), None)
    mirrored = chunks == 1 and ranks == [(n, lanes - 1 - n) for n in range(lanes)]
    return ("both", 1) if mirrored else None


def plan_of_table(schedule: Schedule) -> tuple[Plan, Schedule]:
    """A plan of one layer per stage with the stages where the table has them, and the table in the plan's order.

    Row r is the device `rank{r}`.
    """
    ranks = ranks_of_stages(schedule)
    without = next((n for n, held in enumerate(ranks) if not held), None)
    idle = sorted(set(range(len(schedule))) - {rank for held in ranks for rank in held})
    if not ranks:
        raise ScheduleError("a table without actions found; forwards and backwards were expected (0F0,0B0)")
    if without is not None:
        raise ScheduleError(f"stage {without}: no forward found, and stage {len(ranks) - 1} is there")
    if idle:
        raise ScheduleError(f"rank {idle[0]}: no forward found; each rank was expected to have a stage")
    stages = tuple(Stage(n, n + 1, tuple(f"rank{rank}" for rank in held)) for n, held in enumerate(ranks))
    replicas: Replicas = "whole" if max(map(len, ranks)) > 1 else "split"
    microbatches = int(schedule.microbatch.max()) + 1
    plan = Plan("equal stages", len(stages), microbatches, stages, replicas, planner="equal stages")
    order = [int(device.removeprefix("rank")) for device in plan.devices]
    columns = np.stack([schedule.stage, schedule.kind, schedule.microbatch, schedule.paired.astype(np.int64)], axis=1)
    rows = np.split(columns, schedule.starts[1:-1])
    return plan, Schedule.of_arrays([rows[rank] for rank in order])
