"""All plans, one after the other: the reference for tests of other planners."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import comb
from typing import Literal

from pipesim.base.errors import InputError, RefusedError, shown
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import PlannerInfo
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.abstract_cost import Cost, abstract_cost

Groups = tuple[tuple[str, ...], ...]


@PlannerInfo(look=13)
def brute(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    cost: Cost | None = None,
    orders: Literal["given", "all"] = "given",
    limit: int = 20_000,
) -> Plan:
    """The least `cost` of all plans whose replicas split each microbatch, fewest stages first among equals.

    Every choice of cuts with every assignment of all devices: to consecutive stages in the cluster's order, or with
    orders="all" in any order. `cost` is seconds of a Plan, by default of the abstract pipeline under PE, which ignores
    contention and memory. Ignores plans that leave devices idle. More than `limit` plans are refused.
    """
    plans.check_microbatches(microbatches)
    if orders not in {"given", "all"}:
        raise InputError(f"orders {shown(orders)} found; 'given' or 'all' was expected")
    devices = [device.name for device in cluster.devices]
    count = plan_count(len(model), len(devices), orders)
    if count > limit:
        raise RefusedError(
            f"{count} plans of {len(model)} layers on {len(devices)} devices (orders={orders!r}); at most {limit} "
            "are tried: give a larger limit=..., or use another planner"
        )
    seconds = abstract_cost(costs, cluster, count) if cost is None else cost
    every = (
        Plan(model.name, len(model), microbatches, _stages(bounds, groups), planner="brute")
        for x in range(1, min(len(model), len(devices)) + 1)
        for groups in (_consecutive(devices, x) if orders == "given" else _assigned(devices, x))
        for bounds in _bounds(len(model), x)
    )
    least, _, best = min((seconds(plan), number, plan) for number, plan in enumerate(every))
    return Plan(best.model, best.layers, microbatches, best.stages, planner="brute", objective_s=least)


def plan_count(layers: int, devices: int, orders: Literal["given", "all"] = "given") -> int:
    """The number of plans. A stage takes some layers, and some devices: consecutive ones, or any."""
    most = min(layers, devices)
    ways = [comb(devices - 1, x - 1) if orders == "given" else _surjections(devices, x) for x in range(1, most + 1)]
    return sum(comb(layers - 1, x) * way for x, way in enumerate(ways))


def _surjections(devices: int, stages: int) -> int:
    """The number of surjections from devices to stages, by inclusion and exclusion."""
    return sum((-1) ** (stages - k) * comb(stages, k) * k**devices for k in range(1, stages + 1))


def _bounds(length: int, parts: int) -> Iterator[tuple[int, ...]]:
    return ((0, *cuts, length) for cuts in combinations(range(1, length), parts - 1))


def _consecutive(devices: Sequence[str], stages: int) -> Iterator[Groups]:
    return (tuple(tuple(devices[a:b]) for a, b in pairwise(ends)) for ends in _bounds(len(devices), stages))


def _assigned(devices: Sequence[str], stages: int) -> Iterator[Groups]:
    """Every choice of devices for the first stage, then those of the others from the remaining devices."""
    if stages == 1:
        yield (tuple(devices),)
        return
    for size in range(1, len(devices) - stages + 2):
        for chosen in combinations(devices, size):
            left = [device for device in devices if device not in chosen]
            yield from ((chosen, *others) for others in _assigned(left, stages - 1))


def _stages(bounds: tuple[int, ...], groups: Groups) -> tuple[Stage, ...]:
    return tuple(Stage(a, b, group) for (a, b), group in zip(pairwise(bounds), groups, strict=True))
