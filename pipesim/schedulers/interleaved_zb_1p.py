"""Interleaved 1F1B with backwards in two parts, as PyTorch's InterleavedZeroBubble orders it."""

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import FORWARD, INPUT, WEIGHT, Schedule
from pipesim.schedulers.interleaved import chunk_order
from pipesim.schedulers.layouts import check_layout, check_split_replicas, groups_of


@SchedulerInfo(
    layout="loop",
    chunks_option="chunks",
    replicas=("split",),
    splits_backward=True,
    look=20,
    aliases=("interleaved_zero_bubble", "ScheduleInterleavedZeroBubble", "torch_interleaved_zb"),
    option_aliases={"vpp": "chunks", "virtual_stages": "chunks"},
)
def interleaved_zb_1p(
    plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None, *, chunks: int = 2
) -> Schedule:
    """As `interleaved` with half the warm-up; each gradient of weights r gradients of inputs late on rank r.

        rank 1 of 2, 2 chunks    1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 ...

    This is the order of PyTorch's InterleavedZeroBubble, the ZB1P of "Zero Bubble Pipeline Parallelism" (Qi et al.,
    2023) over chunks. Microbatches are divided into as many rounds as fill the ranks: M // p rounds, of which M must be
    a multiple. The plan's layers are cut again, into `chunks` stages per device, stage n on device n mod p.
    """
    del costs, cluster, chunks  # the order does not depend on costs; the plan has that many chunks
    count = check_layout(plan, "loop", "interleaved_zb_1p")
    check_split_replicas(plan, "interleaved_zb_1p")
    lanes, microbatches = groups_of(plan), plan.microbatches
    rounds = max(1, microbatches // len(lanes))
    if microbatches % rounds:
        raise ScheduleError(
            f"{microbatches} microbatches found; interleaved_zb_1p orders a multiple of {rounds}, one part for each "
            f"round of {len(lanes)} devices"
        )
    forward = chunk_order(count, microbatches, microbatches // rounds)
    rank_of = {device: n for n, devices in enumerate(lanes) for device in devices}
    rows = [_row(lane, len(lanes), count, forward, microbatches // rounds) for lane in range(len(lanes))]
    return Schedule.of_arrays([rows[rank_of[device]] for device in plan.devices])


def _row(lane: int, lanes: int, chunks: int, forward: Ints, group: int) -> Ints:
    """F x warm-up; then each I after the next F, as long as there are any, and before the W that is `lane` behind."""
    total = len(forward)
    warm = min(lanes - lane - 1 + (chunks - 1) * group, total)
    ahead, back = forward * [lanes, 1] + [lane, 0], forward * [-lanes, 1] + [lane + (chunks - 1) * lanes, 0]
    turn = np.arange(total)
    # Sorted by the turn of the I that they stand beside, and there F, I, W.
    beside = ((FORWARD, ahead, turn - warm), (INPUT, back, turn), (WEIGHT, back, turn + lane))
    kind = np.repeat([kind for kind, _, _ in beside], total)
    order = np.lexsort((kind, np.concatenate([at for _, _, at in beside])))
    cells = np.concatenate([cells for _, cells, _ in beside])
    return np.stack([cells[:, 0], kind, cells[:, 1]], axis=1)[order]
