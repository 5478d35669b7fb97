"""A schedule from a priority: the generic maker."""

import numpy as np

from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, ScheduleError, shown
from pipesim.base.lookup import suggest
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.board import board_of
from pipesim.schedulers.filling import fill, rules
from pipesim.schedulers.priorities import PRIORITIES


@SchedulerInfo(look=5)
def list_schedule(
    plan: Plan,
    costs: Costs,
    cluster: Cluster,
    *,
    priority: str = "cycle",
    split: bool = False,
    limit: float | None = None,
) -> Schedule:
    """Whenever a device is free, of what it could do, what comes first by a priority.

    `priority` is "cycle", "backward" (backwards first), "microbatch" (the smallest first) or "depth" (what has come
    farthest first). With `split`, gradients of weights fill the time that is left. With `limit`, no device has more
    stages of microbatches in flight; forwards are then taken strictly in the order of their priority, and if the limit
    leaves no way to go on, that is said. For any plan, chunks and whole replicas included.
    """
    if priority not in PRIORITIES:
        raise InputError(f"priority {shown(priority)} found; {suggest(priority, list(PRIORITIES))}")
    if limit is not None:
        check_at_least("limit", limit)
    board = board_of(plan, costs, cluster)
    forward, backward = PRIORITIES[priority](board)
    most = np.full(board.lanes, np.inf if limit is None else float(limit))
    how = rules(
        board, forward_key=forward, backward_key=backward, limit=most, split=split, strict=limit is not None
    )  # fmt: skip
    rows = fill(board, how).rows
    if rows is None:
        raise ScheduleError(f"with limit = {limit} and priority {priority!r} there is no way to go on; allow more")
    return board.schedule(rows)
