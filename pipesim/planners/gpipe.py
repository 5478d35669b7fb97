"""One device per stage, balanced as if all devices were equal; after GPipe."""

from typing import Literal

import numpy as np

from pipesim.base.chains import chain_bytes, chains_on_chains
from pipesim.base.errors import InputError, shown
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.groups import kinds_of


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the table of the best cuts, and of the seconds of each kind of device."""
    return chain_bytes(size.stages, size.layers) + 16 * size.kinds * size.layers


@PlannerInfo(tables=table_bytes, look=6)
def gpipe(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    stages: int | None = None,
    balance: Literal["time", "parameters"] = "time",
) -> Plan:
    """Cuts that make the largest stage as small as possible, in seconds or in bytes of parameters.

    Every device is modelled as the slowest kind in the cluster for each layer, and stages are on devices in the
    cluster's order. Ignores differences between devices, links and memory. `stages` defaults to one per device. The
    objective is microbatches times the slowest stage; balancing parameters minimises no seconds, so it states none.
    """
    plans.check_microbatches(microbatches)
    if balance not in {"time", "parameters"}:
        raise InputError(f"balance {shown(balance)} found; 'time' or 'parameters' was expected")
    count = plans.check_stages(stages, model, cluster)
    kinds = kinds_of(cluster, range(len(cluster.devices)))
    seconds = np.max([costs.forward(kind) + costs.backward(kind) for kind in kinds], axis=0)
    size = seconds if balance == "time" else model.parameter_bytes
    bounds, largest = chains_on_chains([size] * count)
    devices = cluster.devices[:count]
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(Stage(a, b, (d.name,)) for a, b, d in zip(bounds, bounds[1:], devices, strict=False)),
        planner="gpipe",
        objective_s=microbatches * largest if balance == "time" else None,
    )
