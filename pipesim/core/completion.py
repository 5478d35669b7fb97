"""Deadlock check: execute a schedule without times, and see whether every rank reaches the end of its row."""

import numpy as np

from pipesim.base.arrays import Bools, Ints
from pipesim.base.kernels import suited
from pipesim.core.plan import Plan
from pipesim.core.schedule import FORWARD, WEIGHT, Schedule

MANY = 100_000  # actions above which the kernel is compiled


def completes(schedule: Schedule, plan: Plan, cell: Ints) -> bool:
    """Whether every rank reaches the end of its row; `cell` numbers each action's rank, stage and microbatch.

    Each action must be in the schedule exactly once.
    """
    copies = np.array([len(stage.devices) if plan.replicas == "split" else 1 for stage in plan.stages], np.int64)
    kernel = suited(all_ranks_finish, large=len(cell) >= MANY)
    columns = schedule.stage, schedule.kind, schedule.microbatch, schedule.paired
    return bool(kernel(*columns, schedule.starts, cell, copies, plan.microbatches))


def all_ranks_finish(  # noqa: C901, PLR0917 - one kernel without calls, run by numba and by Python
    stage: Ints, kind: Ints, microbatch: Ints, paired: Bools, starts: Ints, cell: Ints, copies: Ints, microbatches: int
) -> bool:
    """Execute ranks until none can continue. An action waits until all replicas have done an operation.

    operation             2 x (stage, microbatch), + 1 for its backward (B or I)
    done[operation]       number of replicas that have done it
    waiting[operation]    the first rank that waits for it; after[rank] is the next one
    own[cell]             done by the rank itself: 0 nothing, 1 the forward, 2 the backward
    """
    stages, ranks = len(copies), len(starts) - 1
    done, waiting = np.zeros(2 * stages * microbatches, np.int32), np.full(2 * stages * microbatches, -1, np.int32)
    after, own = np.full(ranks, -1, np.int32), np.zeros(cell.max() + 1 if len(cell) else 0, np.int8)
    position = starts[:-1].copy()
    ready = np.arange(ranks)
    ready_count, finished = ranks, 0
    while ready_count > 0:
        ready_count -= 1
        rank = ready[ready_count]
        blocked = False
        while position[rank] < starts[rank + 1] and not blocked:
            first = position[rank]
            last = first + 1 if paired[first] else first
            for at in range(first, last + 1):
                if kind[at] != FORWARD and own[cell[at]] < (2 if kind[at] == WEIGHT else 1):
                    return False  # only the rank itself can do that, and does so later or never
                other = stage[at] - 1 if kind[at] == FORWARD else stage[at] + 1
                if kind[at] == WEIGHT or other < 0 or other >= stages:
                    continue
                operation = 2 * (other * microbatches + microbatch[at]) + (0 if kind[at] == FORWARD else 1)
                if done[operation] < copies[other]:
                    after[rank], waiting[operation] = waiting[operation], rank
                    blocked = True
                    break
            if blocked:
                continue
            position[rank] = last + 1
            for at in range(first, last + 1):
                if kind[at] == WEIGHT:
                    continue
                own[cell[at]] = 1 if kind[at] == FORWARD else 2
                operation = 2 * (stage[at] * microbatches + microbatch[at]) + (0 if kind[at] == FORWARD else 1)
                done[operation] += 1
                if done[operation] == copies[stage[at]]:
                    while waiting[operation] >= 0:
                        woken = waiting[operation]
                        waiting[operation] = after[woken]
                        ready[ready_count] = woken
                        ready_count += 1
        if not blocked:
            finished += 1
    return finished == ranks
