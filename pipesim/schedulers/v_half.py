"""A V of chunks with about half of 1F1B's memory (V-Half)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.blocks import Block
from pipesim.schedulers.layouts import groups_of
from pipesim.schedulers.v_shape import v_schedule

EVEN = Block(slopes=(1, 2, 1, 1), gaps=(2, 2, 0))
FEW = Block(slopes=(1, 3, 1, 1), gaps=(3, 0, 0))  # three or five lanes: a unit shorter than the next
ODD = Block(slopes=(1, 2, 1, 2), gaps=(0, 0, 1))


def block_of(lanes: int) -> Block:
    """The block for this number of lanes."""
    if lanes % 2 == 0:
        return EVEN
    return FEW if lanes <= 5 else ODD


@SchedulerInfo(layout="wave", chunks=2, replicas=("split",), splits_backward=True, look=13)
def v_half(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Two chunks per device, down and up again; backwards in two parts. At most p + 2 chunks in flight (1F1B keeps 2p).

    Where F, I and W of all chunks take one unit each and messages no time, each further microbatch takes six units.

    The plan's layers are cut again, into two stages per device. After "Pipeline Parallelism with Controllable Memory"
    (Qi et al., 2024); the blocks are our own.
    """
    lanes = len(groups_of(plan))
    return v_schedule(plan, costs, cluster, block_of(lanes), lanes + 2, "v_half")
