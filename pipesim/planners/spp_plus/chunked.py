"""Plans with several stages on each device, from plans with one: the same devices in a loop or a wave, other cuts.

loop    0 3 | 1 4 | 2 5       wave    0 5 | 1 4 | 2 3        three devices, or groups of replicas, with two chunks
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.chains import chains_on_chains
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan, Stage
from pipesim.planners.groups import kinds_of


def chunked(plan: Plan, costs: Costs, cluster: Cluster, most: int) -> Iterator[Plan]:
    """With 2 to `most` stages on each device, so that the slowest stage is as fast as possible."""
    groups = [stage.devices for stage in plan.stages]
    if plan.replicas != "split" or len(groups) == 1:
        return
    work = {group: _layer_seconds(costs, cluster, group) for group in groups}
    for chunks in range(2, min(most, plan.layers // len(groups)) + 1):
        loop = groups * chunks
        wave = [group for n in range(chunks) for group in (groups if n % 2 == 0 else groups[::-1])]
        for lanes in (loop, wave) if chunks % 2 == 0 else (loop,):
            cuts, _ = chains_on_chains([work[group] for group in lanes])
            stages = (Stage(*ends, group) for ends, group in zip(pairwise(cuts), lanes, strict=True))
            yield replace(plan, stages=tuple(stages))


def _layer_seconds(costs: Costs, cluster: Cluster, group: tuple[str, ...]) -> Floats:
    """Seconds of each layer, both ways, on the slowest device of a group that splits microbatches."""
    kinds, share = kinds_of(cluster, [cluster.index[name] for name in group]), 1 / len(group)
    found: Floats = np.max([costs.forward(kind, share) + costs.backward(kind, share) for kind in kinds], axis=0)
    return found
