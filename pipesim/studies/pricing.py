"""Costs of plans by simulation, passed to planners so that they import no engine."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace

from pipesim.analysis import metrics
from pipesim.base import lookup
from pipesim.core import limits
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import Blocks
from pipesim.core.limits import HostMemory
from pipesim.core.members import SchedulerInfo, info_of
from pipesim.core.plan import Plan
from pipesim.engines import ENGINES
from pipesim.lowering import Setup, lower
from pipesim.schedulers import SCHEDULERS

Price = Callable[[Plan], float]

# The exact time is the best of these. An estimate uses only the first two: PE is best for small messages, a long
# warm-up for large ones.
SCHEDULES = (
    "pe",
    'one_f_one_b(warm_up="3A")',
    'one_f_one_b(warm_up="2A")',
    'one_f_one_b(warm_up="4A")',
    'one_f_one_b(warm_up="6A")',
    "eager_1f1b",
    "one_f_one_b",
    "gpipe",
)
FEW = 32  # microbatches; the time of more than twice as many is extrapolated from 32 and 64


def prices(
    planner: Callable[..., Plan],
    costs: Costs,
    cluster: Cluster,
    host_memory: HostMemory = None,
    blocks: Blocks | None = None,
) -> dict[str, Price]:
    """The functions that a planner has options for: an `estimate`, and the `exact` time; of plans of `blocks`."""
    parameters = inspect.signature(planner).parameters
    known: dict[str, Price] = {
        "estimate": functools.partial(estimated_seconds, costs, cluster),
        "exact": functools.partial(simulated_seconds, costs, cluster, host_memory=host_memory),
    }
    asked = {name: price for name, price in known.items() if name in parameters and parameters[name].default is None}
    return asked if blocks is None else {name: _of_units(price, blocks) for name, price in asked.items()}


def _of_units(price: Price, blocks: Blocks) -> Price:
    return lambda plan: price(blocks.expanded(plan))


def simulated_seconds(
    costs: Costs, cluster: Cluster, plan: Plan, schedules: Sequence[str] = SCHEDULES, host_memory: HostMemory = None
) -> float:
    """Seconds of an iteration on the contended network (fair sharing), with the best of these schedules."""
    limits.check_tasks(host_memory, plan)
    engine = lookup.function_named("compiled", ENGINES, "engine")  # planners have imported numba already
    known = (lookup.resolve(name, SCHEDULERS, "scheduler") for name in schedules)
    fitting = (one for one in known if plan.replicas in info_of(one, SchedulerInfo).replicas)
    made = (scheduler(plan, costs, cluster) for scheduler in fitting)
    return min(metrics.iteration_time(engine(lower(Setup(plan, schedule, costs, cluster)))) for schedule in made)


def estimated_seconds(costs: Costs, cluster: Cluster, plan: Plan) -> float:
    """As `simulated_seconds` with two schedules; very many microbatches are extrapolated linearly."""
    if plan.microbatches <= 2 * FEW:
        return simulated_seconds(costs, cluster, plan, SCHEDULES[:2])
    short, longer = (
        simulated_seconds(costs, cluster, replace(plan, microbatches=count), SCHEDULES[:2]) for count in (FEW, 2 * FEW)
    )
    return longer + (plan.microbatches - 2 * FEW) * (longer - short) / FEW
