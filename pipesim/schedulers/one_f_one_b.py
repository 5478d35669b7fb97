"""One forward, one backward (PipeDream-Flush, DAPPLE, Megatron)."""

import re

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import ScheduleError, shown
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule
from pipesim.schedulers.layouts import check_one_stage_per_device


@SchedulerInfo(completes=True, look=2, aliases=("1f1b", "Schedule1F1B", "pipedream_flush", "dapple"))
def one_f_one_b(
    plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None, *, warm_up: str | int = "A"
) -> Schedule:
    """Some forwards to fill the pipeline, then a forward and a backward in turn, then the remaining backwards.

        stage 0    F0 F1 F2 F3 B0 F4 B1 F5 B2    B3    B4    B5       4 stages, 6 microbatches
        stage 3             F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5

    Stage n of p keeps at most p - n microbatches in flight. `warm_up` sets how many forwards a stage does before its
    first backward: "A" is p - n (DAPPLE's policy A), "B" is 2 (p - n) - 1 (its policy B), "3A" is three times A in all
    stages but the last, for transfers that take as long as stages, and a number is an upper limit on "A".
    """
    del costs, cluster  # the order does not depend on costs
    check_one_stage_per_device(plan, "one_f_one_b")
    depths = [_limited(depth, warm_up) for depth in warm_up_depths(plan)]
    rows = []
    for device, (n,) in zip(plan.devices, plan.chunks, strict=True):
        passing = np.array(plan.microbatches_of(n, plan.stages[n].devices.index(device)), np.int64)
        rows.append(_row(n, passing, min(depths[n], len(passing))))
    return Schedule.of_arrays(rows)


def _limited(depth: int, warm_up: str | int) -> int:
    if warm_up == "B":
        return 2 * depth - 1
    times = re.fullmatch(r"([1-9][0-9]{0,5})?A", warm_up) if isinstance(warm_up, str) else None
    if times:
        return depth if depth == 1 else depth * int(times[1] or 1)
    if not isinstance(warm_up, int) or isinstance(warm_up, bool) or warm_up < 1:
        raise ScheduleError(
            f"warm_up = {shown(warm_up)} found; A, B, a multiple such as 3A, or a number of microbatches, at least 1, "
            "was expected"
        )
    return min(depth, warm_up)


def warm_up_depths(plan: Plan) -> list[int]:
    """How many forwards each replica of a stage does before its first backward.

    One at the last stage; at others, its share of those of all replicas of the next stage, and one more.
    """
    if plan.replicas == "split":
        return list(range(len(plan.stages), 0, -1))
    depths = [1]
    for k, following in zip(plan.replication[-2::-1], plan.replication[:0:-1], strict=True):
        depths.insert(0, 1 + -(-depths[0] * following // k))
    return depths


def _row(stage: int, microbatches: Ints, depth: int) -> Ints:
    """F x (depth - 1), then F B F B ..., then the last B x (depth - 1)."""
    count = len(microbatches)
    forwards = np.arange(count)
    when_forward = np.where(forwards < depth, forwards, 2 * forwards - depth + 1)
    when_backward = np.where(forwards <= count - depth, 2 * forwards + depth, forwards + count)
    row = np.full((2 * count, 3), stage, np.int64)
    row[when_forward, 1], row[when_forward, 2] = FORWARD, microbatches
    row[when_backward, 1], row[when_backward, 2] = BACKWARD, microbatches
    return row
