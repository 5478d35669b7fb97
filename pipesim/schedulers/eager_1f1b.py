"""1F1B with a longer warm-up, so that transfers hide behind computation (eager-1F1B)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.one_f_one_b import one_f_one_b


@SchedulerInfo(completes=True, look=3, aliases=("1f1b_overlap_friendly",))
def eager_1f1b(plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None) -> Schedule:
    """1F1B with DAPPLE's policy B: stage n of p does 2 (p - n) - 1 forwards before its first backward.

    Each transfer has the time of one more forward and backward to arrive; up to twice the microbatches are in flight.
    """
    return one_f_one_b(plan, costs, cluster, warm_up="B")
