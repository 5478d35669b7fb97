"""A V of chunks with the least memory (V-Min)."""

from pipesim.cluster import Cluster
from pipesim.costs import Costs
from pipesim.plan import Plan
from pipesim.schedule import Schedule
from pipesim.schedulers.blocks import Block
from pipesim.schedulers.shapes import groups_of
from pipesim.schedulers.v_shape import v_schedule

PLAIN = Block(slopes=(1, 1, 1, 1), gaps=(0, 0, 0))
THIRD = Block(slopes=(1, 1, 1, 1), gaps=(0, 2, 0))  # for p = 3, 6, ...: otherwise two actions would fall together


def v_min(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Two chunks per device, down and up again; backwards in two parts. At most p chunks in flight (1F1B keeps 2p).

    The plan's layers are cut anew into two stages per device. After "Pipeline Parallelism with Controllable Memory" (Qi
    and others, 2024).
    """
    lanes = len(groups_of(plan))
    return v_schedule(plan, costs, cluster, PLAIN if lanes % 3 else THIRD, max(lanes, 2), "v_min")
