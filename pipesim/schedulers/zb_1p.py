"""Zero-bubble schedules found by search, with the memory of 1p microbatches (ZB-1p)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.zero_bubble import schedule_of, search, straight_pipeline


@SchedulerInfo(replicas=("split",), splits_backward=True, is_search=True, look=9)
def zb_1p(plan: Plan, costs: Costs, cluster: Cluster, *, limit: float | None = None, seed: int = 0) -> Schedule:
    """A search for the least longest stage with `limit` microbatches in flight, by default as many as stages.

    A microbatch counts as in flight until its weights' gradients have ended, an upper bound of the memory it keeps. The
    search uses the costs of all stages and the time of messages between them. After "Zero Bubble Pipeline Parallelism"
    (Qi et al., 2023), with a search of our own.
    """
    pipeline = straight_pipeline(plan, costs, cluster, "zb_1p")
    how = search(pipeline, pipeline.lanes if limit is None else limit, 0.0, seed)
    return schedule_of(pipeline, how, "zb_1p")
