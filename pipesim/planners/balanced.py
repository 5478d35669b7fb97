"""Least bottleneck seconds, one device per stage: the problem known as chains-on-chains."""

from pipesim.base.chains import chain_bytes, chains_on_chains
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the table of the best cuts."""
    return chain_bytes(size.stages, size.layers)


@PlannerInfo(tables=table_bytes, look=12)
def balanced(model: Model, cluster: Cluster, costs: Costs, microbatches: int, *, stages: int | None = None) -> Plan:
    """The cuts that make the slowest stage as fast as possible, forward and backward together.

    Exact for stages on devices in the cluster's order, each with the times of its own kind. Ignores links and memory.
    `stages` defaults to one per device. The objective is microbatches times the slowest stage.
    """
    plans.check_microbatches(microbatches)
    count = plans.check_stages(stages, model, cluster)
    devices = cluster.devices[:count]
    seconds = {kind: costs.forward(kind) + costs.backward(kind) for kind in {device.kind for device in devices}}
    bounds, bottleneck = chains_on_chains([seconds[device.kind] for device in devices])
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(Stage(a, b, (d.name,)) for a, b, d in zip(bounds, bounds[1:], devices, strict=False)),
        planner="balanced",
        objective_s=microbatches * bottleneck,
    )
