"""An extension of SPP, ours: several device orders, contended channels, fill and drain, idle devices, local moves.

for each order of the devices:   SPP's plans, and plans that keep fill, drain and bottleneck small together,
                                 each with channels as SPP sees them and as the links really share them
for islands of devices:          plans that keep the inequalities of the bound; these may leave devices idle
from other planners:             what they find
all are simulated; the best few are improved by local moves
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf

import numpy as np

from pipesim.analysis.bounds import schedule_bound
from pipesim.analysis.channels import Known, execute
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, RefusedError
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import PlannerInfo, ProblemSize, info_of
from pipesim.core.model import Model
from pipesim.core.plan import REPLICAS, Plan, Replicas, Stage
from pipesim.planners.abstract_cost import Cost, CostBelow, abstract_cost, with_limit
from pipesim.planners.alpa import alpa
from pipesim.planners.annealing import annealing
from pipesim.planners.dapple import dapple
from pipesim.planners.data_parallel import data_parallel
from pipesim.planners.groups import bandwidths
from pipesim.planners.hetpipe import hetpipe
from pipesim.planners.megatron import megatron
from pipesim.planners.piper import piper
from pipesim.planners.spp import holds, memory_limit, plan_of, spp
from pipesim.planners.spp.contention import contended, shared_pipeline
from pipesim.planners.spp.prm import Partition, best_partitions, tables_of
from pipesim.planners.spp.rdo import LITERAL, by_minimum_cuts, given, hierarchical
from pipesim.planners.spp_plus.chunked import chunked
from pipesim.planners.spp_plus.fill_and_drain import solutions
from pipesim.planners.spp_plus.island_plans import island_plans, islands_of
from pipesim.planners.spp_plus.polish import polished

EVALUATIONS = ((16, 200), (32, 400), (128, 120))  # on up to so many devices
LESS = 40  # evaluations on more devices, where each takes long
ANNEALED = 1000  # evaluations of the abstract pipeline for simulated annealing
JITTER = 0.1  # relative, of the bandwidths of the perturbed order
MANY = 128  # devices: on more, each order takes ten seconds
POLISHED = 3  # plans that local moves start from

# Planners whose plans are tried, on up to so many devices: on more, they alone take seconds.
ASKED: dict[Callable[..., Plan], float] = {
    alpa: inf, data_parallel: inf, megatron: inf, piper: 128, hetpipe: inf, dapple: 16,
}  # fmt: skip

Key = tuple[tuple[Stage, ...], Replicas]


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the tables of the partitions, and of the planner among those asked that takes most."""
    L, V = size.layers, size.devices
    asked = [spp, annealing, *(planner for planner, most in ASKED.items() if most >= V)]
    partitions = 2 * 12 * (L + 1) * (V + 1) ** 2 + 32 * V**3
    return partitions + max(info_of(planner, PlannerInfo).tables(size) for planner in asked)


