"""When each task must have ended for everything to be over by some time: a search need not run what is later.

From the end of a task on, everything that waits for it still takes as long as it takes alone. Under a rule that shares
links, what they have left to carry is compared with this now and then (`flows.is_too_much_left`).
"""

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.kernels import compiled
from pipesim.core.program import Program
from pipesim.engines.compiled.simulation_state import ProgramArrays

NONE: Ints = np.zeros(0, np.int64)
ROUNDED = 1  # ns: a transfer whose rate changes is rounded elsewhere than one that is alone


def latest_ends(program: Program, arrays: ProgramArrays, until: int) -> Ints:
    """The latest end of each task; none where speeds change, and with them how long things take alone."""
    if program.lane_speeds or program.media_speeds:
        return NONE
    least = np.where(program.is_compute, program.duration, np.maximum(program.duration - ROUNDED, 0))
    found: Ints = until - time_after(arrays, program.needs.starts, program.needs.values, least)
    return found


@compiled
def time_after(p: ProgramArrays, first: Ints, needed: Ints, least: Ints) -> Ints:
    """How long it takes at least from the end of each task until everything is over.

    Task t needs needed[first[t] : first[t + 1]], and takes at least least[t].
    """
    tasks = len(p.lane)
    after, waiting = np.zeros(tasks, np.int64), np.zeros(tasks, np.int64)
    before_on_lane, ready, size = np.full(tasks, -1, np.int64), np.empty(tasks, np.int64), 0
    for n in range(len(p.first_order) - 1):
        for at in range(p.first_order[n] + 1, p.first_order[n + 1]):
            before_on_lane[p.order[at]] = p.order[at - 1]
            waiting[p.order[at - 1]] += 1
    for t in range(tasks):
        waiting[t] += p.first_dependent[t + 1] - p.first_dependent[t]
        if waiting[t] == 0:
            ready[size] = t
            size += 1
    while size > 0:
        size -= 1
        t = ready[size]
        taken = after[t] + least[t]
        for at in range(first[t], first[t + 1] + 1):  # the last is the task before it on its lane
            w = needed[at] if at < first[t + 1] else before_on_lane[t]
            if w >= 0:
                after[w] = max(after[w], taken)
                waiting[w] -= 1
                if waiting[w] == 0:
                    ready[size] = w
                    size += 1
    return after
