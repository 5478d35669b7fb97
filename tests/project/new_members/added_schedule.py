"""All forwards, then all backwards, of the last microbatch first."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule, parse
from pipesim.schedulers.layouts import check_one_stage_per_device, check_split_replicas


@SchedulerInfo(replicas=("split",))
def added_schedule(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """All forwards, then all backwards in reverse order. Keeps all microbatches in flight."""
    del costs, cluster  # the order does not depend on costs
    check_one_stage_per_device(plan, "added_schedule")
    check_split_replicas(plan, "added_schedule")
    order = range(plan.microbatches)
    rows = [[f"{n}F{m}" for m in order] + [f"{n}B{m}" for m in reversed(order)] for (n,) in plan.chunks]
    return parse("\n".join(",".join(row) for row in rows))
