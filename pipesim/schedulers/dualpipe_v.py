"""A V of chunks, forwards paired with backwards (DualPipe-V)."""

from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.layouts import check_two_chunks, groups_of
from pipesim.schedulers.steps import row, steps


@SchedulerInfo(
    layout="wave",
    chunks=2,
    replicas=("split",),
    splits_backward=True,
    fewest=2,
    look=17,
    aliases=("ScheduleDualPipeV", "cut_in_half"),
)
def dualpipe_v(plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None) -> Schedule:
    """Half of DualPipe: two chunks per device, down and up again, each forward paired with a backward of the other.

    At most 2p + 1 chunks in flight; parameters are held once. Needs at least 2p microbatches. The plan's layers are cut
    again, into two stages per device. How long a paired forward and backward take is an option of the simulation
    (`--pair-factor`). After DeepSeek's DualPipe (2024) and "Cut-in-half" of Sea AI Lab (2025).
    """
    del costs, cluster  # the order does not depend on costs
    check_two_chunks(plan, "dualpipe_v")
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
