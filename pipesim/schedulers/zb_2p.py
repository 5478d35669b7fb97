"""Zero-bubble schedules found by search, with the memory of 2p microbatches (ZB-2p)."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import RELEASED_BY_INPUT, Schedule
from pipesim.schedulers.zero_bubble import schedule_of, search, straight_board


@SchedulerInfo(replicas=("split",), splits_backward=True, is_search=True, look=10)
def zb_2p(plan: Plan, costs: Costs, cluster: Cluster, *, limit: float | None = None, seed: int = 0) -> Schedule:
    """The shortest longest stage that a search finds with the memory of `limit` microbatches, by default two per stage.

    With so much, stages work without a pause where messages are fast: zero bubble from the first to the last action of
    each. What a microbatch keeps is released half by the gradient of its input and half by that of the weights. Driven
    by the costs of all stages and the time of messages between them. After "Zero Bubble Pipeline Parallelism" (Qi and
    others, 2023), with a search of our own.
    """
    board = straight_board(plan, costs, cluster, "zb_2p")
    how = search(board, 2 * board.lanes if limit is None else limit, RELEASED_BY_INPUT, seed)
    return schedule_of(board, how, "zb_2p")
