"""A replica of the whole model on every device."""

import numpy as np

from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.groups import kinds_of, prefix, ring, worst_bandwidths


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices."""
    return PER_PAIR * size.devices**2


@PlannerInfo(tables=table_bytes, look=7, refits=(), aliases=("ddp", "dp"))
def data_parallel(model: Model, cluster: Cluster, costs: Costs, microbatches: int) -> Plan:
    """One stage on all devices, each microbatch split evenly among them; there are no other choices.

    The objective is the microbatches one after the other at the pace of the slowest device, then the all-reduce of all
    parameters over a ring at the pace of the slowest pair of devices. Ignores that a ring can avoid slow pairs, links
    shared by several pairs, latencies and memory.
    """
    plans.check_microbatches(microbatches)
    devices = np.arange(len(cluster.devices)).tolist()
    share, kinds = 1 / len(devices), kinds_of(cluster, devices)
    seconds = max(float(prefix(costs.forward(kind, share) + costs.backward(kind, share))[-1]) for kind in kinds)
    all_reduce = model.trained_bytes.sum() * ring(worst_bandwidths(cluster), devices)
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=(Stage(0, len(model), tuple(device.name for device in cluster.devices)),),
        planner="data_parallel",
        objective_s=float(microbatches * seconds + all_reduce),
    )
