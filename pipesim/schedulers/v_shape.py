"""What the schedules on a V share: two chunks per device, a repeated block, a limit on the chunks in flight."""

import numpy as np

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.blocks import Block, keys
from pipesim.schedulers.greedy import rules
from pipesim.schedulers.layouts import check_two_chunks
from pipesim.schedulers.zero_bubble import schedule_of


def v_schedule(  # noqa: PLR0917 - a problem has its parts
    plan: Plan, costs: Costs, cluster: Cluster, block: Block, limit: int, scheduler: str
) -> Schedule:
    """Forwards in the order of the block, at most `limit` chunks in flight per lane; backwards as soon as possible.

    A chunk is in flight until its W has ended. With any costs there is no deadlock if the limit is at least
    `blocks.in_flight`: a forward that waits for the limit waits for an I that precedes it in the block, and backwards
    never wait for a limit. The limit also affects the speed.
    """
    check_two_chunks(plan, scheduler)
    pipeline = abstract_pipeline(plan, costs, cluster)
    forward, backward = keys(block, pipeline)
    most = np.full(pipeline.lanes, float(limit))
    how = rules(pipeline, forward_key=forward, backward_key=backward, limit=most, split=True)
    return schedule_of(pipeline, how, scheduler)
