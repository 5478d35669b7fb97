"""Zero bubble on a V of chunks, with 1F1B's memory (ZB-V)."""

from collections.abc import Iterator

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.board import board_of
from pipesim.schedulers.filling import fill, rules
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.schedulers.shapes import check_shape, groups_of
from pipesim.schedulers.steps import Step, row
from pipesim.schedulers.timing import makespan


@SchedulerInfo(layout="wave", chunks=2, replicas=("split",), splits_backward=True, look=12)
def zb_v(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Two chunks per device, down and up again; backwards in two parts. At most 2p chunks in flight, as 1F1B keeps.

    No bubble between a device's first and last action where F, I and W of all chunks take the same. Fewer than 2p - 1
    microbatches do not fill the pipeline: then the order is this one without those that are not there, or backwards as
    they come, whichever takes less time. The plan's layers are cut anew into two stages per device. After "Zero Bubble
    Pipeline Parallelism" (Qi and others, 2023).
    """
    if check_shape(plan, "wave", "zb_v") != 2:
        raise ScheduleError("zb_v orders plans with two stages on each device, down and up again")
    if plan.replicas == "whole" and max(plan.replication) > 1:
        raise ScheduleError("the plan gives whole microbatches to its replicas; zb_v orders plans that split them")
    lanes = groups_of(plan)
    rows = {d: _row(n, len(lanes), plan.microbatches) for n, devices in enumerate(lanes) for d in devices}
    stepped = Schedule.of_arrays([rows[device] for device in plan.devices])
    if plan.microbatches >= 2 * len(lanes) - 1:
        return stepped
    board = board_of(plan, costs, cluster)
    forward, backward = PRIORITIES["backward"](board)
    most = np.full(len(lanes), 2.0 * len(lanes))
    filled = fill(board, rules(board, forward_key=forward, backward_key=backward, limit=most, split=True, strict=False))
    if filled.rows is None or filled.makespan >= makespan(board, stepped):
        return stepped
    return board.schedule(filled.rows)


def _row(lane: int, lanes: int, microbatches: int) -> Ints:
    """With fewer microbatches than fill the pipeline, those that are not there are left out."""
    made = row(_steps(lane, lanes, max(microbatches, 2 * lanes - 1)), (lane, 2 * lanes - 1 - lane), lambda _, n: n)
    return made[made[:, 2] < microbatches]


def _steps(lane: int, lanes: int, microbatches: int) -> Iterator[Step]:
    """Fill; a round per microbatch; then gradients of the first chunk while those of its weights wait."""
    left = lanes - lane
    begun = 2 * left - 1 + lane  # forwards of chunk 0 before the rounds; of chunk 1 there are then `lanes`
    yield Step(2 * left - 1, "F0")
    yield Step(lane, "F1 F0")
    yield Step(left, "F1 I1 W1")
    yield Step(microbatches - begun, "F0 I0 W0 F1 I1 W1")
    yield Step(begun - lanes, "I0 W0 F1 I1 W1")
    yield Step(lane, "I0 I1")
    yield Step(left, "I0 W0")
    yield Step(lane, "W1")
    yield Step(lane, "W0")
