"""The cost that searching planners minimise by default: the time of the abstract pipeline under PE."""

import functools
import inspect
from collections.abc import Callable

from pipesim.analysis.channels import Known, execute, pipeline_of
from pipesim.base import kernels, units
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan

Cost = Callable[[Plan], float]
CostBelow = Callable[[Plan, float], float]
Begin = Callable[[Plan, float], None]


def with_limit(cost: Cost, *, split: bool = False) -> CostBelow:
    """The cost of a plan, or anything above the limit where it is more.

    A function that can stop there declares a parameter `below`; any other computes the cost to the end. One that can
    also take schedules that split backwards declares `split`.
    """
    known = inspect.signature(cost).parameters
    if split and "split" in known:
        cost = functools.partial(cost, split=True)  # type: ignore[call-arg]
    if "below" in known:
        return lambda plan, limit: cost(plan, below=limit)  # type: ignore[call-arg]
    return lambda plan, _: cost(plan)


def begin_of(cost: Cost, *, split: bool = False) -> Begin:
    """What has a cost computed that is asked for next, beside others: nothing if the function has no method `begin`."""
    begin = getattr(cost, "begin", None)
    if begin is None:
        return lambda plan, limit: None  # noqa: ARG005 - names of parameters
    options = {"split": True} if split else {}
    return lambda plan, limit: begin(plan, below=limit, **options)


def abstract_cost(costs: Costs, cluster: Cluster, evaluations: int) -> Cost:
    """Plan -> seconds. Many evaluations pay for numba's import, few do not; the seconds are the same."""
    if evaluations >= 100:
        kernels.import_compiler()

    known: Known = {}

    def seconds(plan: Plan) -> float:
        pipeline = pipeline_of(plan, costs, cluster, known)
        return units.to_s(execute(pipeline).time(pipeline))

    return seconds
