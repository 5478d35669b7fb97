"""A schedule from a priority rule: list scheduling."""

import numpy as np

from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, ScheduleError, shown
from pipesim.base.lookup import suggest
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.greedy import greedy_order, rules
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
    """A device that is free starts the ready action that is first by a priority.

    `priority` is "cycle", "backward" (backwards first), "microbatch" (the smallest first) or "depth" (the most advanced
    first). With `split`, gradients of weights fill idle time. With `limit`, no device has more stages of microbatches
    in flight; forwards are then taken strictly in the order of their priority, and a limit that causes a deadlock is an
    error. For any plan, with chunks and whole replicas too.
    """
    if priority not in PRIORITIES:
        raise InputError(f"priority {shown(priority)} found; {suggest(priority, list(PRIORITIES))}")
    if limit is not None:
        check_at_least("limit", limit)
    pipeline = abstract_pipeline(plan, costs, cluster)
    forward, backward = PRIORITIES[priority](pipeline)
    most = np.full(pipeline.lanes, np.inf if limit is None else float(limit))
    how = rules(
        pipeline, forward_key=forward, backward_key=backward, limit=most, split=split, strict=limit is not None
    )  # fmt: skip
    rows = greedy_order(pipeline, how).rows
    if rows is None:
        raise ScheduleError(f"with limit = {limit} and priority {priority!r} no device can go on; use a larger limit")
    return pipeline.schedule(rows)
