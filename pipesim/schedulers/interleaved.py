"""Several stages per device, in a loop (Megatron's interleaved 1F1B)."""

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.checks import check_at_least
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule
from pipesim.schedulers.layouts import check_layout, check_split_replicas, groups_of


@SchedulerInfo(
    layout="loop",
    chunks_option="chunks",
    replicas=("split",),
    look=6,
    aliases=("interleaved_1f1b", "ScheduleInterleaved1F1B", "1f1b_interleaved", "vpp", "virtual_pipeline"),
    option_aliases={"vpp": "chunks", "virtual_stages": "chunks"},
)
def interleaved(
    plan: Plan,
    costs: Costs | None = None,
    cluster: Cluster | None = None,
    *,
    chunks: int = 2,
    group: int | None = None,
) -> Schedule:
    """1F1B over chunks: groups of microbatches pass through chunk after chunk, then a forward and a backward in turn.

        rank 0 of 2, 2 chunks    0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3

    `group` microbatches (by default as many as there are lanes) pass a chunk before the next chunk's turn. If the
    microbatches are not a multiple of it, the groups are as even as possible and none is smaller. Rank r of p keeps at
    most 2 (p - r - 1) + (chunks - 1) group + 1 chunks in flight, of the largest group. The plan's layers are cut again,
    into `chunks` stages per device, stage n on device n mod p.
    """
    del costs, cluster, chunks  # the order does not depend on costs; the plan has that many chunks
    count = check_layout(plan, "loop", "interleaved")
    lanes = groups_of(plan)
    size = len(lanes) if group is None else group
    check_at_least("group", size, 1)
    check_split_replicas(plan, "interleaved")
    if count > 1 and size < len(lanes):
        raise ScheduleError(f"group = {size} found; at least {len(lanes)} was expected, one microbatch per device")
    forward = chunk_order(count, plan.microbatches, size)
    size = largest_group(plan.microbatches, size)
    rank_of = {device: n for n, devices in enumerate(lanes) for device in devices}
    by_lane = [_row(lane, len(lanes), count, forward, size) for lane in range(len(lanes))]
    return Schedule.of_arrays([by_lane[rank_of[device]] for device in plan.devices])


def largest_group(microbatches: int, group: int) -> int:
    """The size of the first groups; later ones may have one less."""
    return -(-microbatches // max(microbatches // group, 1))


def chunk_order(chunks: int, microbatches: int, group: int) -> Ints:
    """[turn, (chunk, microbatch)]: the forwards of a lane; backwards follow the same order with the chunks reversed."""
    chunk, microbatch = np.repeat(np.arange(chunks), microbatches), np.tile(np.arange(microbatches), chunks)
    parts = np.array_split(np.arange(microbatches), max(microbatches // group, 1))
    group_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    order = np.lexsort((microbatch, chunk, group_of[microbatch]))
    return np.stack([chunk[order], microbatch[order]], axis=1)


def _row(lane: int, lanes: int, chunks: int, forward: Ints, group: int) -> Ints:
    """F x warm-up, then F B F B ..., then the remaining backwards."""
    total = len(forward)
    warm = min(2 * (lanes - lane - 1) + (chunks - 1) * group, total)
    ahead, back = forward * [lanes, 1] + [lane, 0], forward * [-lanes, 1] + [lane + (chunks - 1) * lanes, 0]
    turn = np.arange(total)
    when_forward = np.where(turn < warm, turn, 2 * turn - warm)
    when_backward = np.where(turn < total - warm, 2 * turn + warm + 1, turn + total)
    row = np.zeros((2 * total, 3), np.int64)
    for when, kind, cells in ((when_forward, FORWARD, ahead), (when_backward, BACKWARD, back)):
        row[when, 0], row[when, 1], row[when, 2] = cells[:, 0], kind, cells[:, 1]
    return row
