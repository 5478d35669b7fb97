"""What no schedule can beat, for a given plan."""

import numpy as np
from numpy.typing import NDArray

from pipesim.cluster import Cluster
from pipesim.costs import Costs, Phase
from pipesim.plan import Plan

Floats = NDArray[np.float64]


def stage_seconds(plan: Plan, costs: Costs, cluster: Cluster, phase: Phase) -> Floats:
    """Seconds of one microbatch on each stage: on its fastest replica."""
    return np.array(
        [
            min(
                costs.seconds(phase, cluster.devices[cluster.index[device]].kind, plan.share(n))[s.start : s.stop].sum()
                for device in s.devices
            )
            for n, s in enumerate(plan.stages)
        ]
    )


def schedule_bound(plan: Plan, costs: Costs, cluster: Cluster) -> float:
    """Seconds that every schedule of this plan needs which does not split the backward.

        max over stages n of   work_n + what must pass before stage n starts and after it ends
        head_n = sum over k < n of (forward_k + backward_k);    work_n = M (forward_n + backward_n)

    With whole replication a stage's replicas share its microbatches. Chunks on one device share the device, and
    transfers take time: both are left out, so the bound holds but is not reached.
    """
    both = stage_seconds(plan, costs, cluster, "forward") + np.minimum(
        stage_seconds(plan, costs, cluster, "backward"), stage_seconds(plan, costs, cluster, "backward_first")
    )
    head = np.concatenate([[0.0], np.cumsum(both)[:-1]])
    replicas = np.array(plan.replication) if plan.replicas == "whole" else np.ones(len(plan.stages))
    passing = np.ceil(plan.microbatches / replicas)
    return float((passing * both + head).max())
