"""Two copies of the model in opposite directions (Chimera)."""

import numpy as np

from pipesim.cluster import Cluster
from pipesim.costs import Costs
from pipesim.plan import Plan
from pipesim.schedule import Schedule
from pipesim.schedulers.board import board_of
from pipesim.schedulers.filling import fill, rules
from pipesim.schedulers.priorities import cycle
from pipesim.schedulers.shapes import check_shape


def chimera(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Every second microbatch goes down the devices and every other one up, so that both ends have work at once.

    The order is cycle order with p stages of microbatches in flight per device at most. Each device holds the
    parameters of two stages, whose gradients are added up between the two copies at the end. An even number of stages,
    one device each; their cuts stay. After "Chimera" (Li and Hoefler, 2021); the order is our own rule for it.
    """
    check_shape(plan, "both", "chimera")
    board = board_of(plan, costs, cluster)
    forward, backward = cycle(board)
    hold = np.full(board.lanes, board.lanes)
    how = rules(board, forward_key=forward, backward_key=backward, hold=hold, strict=False)
    return board.schedule(fill(board, how).rows or [])
