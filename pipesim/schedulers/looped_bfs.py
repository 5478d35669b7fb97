"""Chunk after chunk, each for all microbatches (breadth first; looped GPipe)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.layouts import check_layout


@SchedulerInfo(
    layout="loop",
    chunks_option="chunks",
    look=7,
    aliases=("ScheduleLoopedBFS", "breadth_first"),
    option_aliases={"vpp": "chunks", "virtual_stages": "chunks"},
)
def looped_bfs(
    plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None, *, chunks: int = 2
) -> Schedule:  # fmt: skip
    """All forwards of a device's first chunk, then of its second, ...; then all backwards, last chunk first.

    Fills and drains in 1/chunks of GPipe's time and keeps all microbatches in flight, as GPipe does. The plan's layers
    are cut again, into `chunks` stages per device, stage n on device n mod p.
    """
    del costs, cluster, chunks  # the order does not depend on costs; the plan has that many chunks
    check_layout(plan, "loop", "looped_bfs")
    return gpipe(plan)
