"""Interleaved chunks with backwards in two parts, in an order of our own that depends on costs."""

import numpy as np

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.greedy import greedy_order, rules
from pipesim.schedulers.interleaved import chunk_order, largest_group
from pipesim.schedulers.layouts import check_layout, check_split_replicas


@SchedulerInfo(
    layout="loop",
    chunks_option="chunks",
    replicas=("split",),
    splits_backward=True,
    look=11,
    option_aliases={"vpp": "chunks", "virtual_stages": "chunks"},
)
def interleaved_zb(plan: Plan, costs: Costs, cluster: Cluster, *, chunks: int = 2) -> Schedule:
    """The forwards of `interleaved`, backwards as soon as possible, gradients of weights when a device is idle.

    Of several limits on the number of weights' gradients that wait, the least with the shortest time is taken. The
    plan's layers are cut again, into `chunks` stages per device, stage n on device n mod p.
    """
    del chunks  # the plan has that many
    count = check_layout(plan, "loop", "interleaved_zb")
    check_split_replicas(plan, "interleaved_zb")
    pipeline = abstract_pipeline(plan, costs, cluster)
    lanes, microbatches = pipeline.lanes, pipeline.microbatches
    turn = np.zeros((count, microbatches), np.int64)  # [chunk, microbatch] -> its turn among the forwards of a lane
    order = chunk_order(count, microbatches, lanes)
    turn[order[:, 0], order[:, 1]] = np.arange(len(order))
    forward, backward = np.repeat(turn, lanes, axis=0), np.repeat(turn[::-1], lanes, axis=0)
    hold = 2 * (lanes - np.arange(lanes) - 1) + (count - 1) * largest_group(microbatches, lanes) + 1
    waits = [*dict.fromkeys(min(2**n, microbatches * count) for n in range((microbatches * count).bit_length() + 1))]
    tried = [
        greedy_order(
            pipeline,
            rules(
                pipeline,
                forward_key=forward,
                backward_key=backward,
                hold=hold,
                quota=np.full(lanes, quota),
                split=True,
            ),
        )
        for quota in waits
    ]
    _, best = min((made.makespan, n) for n, made in enumerate(tried) if made.rows is not None)
    return pipeline.schedule(tried[best].rows or [])
