"""Interleaved chunks with backwards in two parts (interleaved zero bubble)."""

import numpy as np

from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.board import board_of
from pipesim.schedulers.filling import fill, rules
from pipesim.schedulers.interleaved import largest_group, turns
from pipesim.schedulers.shapes import check_shape


@SchedulerInfo(layout="loop", chunks_option="chunks", replicas=("split",), splits_backward=True, look=11)
def interleaved_zb(plan: Plan, costs: Costs, cluster: Cluster, *, chunks: int = 2) -> Schedule:
    """The forwards of `interleaved`, backwards as they come, gradients of weights where nothing else can be done.

    Of the numbers of weights' gradients that may wait, the least that gives the shortest time is taken. The plan's
    layers are cut anew into `chunks` stages per device, stage n on device n mod p.
    """
    del chunks  # the plan says how many there are
    count = check_shape(plan, "loop", "interleaved_zb")
    if plan.replicas == "whole" and max(plan.replication) > 1:
        raise ScheduleError(
            "the plan gives whole microbatches to its replicas; interleaved_zb orders plans that split them"
        )
    board = board_of(plan, costs, cluster)
    lanes, microbatches = board.lanes, board.microbatches
    turn = np.zeros((count, microbatches), np.int64)  # [chunk, microbatch] -> its turn among the forwards of a lane
    order = turns(count, microbatches, lanes)
    turn[order[:, 0], order[:, 1]] = np.arange(len(order))
    forward, backward = np.repeat(turn, lanes, axis=0), np.repeat(turn[::-1], lanes, axis=0)
    hold = 2 * (lanes - np.arange(lanes) - 1) + (count - 1) * largest_group(microbatches, lanes) + 1
    waits = [*dict.fromkeys(min(2**n, microbatches * count) for n in range((microbatches * count).bit_length() + 1))]
    tried = [
        fill(
            board,
            rules(
                board,
                forward_key=forward,
                backward_key=backward,
                hold=hold,
                quota=np.full(lanes, quota),
                split=True,
            ),
        )
        for quota in waits
    ]
    _, best = min((filled.makespan, n) for n, filled in enumerate(tried) if filled.rows is not None)
    return board.schedule(tried[best].rows or [])
