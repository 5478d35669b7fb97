"""1F1B with backwards in two parts (ZB-H1)."""

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import FORWARD, INPUT, WEIGHT, Schedule
from pipesim.schedulers.layouts import check_layout, check_split_replicas, groups_of


@SchedulerInfo(replicas=("split",), splits_backward=True, completes=True, look=4)
def zb_h1(plan: Plan, costs: Costs | None = None, cluster: Cluster | None = None) -> Schedule:
    """1F1B's warm-up, then F I W in turn; stage n delays its gradients of weights by n turns.

        stage 0 of 4    F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 ...
        stage 2         F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 ...

    Every stage has as many microbatches in flight as the first stage of 1F1B; the bubble is a third of 1F1B's if F, I
    and W take the same time. After "Zero Bubble Pipeline Parallelism" (Qi et al., 2023).
    """
    del costs, cluster  # the order does not depend on costs
    check_layout(plan, "straight", "zb_h1")
    check_split_replicas(plan, "zb_h1")
    lanes = groups_of(plan)
    rows = {d: _row(n, len(lanes), plan.microbatches) for n, devices in enumerate(lanes) for d in devices}
    return Schedule.of_arrays([rows[device] for device in plan.devices])


def _row(stage: int, stages: int, microbatches: int) -> Ints:
    """Sorted by turn: I of microbatch m in turn m, W `stage` turns later, F before both."""
    m = np.arange(microbatches)
    warm = min(stages - stage - 1, microbatches)
    # After the last forward, turns have I and W only; the delayed W are last.
    turn = [m - warm, m, np.minimum(m + stage, microbatches)]
    kinds = np.repeat([FORWARD, INPUT, WEIGHT], microbatches)
    order = np.lexsort((np.tile(m, 3), kinds, np.concatenate(turn)))
    return np.stack([np.full(3 * microbatches, stage), kinds, np.tile(m, 3)], axis=1)[order]
