"""Two copies of the model in opposite directions (Chimera)."""

import numpy as np

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.board import board_of
from pipesim.schedulers.filling import fill, rules
from pipesim.schedulers.priorities import cycle
from pipesim.schedulers.shapes import check_shape


@SchedulerInfo(layout="both", replicas=(), look=15)
def chimera(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Every second microbatch goes down the devices and every other one up, so that both ends have work at once.

    The order is cycle order with p stages of microbatches in flight per device at most; where
    costs differ so much that this leaves no way to go on, with as few more as do. Each device holds the
    parameters of two stages, whose gradients are added up between the two copies at the end. An even number of stages,
    one device each; their cuts stay. After "Chimera" (Li and Hoefler, 2021); the order is our own rule for it.
    """
    check_shape(plan, "both", "chimera")
    board = board_of(plan, costs, cluster)
    forward, backward = cycle(board)
    tried = (
        fill(
            board, rules(board, forward_key=forward, backward_key=backward, hold=np.full(board.lanes, n), strict=False)
        )
        for n in range(board.lanes, max(board.lanes, 2 * board.microbatches) + 1)  # the last holds up nothing
    )
    return board.schedule(next(filled.rows for filled in tried if filled.rows is not None))
