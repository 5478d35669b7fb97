"""Zero bubble on a V of chunks, with 1F1B's memory (ZB-V)."""

from collections.abc import Iterator

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.abstract_time import makespan
from pipesim.schedulers.greedy import greedy_order, rules
from pipesim.schedulers.layouts import check_two_chunks, groups_of
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.schedulers.steps import RankStep, row


@SchedulerInfo(
    layout="wave",
    chunks=2,
    replicas=("split",),
    splits_backward=True,
    look=12,
    aliases=("zbv_zero_bubble", "ScheduleZBVZeroBubble", "v_zb", "zbvpp"),
)
def zb_v(plan: Plan, costs: Costs, cluster: Cluster) -> Schedule:
    """Two chunks per device, down and up again; backwards in two parts. At most 2p chunks in flight, as 1F1B keeps.

    No bubble between a device's first and last action where F, I and W of all chunks take the same time. Fewer than
    2p - 1 microbatches do not fill the pipeline: then the order is this one without the missing microbatches, or
    backwards as soon as possible, whichever takes less time. The plan's layers are cut again, into two stages per
    device. After "Zero Bubble Pipeline Parallelism" (Qi et al., 2023).
    """
    check_two_chunks(plan, "zb_v")
    lanes = groups_of(plan)
    rows = {d: _row(n, len(lanes), plan.microbatches) for n, devices in enumerate(lanes) for d in devices}
    stepped = Schedule.of_arrays([rows[device] for device in plan.devices])
    if plan.microbatches >= 2 * len(lanes) - 1:
        return stepped
    pipeline = abstract_pipeline(plan, costs, cluster)
    forward, backward = PRIORITIES["backward"](pipeline)
    most = np.full(len(lanes), 2.0 * len(lanes))
    how = rules(pipeline, forward_key=forward, backward_key=backward, limit=most, split=True, strict=False)
    made = greedy_order(pipeline, how)
    if made.rows is None or made.makespan >= makespan(pipeline, stepped):
        return stepped
    return pipeline.schedule(made.rows)


def _row(lane: int, lanes: int, microbatches: int) -> Ints:
    """The actions of a lane; of a pipeline that is not filled, without those of missing microbatches."""
    made = row(_steps(lane, lanes, max(microbatches, 2 * lanes - 1)), (lane, 2 * lanes - 1 - lane), lambda _, n: n)
    return made[made[:, 2] < microbatches]


def _steps(lane: int, lanes: int, microbatches: int) -> Iterator[RankStep]:
    """Fill; a round per microbatch; then input gradients of the first chunk, while its weights' gradients wait."""
    left = lanes - lane
    begun = 2 * left - 1 + lane  # forwards of chunk 0 before the rounds; of chunk 1 there are `lanes`
    yield RankStep(2 * left - 1, "F0")
    yield RankStep(lane, "F1 F0")
    yield RankStep(left, "F1 I1 W1")
    yield RankStep(microbatches - begun, "F0 I0 W0 F1 I1 W1")
    yield RankStep(begun - lanes, "I0 W0 F1 I1 W1")
    yield RankStep(lane, "I0 I1")
    yield RankStep(left, "I0 W0")
    yield RankStep(lane, "W1")
    yield RankStep(lane, "W0")
