"""Small programs: the smallest with transfers, and one with replicas."""

from helpers import strategies
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import parse
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.one_f_one_b import one_f_one_b

CLUSTER = Cluster("pair", (Device("a", "gpu", memory=5), Device("b", "gpu", memory=7)), (Link("a", "b", 1e9),))
PLAN = Plan("even", 2, 1, (Stage(0, 1, ("a",)), Stage(1, 2, ("b",))))
SCHEDULE = parse("0F0,0B0\n1F0,1B0")


def pair(scenario=None):
    """Two stages, one microbatch: tasks 0 and 1 on a, 2 and 3 on b, then the gradient, then the activation."""
    costs = costs_of(strategies.even_trace(2))
    return lower(Setup(PLAN, SCHEDULE, costs, CLUSTER, **({} if scenario is None else {"scenario": scenario})))


def star(count, latency=0.0):
    """Devices on one switch, 1 byte per ns each way."""
    devices = tuple(Device(f"g{i}", "any", memory=1000) for i in range(count))
    return Cluster("star", devices, tuple(Link(f"g{i}", "hub", 1e9, latency) for i in range(count)))


def replicated(replicas="split", microbatches=4, latency=0.0, **options):
    """Two layers; the first on three devices, the second on two. 600 bytes across the cut, 900 of parameters each."""
    trace = strategies.even_trace(2, 60e-9, 120e-9, output_bytes=600, parameter_bytes=900)
    costs = costs_of(trace)
    plan = Plan("even", 2, microbatches, (Stage(0, 1, ("g0", "g1", "g2")), Stage(1, 2, ("g3", "g4"))), replicas)
    return lower(Setup(plan, one_f_one_b(plan), costs, star(5, latency), Options(**options)))
