"""Two copies of the model in opposite directions (Chimera)."""

import numpy as np

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.greedy import greedy_order, rules
from pipesim.schedulers.layouts import check_layout
from pipesim.schedulers.priorities import cycle


@SchedulerInfo(layout="both", replicas=(), look=15)
def chimera(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Even microbatches go down the devices and odd ones up, so that both ends have work from the start.

    The order is cycle order with at most p forwards in flight per device; where costs differ so much that this ends in
    a deadlock, with the least limit that does not. Each device holds the parameters of two stages, whose gradients are
    added between the two copies at the end. For an even number of stages with one device each; their cuts are kept.
    After "Chimera" (Li and Hoefler, 2021); the order is our own rule for it.
    """
    check_layout(plan, "both", "chimera")
    pipeline = abstract_pipeline(plan, costs, cluster)
    lanes, (forward, backward) = pipeline.lanes, cycle(pipeline)
    tried = (
        greedy_order(
            pipeline,
            rules(pipeline, forward_key=forward, backward_key=backward, hold=np.full(lanes, n), strict=False),
        )
        for n in range(lanes, max(lanes, 2 * pipeline.microbatches) + 1)  # the last is no limit
    )
    return pipeline.schedule(next(made.rows for made in tried if made.rows is not None))
