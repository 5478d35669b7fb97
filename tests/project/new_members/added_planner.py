"""The first half of the layers on the first device, the rest on the second."""

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage, check_microbatches


def added_planner(model: Model, cluster: Cluster, costs: Costs, microbatches: int) -> Plan:
    """Two stages with the same number of layers, to within one. Optimises nothing; ignores all costs."""
    del costs  # the plan does not depend on times
    check_microbatches(microbatches)
    names, half = [device.name for device in cluster.devices], (len(model) + 1) // 2
    bounds = [(0, half), (half, len(model))] if len(names) > 1 and len(model) > 1 else [(0, len(model))]
    stages = tuple(Stage(a, b, (name,)) for (a, b), name in zip(bounds, names, strict=False))
    return Plan(model.name, len(model), microbatches, stages, planner="added_planner")
