"""The plans that spp_plus begins with, made by as many processes as there are cores.

SPP's own, those of other planners, plans over islands of devices, and for several orders of the devices the best
partitions, with channels as SPP sees them and as the links really share them.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from math import inf

import numpy as np

from pipesim.base.errors import InputError, RefusedError
from pipesim.base.forked import results_of
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Replicas, Stage
from pipesim.planners.alpa import alpa
from pipesim.planners.annealing import annealing
from pipesim.planners.dapple import dapple
from pipesim.planners.data_parallel import data_parallel
from pipesim.planners.groups import bandwidths
from pipesim.planners.hetpipe import hetpipe
from pipesim.planners.megatron import megatron
from pipesim.planners.piper import piper
from pipesim.planners.spp import plan_of, spp
from pipesim.planners.spp.contention import contended
from pipesim.planners.spp.prm import best_partitions, tables_of
from pipesim.planners.spp.rdo import LITERAL, by_minimum_cuts, given, hierarchical
from pipesim.planners.spp_plus.fill_and_drain import solutions
from pipesim.planners.spp_plus.island_plans import Islands, island_plans, islands_of

ANNEALED = 1000  # evaluations of the abstract pipeline for simulated annealing
JITTER = 0.1  # relative, of the bandwidths of the perturbed order
MANY = 128  # devices: on more, each order takes ten seconds

# Planners whose plans are tried, on up to so many devices: on more, they alone take seconds.
ASKED: dict[Callable[..., Plan], float] = {
    alpa: inf, data_parallel: inf, megatron: inf, piper: 128, hetpipe: inf, dapple: 16,
}  # fmt: skip


def candidates(  # noqa: PLR0917 - the parts of the problem
    costs: Costs,
    cluster: Cluster,
    microbatches: int,
    ways: Sequence[Replicas],
    seed: int,
    memory: str,
    most: int,
    processes: int,
) -> list[Plan]:
    """SPP's plan, the literal one, then those that are compared with them: at most `most` of orders of the devices."""
    problem = costs.model, cluster, costs, microbatches
    islands, orders = islands_of(cluster), _orders(cluster, seed)
    over_islands = [
        functools.partial(_over_islands, costs, cluster, [each], microbatches, way) for way in ways for each in islands
    ]
    annealed = functools.partial(_one_of, annealing, *problem, seed=seed, evaluations=ANNEALED)
    ranks = [functools.partial(_ranked, *problem, order, shared=shared) for order in orders for shared in (True, False)]
    quick = [functools.partial(_one_of, one, *problem) for one, at in ASKED.items() if len(cluster.devices) <= at]
    own = [functools.partial(_own, *problem, memory, bandwidth) for bandwidth in ("shared", "nominal")]
    # Processes take these one after the other, so what takes longest comes first.
    found = iter(results_of([annealed, *over_islands, *ranks, *quick, *own], processes))
    of_annealing, of_islands, of_orders, of_others, of_spp = (
        list(itertools.islice(found, len(each))) for each in ([annealed], over_islands, ranks, quick, own)
    )
    before = [*of_spp, *of_annealing, *of_others, *of_islands]
    return [*itertools.chain.from_iterable(before), *_in_turn(of_orders, most)]


def _own(  # noqa: PLR0917 - the parts of the problem
    model: Model, cluster: Cluster, costs: Costs, microbatches: int, memory: str, bandwidth: str
) -> list[Plan]:
    return [spp(model, cluster, costs, microbatches, memory=memory, bandwidth=bandwidth)]


def _one_of(planner: Callable[..., Plan], *problem: object, **options: object) -> list[Plan]:
    """The plan of another planner; none where it has none for this cluster, or none that fits in memory."""
    try:
        return [planner(*problem, **options)]
    except (RefusedError, InputError):
        return []


def _over_islands(
    costs: Costs, cluster: Cluster, islands: list[Islands], microbatches: int, way: Replicas
) -> list[Plan]:
    return list(island_plans(costs, cluster, islands, microbatches, way))


def _in_turn(ranked: list[list[Plan]], most: int) -> Iterator[Plan]:
    """Different plans, of each list in turn the next best."""
    seen: set[tuple[Stage, ...]] = set()
    for place in range(max(map(len, ranked), default=0)):
        for plan in (row[place] for row in ranked if place < len(row)):
            if plan.stages not in seen and len(seen) < most:
                seen.add(plan.stages)
                yield plan


def _orders(cluster: Cluster, seed: int) -> list[list[int]]:
    """RDO and RDO with jittered bandwidths, clustering, and the cluster's own order; on many devices the outer two.

    Where there are too many for RDO, clustering takes its place.
    """
    weights, count = bandwidths(cluster), len(cluster.devices)
    found = [by_minimum_cuts(weights) if count <= LITERAL else hierarchical(cluster), given(cluster)]
    if count <= MANY:
        jittered = weights * np.exp(np.random.default_rng(seed).normal(0, JITTER, weights.shape))
        found[1:1] = [by_minimum_cuts(np.minimum(jittered, jittered.T)), hierarchical(cluster)]
    return [order for n, order in enumerate(found) if order not in found[:n]]


def _ranked(
    model: Model, cluster: Cluster, costs: Costs, microbatches: int, order: list[int], *, shared: bool
) -> list[Plan]:
    """Plans for one order: those that keep fill and bottleneck small, then PRM's best."""
    tables = tables_of(costs, cluster, order, microbatches)
    if shared:
        tables = contended(tables, cluster, order)
    # One stage on all devices is a plan, and keeps this T: a start that is always within reach.
    together = float(tables.seconds[:, -1, -1].max() + tables.reduce[0, -1] * tables.parameters[-1])
    found = solutions(tables, microbatches, together)[::-1]
    if not shared:
        found += best_partitions(tables, 2)
    return [plan_of(model, cluster, order, solution, microbatches) for solution in found]
