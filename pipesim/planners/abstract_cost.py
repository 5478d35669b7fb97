"""The cost that searching planners minimise by default: the time of the abstract pipeline under PE."""

from collections.abc import Callable

from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base import kernels, units
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan

Cost = Callable[[Plan], float]


def abstract_cost(costs: Costs, cluster: Cluster, evaluations: int) -> Cost:
    """Plan -> seconds. Many evaluations pay for numba's import, few do not; the seconds are the same."""
    if evaluations >= 100:
        kernels.import_compiler()

    def seconds(plan: Plan) -> float:
        pipeline = pipeline_of(plan, costs, cluster)
        return units.to_s(execute(pipeline).time(pipeline))

    return seconds
