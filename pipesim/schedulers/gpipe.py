"""All forwards, then all backwards (GPipe)."""

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule


@SchedulerInfo(completes=True, look=1, aliases=("ScheduleGPipe", "afab", "f_then_b", "fill_drain"))
def gpipe(plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None) -> Schedule:
    """Every device does all its forwards, chunk after chunk, then all its backwards, last chunk first.

    Keeps all microbatches in flight at once.
    """
    del costs, cluster  # the order does not depend on costs
    rows = []
    for device, held in zip(plan.devices, plan.chunks, strict=True):
        passing = {n: np.array(plan.microbatches_of(n, plan.stages[n].devices.index(device)), np.int64) for n in held}
        cells = [_cells(n, FORWARD, passing[n]) for n in held] + [_cells(n, BACKWARD, passing[n]) for n in held[::-1]]
        rows.append(np.concatenate(cells))
    return Schedule.of_arrays(rows)


def _cells(stage: int, kind: int, microbatches: Ints) -> Ints:
    return np.stack([np.full_like(microbatches, stage), np.full_like(microbatches, kind), microbatches], axis=1)
