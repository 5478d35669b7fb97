"""Two copies of the model in opposite directions, forwards paired with backwards (DualPipe)."""

from pipesim.base.arrays import Ints
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.layouts import check_layout
from pipesim.schedulers.steps import row, steps


@SchedulerInfo(layout="both", replicas=(), splits_backward=True, fewest=2, look=16, aliases=("ScheduleDualPipe",))
def dualpipe(plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None) -> Schedule:
    """Half of the microbatches go each way; in the steady state every forward is paired with a backward the other way.

    Each device holds the parameters of two stages, whose gradients are added between the two copies at the end. For an
    even number of stages p with one device each, and an even number of microbatches, at least 2p. How long a paired
    forward and backward take is an option of the simulation (`--pair-factor`). After DeepSeek's DualPipe (2024).
    """
    del costs, cluster  # the order does not depend on costs
    check_layout(plan, "both", "dualpipe")
    p, m = len(plan.stages), plan.microbatches
    if m % 2 or m < 2 * p:
        raise ScheduleError(f"{m} microbatches found; dualpipe orders an even number, at least {2 * p} on {p} devices")
    return Schedule.of_arrays([_row(p, m, rank) for rank in range(p)])


def _row(p: int, m: int, place: int) -> Ints:
    far = place >= p // 2  # beyond the middle the two directions change places
    half = min(place, p - 1 - place)
    ahead = p // 2 - half - 1
    middle = half == p // 2 - 1
    plan = steps(ahead, half + 1, m // 2 - p + half + 1, apart=middle)
    stage = (p - 1 - place, place) if far else (place, p - 1 - place)
    return row(plan, stage, lambda way, n: 2 * n + (way ^ far))
