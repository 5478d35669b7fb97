"""What the schedules on a V share: two chunks per device, a repeated block, a limit on what is in flight."""

import numpy as np

from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.blocks import Block, keys
from pipesim.schedulers.board import board_of
from pipesim.schedulers.filling import rules
from pipesim.schedulers.shapes import check_shape
from pipesim.schedulers.zero_bubble import schedule_of


def v_schedule(  # noqa: PLR0917 - a problem has its parts
    plan: Plan, costs: Costs, cluster: Cluster, block: Block, limit: int, scheduler: str
) -> Schedule:
    """Forwards in the order of the block, each lane with `limit` chunks in flight at most; backwards as they come.

    A chunk is in flight until its W has ended. Whatever things cost, this comes to its end if the limit is no less than
    `blocks.in_flight`: a forward that the limit holds up waits for an I that comes before it in the block, and nothing
    holds up backwards. How fast it is depends on the limit too.
    """
    if check_shape(plan, "wave", scheduler) != 2:
        raise ScheduleError(f"{scheduler} orders plans with two stages on each device, down and up again")
    if plan.replicas == "whole" and max(plan.replication) > 1:
        raise ScheduleError(
            f"the plan gives whole microbatches to its replicas; {scheduler} orders plans that split them"
        )
    board = board_of(plan, costs, cluster)
    forward, backward = keys(block, board)
    most = np.full(board.lanes, float(limit))
    how = rules(board, forward_key=forward, backward_key=backward, limit=most, split=True)
    return schedule_of(board, how, scheduler)
