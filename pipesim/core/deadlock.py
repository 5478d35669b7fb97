"""Whether an order comes to its end, run without clock or costs: whoever can go on, goes on."""

import numpy as np

from pipesim.base.arrays import Bools, Ints
from pipesim.base.kernels import suited
from pipesim.core.plan import Plan
from pipesim.core.schedule import FORWARD, WEIGHT, Schedule

MANY = 100_000  # actions; from here on the compiled kernel pays


def is_kept(schedule: Schedule, plan: Plan, cell: Ints) -> bool:
    """Whether every rank comes to the end of its row; `cell` numbers each action's rank, stage and microbatch.

    The schedule does each action once, as has been checked.
    """
    copies = np.array([len(stage.devices) if plan.replicas == "split" else 1 for stage in plan.stages], np.int64)
    kernel = suited(runs, large=len(cell) >= MANY)
    columns = schedule.stage, schedule.kind, schedule.microbatch, schedule.paired
    return bool(kernel(*columns, schedule.starts, cell, copies, plan.microbatches))


def runs(  # noqa: C901, PLR0917 - one kernel, without calls: numba and Python run the same lines
    stage: Ints, kind: Ints, microbatch: Ints, paired: Bools, starts: Ints, cell: Ints, copies: Ints, microbatches: int
) -> bool:
    """What an action waits for is a count: how many replicas have done an action of that stage and microbatch.

    deed             2 x (stage, microbatch), + 1 for its backward (B or I)
    waiting[deed]    the first rank that waits for it; after[rank] the next one
    own[cell]        0 nothing, 1 the forward, 2 the backward done by the rank itself
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
        stuck = False
        while position[rank] < starts[rank + 1] and not stuck:
            first = position[rank]
            last = first + 1 if paired[first] else first
            for at in range(first, last + 1):
                if kind[at] != FORWARD and own[cell[at]] < (2 if kind[at] == WEIGHT else 1):
                    return False  # only the rank itself could do that, and it comes later
                other = stage[at] - 1 if kind[at] == FORWARD else stage[at] + 1
                if kind[at] == WEIGHT or other < 0 or other >= stages:
                    continue
                deed = 2 * (other * microbatches + microbatch[at]) + (0 if kind[at] == FORWARD else 1)
                if done[deed] < copies[other]:
                    after[rank], waiting[deed] = waiting[deed], rank
                    stuck = True
                    break
            if stuck:
                continue
            position[rank] = last + 1
            for at in range(first, last + 1):
                if kind[at] == WEIGHT:
                    continue
                own[cell[at]] = 1 if kind[at] == FORWARD else 2
                deed = 2 * (stage[at] * microbatches + microbatch[at]) + (0 if kind[at] == FORWARD else 1)
                done[deed] += 1
                if done[deed] == copies[stage[at]]:
                    while waiting[deed] >= 0:
                        woken = waiting[deed]
                        waiting[deed] = after[woken]
                        ready[ready_count] = woken
                        ready_count += 1
        if not stuck:
            finished += 1
    return finished == ranks
