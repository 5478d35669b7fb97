"""The smallest program with transfers, by hand."""

from helpers import strategies
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import parse
from pipesim.lowering import Setup, lower

CLUSTER = Cluster("pair", (Device("a", "gpu", memory=5), Device("b", "gpu", memory=7)), (Link("a", "b", 1e9),))
PLAN = Plan("even", 2, 1, (Stage(0, 1, ("a",)), Stage(1, 2, ("b",))))
SCHEDULE = parse("0F0,0B0\n1F0,1B0")


def pair(scenario=None):
    """Two stages, one microbatch: tasks 0 and 1 on a, 2 and 3 on b, then the gradient, then the activation."""
    costs = costs_of(strategies.even_trace(2))
    return lower(Setup(PLAN, SCHEDULE, costs, CLUSTER, **({} if scenario is None else {"scenario": scenario})))
