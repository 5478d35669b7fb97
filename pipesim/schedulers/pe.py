"""Pipeline execution in cycle order (PE, of our reconstruction of SPP)."""

import numpy as np

from pipesim.analysis.channels import execute, pipeline_of
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule
from pipesim.schedulers.layouts import check_one_stage_per_device, check_split_replicas


@SchedulerInfo(replicas=("split",), look=0)
def pe(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """The order that results when stages and channels are machines that take the smallest m + j first.

    Block j of microbatch m is its j-th stage or channel, forwards and back. The abstract pipeline is timed with its
    costs; the order is then replayed like any other. Keeps as many microbatches in flight as become ready before the
    first backward arrives.
    """
    check_one_stage_per_device(plan, "pe")
    check_split_replicas(plan, "pe")
    order = execute(pipeline_of(plan, costs, cluster)).order
    rows = []
    for (n,) in plan.chunks:
        kind = np.where(order[n] % 2 == 0, FORWARD, BACKWARD)
        rows.append(np.stack([np.full_like(order[n], n), kind, order[n] // 2], axis=1))
    return Schedule.of_arrays(rows)
