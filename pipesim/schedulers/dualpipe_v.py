"""A V of chunks, forwards and backwards as one (DualPipe-V)."""

from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.shapes import check_shape, groups_of
from pipesim.schedulers.steps import row, steps


@SchedulerInfo(layout="wave", chunks=2, replicas=("split",), splits_backward=True, fewest=2, look=17)
def dualpipe_v(plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None) -> Schedule:
    """DualPipe cut in half: two chunks per device, down and up again, each forward one with a backward of the other.

    At most 2p + 1 chunks in flight; parameters are held once. At least 2p microbatches. The plan's layers are cut anew
    into two stages per device. What a forward and a backward take as one is an option of the simulation. After
    DeepSeek's DualPipe (2024) and the half of it described by Sea AI Lab (2025).
    """
    del costs, cluster  # the order is the same whatever things cost
    if check_shape(plan, "wave", "dualpipe_v") != 2:
        raise ScheduleError("dualpipe_v orders plans with two stages on each device, down and up again")
    if plan.replicas == "whole" and max(plan.replication) > 1:
        raise ScheduleError(
            "the plan gives whole microbatches to its replicas; dualpipe_v orders plans that split them"
        )
    lanes, m = groups_of(plan), plan.microbatches
    p = len(lanes)
    if m < 2 * p:
        raise ScheduleError(f"{m} microbatches found; dualpipe_v orders at least {2 * p} on {p} devices")
    rows = {
        device: row(
            steps(p - n - 1, n + 1, m - 2 * p + n + 1, apart=n == p - 1), (n, 2 * p - 1 - n), lambda _, count: count
        )
        for n, devices in enumerate(lanes)
        for device in devices
    }
    return Schedule.of_arrays([rows[device] for device in plan.devices])
