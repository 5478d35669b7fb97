"""Waves: down the devices and up again, several times (Hanayo)."""

from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.board import board_of
from pipesim.schedulers.filling import Filled, fill, rules
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.schedulers.shapes import check_shape


@SchedulerInfo(layout="wave", chunks=2, chunks_option="waves", replicas=("split",), look=8)
def hanayo(plan: Plan, costs: Costs, cluster: Cluster, *, waves: int = 1) -> Schedule:
    """1F1B over chunks that lie on the devices in `waves` waves, each down and up again; backwards stay whole.

    No message is needed where a wave turns. At most 2p - 1 microbatches are under way at once. Of cycle order and
    backwards first, the shorter is taken. The plan's layers are cut anew into 2 x `waves` stages per device. After
    "Hanayo" (Liu and others, 2023); the order is our own rule for it.
    """
    del waves  # the plan says how many there are
    check_shape(plan, "wave", "hanayo")
    if plan.replicas == "whole" and max(plan.replication) > 1:
        raise ScheduleError("the plan gives whole microbatches to its replicas; hanayo orders plans that split them")
    board = board_of(plan, costs, cluster)
    tried: list[Filled] = []
    for name in ("cycle", "backward"):
        forward, backward = PRIORITIES[name](board)
        how = rules(board, forward_key=forward, backward_key=backward, window=2 * board.lanes - 1, strict=False)
        tried.append(fill(board, how))
    _, best = min((filled.makespan, n) for n, filled in enumerate(tried) if filled.rows is not None)
    return board.schedule(tried[best].rows or [])
