"""Waves: down the devices and up again, several times (Hanayo)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.greedy import GreedyOrder, greedy_order, rules
from pipesim.schedulers.layouts import check_layout, check_split_replicas
from pipesim.schedulers.priorities import PRIORITIES


@SchedulerInfo(layout="wave", chunks=2, chunks_option="waves", replicas=("split",), look=8)
def hanayo(plan: Plan, costs: Costs, cluster: Cluster, *, waves: int = 1) -> Schedule:
    """1F1B over chunks on the devices in `waves` waves, each down and up again; backwards are whole.

    No message is needed where a wave turns. At most 2p - 1 microbatches are in the pipeline at once. Of cycle order and
    backwards first, the shorter is taken. The plan's layers are cut again, into 2 x `waves` stages per device. After
    "Hanayo" (Liu et al., 2023); the order is our own rule for it.
    """
    del waves  # the plan has that many
    check_layout(plan, "wave", "hanayo")
    check_split_replicas(plan, "hanayo")
    pipeline = abstract_pipeline(plan, costs, cluster)
    tried: list[GreedyOrder] = []
    for name in ("cycle", "backward"):
        forward, backward = PRIORITIES[name](pipeline)
        how = rules(pipeline, forward_key=forward, backward_key=backward, window=2 * pipeline.lanes - 1, strict=False)
        tried.append(greedy_order(pipeline, how))
    _, best = min((made.makespan, n) for n, made in enumerate(tried) if made.rows is not None)
    return pipeline.schedule(tried[best].rows or [])
