"""Equal numbers of layers per stage."""

from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import even_bounds
from pipesim.core.members import PlannerInfo
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage


@PlannerInfo(look=11)
def uniform(model: Model, cluster: Cluster, costs: Costs, microbatches: int, *, stages: int | None = None) -> Plan:
    """The same number of layers on each device, to within one; devices in the cluster's order.

    Of a model with blocks the same number of blocks; embedding, norm and head are with the first and the last.
    Optimises nothing; ignores seconds, bytes and links. `stages` defaults to one per device.
    """
    del costs  # counts layers only
    plans.check_microbatches(microbatches)
    count = plans.check_stages(stages, model, cluster)
    bounds = even_bounds(model, count)
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(Stage(bounds[n], bounds[n + 1], (cluster.devices[n].name,)) for n in range(count)),
        planner="uniform",
    )
