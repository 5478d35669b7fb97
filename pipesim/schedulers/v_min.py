"""A V of chunks with the least memory (V-Min)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.blocks import Block
from pipesim.schedulers.layouts import groups_of
from pipesim.schedulers.v_shape import v_schedule

PLAIN = Block(slopes=(1, 1, 1, 1), gaps=(0, 0, 0))
THIRD = Block(slopes=(1, 1, 1, 1), gaps=(0, 2, 0))  # for p = 6, 9, ...: otherwise two actions would coincide
TWO = Block(slopes=(1, 1, 1, 1), gaps=(4, 0, 0))
FEW = Block(slopes=(1, 2, 1, 2), gaps=(0, 0, 1))  # three or five lanes

# Numbers of lanes for which no block keeps p chunks: one more is in flight.
ONE_MORE = (2, 3, 5)


def limit_of(lanes: int) -> int:
    """The most chunks in flight; a single lane holds both chunks, and has two."""
    return max(lanes + (lanes in ONE_MORE), 2)


def block_of(lanes: int) -> Block:
    """The block for this number of lanes."""
    if lanes in ONE_MORE:
        return TWO if lanes == 2 else FEW
    return PLAIN if lanes % 3 else THIRD


@SchedulerInfo(layout="wave", chunks=2, replicas=("split",), splits_backward=True, look=14)
def v_min(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Two chunks per device, down and up again; backwards in two parts. At most p chunks in flight (1F1B keeps 2p).

    On two, three and five devices it is one chunk more, since no block of six units keeps p; on one it is two. Where F,
    I and W of all chunks take one unit each and messages no time, each further microbatch takes six units.

    The plan's layers are cut again, into two stages per device. After "Pipeline Parallelism with Controllable Memory"
    (Qi et al., 2024).
    """
    lanes = len(groups_of(plan))
    return v_schedule(plan, costs, cluster, block_of(lanes), limit_of(lanes), "v_min")
