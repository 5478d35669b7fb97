"""Zero-bubble schedules found by search, with the memory of 2p microbatches (ZB-2p)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import RELEASED_BY_INPUT, Schedule
from pipesim.schedulers.zero_bubble import schedule_of, search, straight_pipeline


@SchedulerInfo(replicas=("split",), splits_backward=True, is_search=True, look=10)
def zb_2p(plan: Plan, costs: Costs, cluster: Cluster, *, limit: float | None = None, seed: int = 0) -> Schedule:
    """A search for the least longest stage with the memory of `limit` microbatches, by default two per stage.

    With that memory stages work without a pause where messages are fast: no bubble between the first and the last
    action of each. Half of the memory of a microbatch is released by its input gradient and half by its weights'. The
    search uses the costs of all stages and the time of messages between them. After "Zero Bubble Pipeline Parallelism"
    (Qi et al., 2023), with a search of our own.
    """
    pipeline = straight_pipeline(plan, costs, cluster, "zb_2p")
    how = search(pipeline, 2 * pipeline.lanes if limit is None else limit, RELEASED_BY_INPUT, seed)
    return schedule_of(pipeline, how, "zb_2p")
