"""Pipeline execution in cycle order (PE, of our reconstruction of SPP)."""

import numpy as np

from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule


@SchedulerInfo(replicas=("split",), look=0)
def pe(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """The order in which stages work when stages and channels are machines that take the smallest m + j first.

    Timed on the abstract pipeline; the order is then replayed like any other. Keeps as many microbatches in flight as
    become ready before the first backward comes back.
    """
    several = next((device for device, held in zip(plan.devices, plan.chunks, strict=True) if len(held) > 1), None)
    if several is not None:
        raise ScheduleError(f"device {several!r} holds several stages; pe orders one stage per device")
    if plan.replicas != "split" and max(plan.replication) > 1:
        raise ScheduleError("the plan gives whole microbatches to its replicas; pe orders plans that split them")
    order = execute(pipeline_of(plan, costs, cluster)).order
    rows = []
    for (n,) in plan.chunks:
        kind = np.where(order[n] % 2 == 0, FORWARD, BACKWARD)
        rows.append(np.stack([np.full_like(order[n], n), kind, order[n] // 2], axis=1))
    return Schedule.of_arrays(rows)