@PlannerInfo(
    tables=table_bytes,
    look=1,
    refits=("option", "cuts", "replicas"),
    option="memory",
    values=("one_f_one_b", "gpipe"),
)
def spp_plus(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    estimate: Cost | None = None,
    exact: Cost | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    memory: str = "",
    chunks: int = 1,
    split: bool = False,
) -> Plan:
    """Minimises simulated seconds over SPP's plan, other orders and partitions, and local moves on the best of them.

    `estimate` gives the seconds of a plan, `exact` decides between its choice and SPP, so that by it the result is
    never worse than SPP; where they are not given, PE's time on the abstract pipeline is used. From the command line
    both simulate on the contended network, with the best of some schedules. `evaluations` bounds how often estimates
    are asked for: by default 200 times on up to 16 devices, 400 on up to 32, 120 on up to 128, and 40 on more. Devices
    that do not help stay idle; replicas split microbatches or, where they are simulated, take them whole. `memory` is
    as that of spp: only plans whose stages hold the microbatches in flight of this schedule are compared. With
    `chunks` devices may have up to so many stages each, in a loop or a wave; `split`: plans are also simulated with
    schedules that split backwards. Ignores memory unless asked.
    """
    plans.check_microbatches(microbatches)
    if evaluations is None:
        evaluations = next((most for devices, most in EVALUATIONS if len(cluster.devices) <= devices), LESS)
    check_at_least("evaluations", evaluations, 1)
    check_at_least("seed", seed, 0)
    check_at_least("chunks", chunks, 1)
    _check_simulated(estimate, exact, chunks=chunks, split=split)
    price = with_limit(estimate or abstract_cost(costs, cluster, evaluations + ANNEALED), split=split)
    ways = REPLICAS if estimate else REPLICAS[:1]
    literal = spp(model, cluster, costs, microbatches, memory=memory, bandwidth="nominal")
    first = spp(model, cluster, costs, microbatches, memory=memory)
    limit = memory_limit(costs, cluster, given(cluster), microbatches, memory) if memory else None
    candidates = [literal, *_from_other_planners(model, cluster, costs, microbatches, seed)]
    islands = islands_of(cluster)
    candidates += [plan for way in ways for plan in island_plans(costs, cluster, islands, microbatches, way)]
    candidates += _promising(model, cluster, costs, microbatches, seed, max(evaluations // 4, 1))
    known: dict[Key, Plan] = {}
    for plan in candidates:
        if plan.replicas in ways and (limit is None or holds(limit, cluster, plan)):
            known.setdefault((plan.stages, plan.replicas), plan)

    def floor(plan: Plan) -> float:
        fits = limit is None or holds(limit, cluster, plan)
        if not fits:
            return inf
        return 0.0 if split else schedule_bound(plan, costs, cluster)  # which is of whole backwards

    chosen = _best(_by_pe(list(known.values()), costs, cluster), price, floor, evaluations)
    if chunks > 1:
        several = [made for plan in chosen for made in chunked(plan, costs, cluster, chunks)]
        chosen += _best(dict(enumerate(several)), price, floor, evaluations)
    least, plan = inf, first
    judge = with_limit(exact, split=split) if exact else price
    judged = dict[Key, Plan]()
    for one in [*chosen, literal, first]:
        judged.setdefault((one.stages, one.replicas), one)
    for one in judged.values():
        seconds = judge(one, least)
        if seconds < least:
            least, plan = seconds, one
    return Plan(model.name, len(model), microbatches, plan.stages, plan.replicas, "spp_plus", least)


def _check_simulated(estimate: Cost | None, exact: Cost | None, *, chunks: int, split: bool) -> None:
    """Refuse what costs that are given, or PE's time, know nothing of."""
    asked = f"chunks = {chunks}" if chunks > 1 else "split = True" if split else ""
    for name, cost in (("estimate", estimate), ("exact", exact)):
        if asked and (cost is None or "split" not in inspect.signature(cost).parameters):
            raise InputError(
                f"{asked} found; it needs plans to be simulated, and a function {name}(plan, *, below, split) that does"
            )


def _by_pe(plans: list[Plan], costs: Costs, cluster: Cluster) -> dict[int, Plan]:
    """Plans by their number, the fastest by PE first: what comes after them is soon known to be slower."""
    known: Known = {}
    pipelines = [shared_pipeline(plan, costs, cluster, known) for plan in plans]
    times = [execute(pipeline).time(pipeline) for pipeline in pipelines]
    return {n: plans[n] for n in sorted(range(len(plans)), key=times.__getitem__)}


def _best(candidates: dict[int, Plan], price: CostBelow, floor: Cost, evaluations: int) -> list[Plan]:
    """The best few of these, of equal ones those with lower numbers, each improved by local moves.

    As long as there are evaluations. A plan whose `floor`, which its price is never below, is no less than the price
    of the best few is not priced.
    """
    left, priced, found = evaluations, list[tuple[float, int]](), list[Plan]()
    for n, plan in candidates.items():
        if left and (len(priced) < POLISHED or floor(plan) < priced[-1][0]):
            limit = priced[-1][0] if len(priced) == POLISHED else inf
            priced = sorted([*priced, (price(plan, limit), n)])[:POLISHED]
            left -= 1
    for place, (seconds, n) in enumerate(priced):
        share = left // (len(priced) - place)
        better, _, used = polished(candidates[n], price, floor, share, seconds)
        left -= used
        found.append(better)
    return found


def _from_other_planners(model: Model, cluster: Cluster, costs: Costs, microbatches: int, seed: int) -> list[Plan]:
    """Plans of other planners, which do not depend on one order of the devices."""
    found = [annealing(model, cluster, costs, microbatches, seed=seed, evaluations=ANNEALED)]
    for planner, most in ASKED.items():
        if len(cluster.devices) > most:
            continue
        with suppress(RefusedError, InputError):  # it has no plan for this cluster, or none that fits in memory
            found.append(planner(model, cluster, costs, microbatches))
    return found


def _promising(  # noqa: PLR0917 - the parts of the problem
    model: Model, cluster: Cluster, costs: Costs, microbatches: int, seed: int, most: int
) -> Iterator[Plan]:
    """Different plans: of each order of the devices, with contended channels and without, in turn the next best."""
    views = [(order, shared) for order in _orders(cluster, seed) for shared in (True, False)]
    ranked = [_ranked(costs, cluster, order, microbatches, shared=shared) for order, shared in views]
    seen: set[tuple[Stage, ...]] = set()
    for place in range(max(map(len, ranked), default=0)):
        for solution, order in (row[place] for row in ranked if place < len(row)):
            plan = plan_of(model, cluster, order, solution, microbatches)
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
    costs: Costs, cluster: Cluster, order: list[int], microbatches: int, *, shared: bool
) -> list[tuple[Partition, list[int]]]:
    """Plans for one order: those that keep fill and bottleneck small, then PRM's best."""
    tables = tables_of(costs, cluster, order, microbatches)
    if shared:
        tables = contended(tables, cluster, order)
    # One stage on all devices is a plan, and keeps this T: a start that is always within reach.
    together = float(tables.seconds[:, -1, -1].max() + tables.reduce[0, -1] * tables.parameters[-1])
    filling = solutions(tables, microbatches, together)
    found = [(solution, order) for solution in filling[::-1]]
    if not shared:
        found += [(solution, order) for solution in best_partitions(tables, 2)]
    return found
