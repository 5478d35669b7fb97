"""SPP and more: several device orders, contended channels, fill and drain, and a last polish by local moves.

for each order of the devices:   SPP's plans, and plans that keep fill, drain and bottleneck small together,
                                 each with channels as SPP sees them and as the links really share them
the most promising are priced by simulation; the best is polished by local moves
"""

from collections.abc import Iterator

import numpy as np

from pipesim import plan as plans
from pipesim.cluster import Cluster
from pipesim.costs import Costs
from pipesim.model import Model
from pipesim.plan import Plan, Stage
from pipesim.planners.abstract_cost import abstract_cost
from pipesim.planners.alpa import alpa
from pipesim.planners.annealing import annealing
from pipesim.planners.dapple import dapple
from pipesim.planners.data_parallel import data_parallel
from pipesim.planners.groups import bandwidths
from pipesim.planners.spp import plan_of, spp
from pipesim.planners.spp.prm import Solution, prm, tables_of
from pipesim.planners.spp.rdo import LITERAL, by_minimum_cuts, given, hierarchical
from pipesim.planners.spp_plus.contention import contended
from pipesim.planners.spp_plus.filling import solutions
from pipesim.planners.spp_plus.polish import Cost, polished

FEW = 16  # devices
ANNEALED = 1000  # evaluations of the abstract pipeline that a search from another side may take
JITTER = 0.1  # relative, of the bandwidths of the perturbed order


def spp_plus(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    estimate: Cost | None = None,
    exact: Cost | None = None,
    evaluations: int = 24,
    seed: int = 0,
) -> Plan:
    """Minimises simulated seconds over SPP's plan, other orders and partitions, and local moves on the best of them.

    `estimate` gives the seconds of a plan, `exact` decides between its choice and SPP, so that by it the result is
    never worse than SPP; where they are not given, PE's time on the abstract pipeline stands in. From the command line
    both simulate on the contended network, the exact one with the better of `pe` and `one_f_one_b`. `evaluations`
    bounds how often estimates are asked for. Ignores memory and split backwards; chunks and whole replicas are not
    among its plans.
    """
    plans.check_microbatches(microbatches)
    plans.check_at_least("evaluations", evaluations, 1)
    plans.check_at_least("seed", seed, 0)
    price = estimate or abstract_cost(costs, cluster, evaluations + ANNEALED)
    first = spp(model, cluster, costs, microbatches)
    candidates = [first, *_from_elsewhere(model, cluster, costs, microbatches, seed)]
    candidates += _promising(model, cluster, costs, microbatches, seed, max(evaluations // 2, 1))
    candidates = candidates[:evaluations]
    priced = [(price(plan), n) for n, plan in enumerate(candidates)]
    least, n = min(priced)
    plan, least = polished(candidates[n], price, evaluations - len(candidates), least)
    if exact is not None:  # the price was an estimate: what it chose must still stand beside SPP
        least, _, plan = min((exact(plan), 0, plan), (exact(first), 1, first))
    return Plan(model.name, len(model), microbatches, plan.stages, "split", "spp_plus", least)


def _from_elsewhere(model: Model, cluster: Cluster, costs: Costs, microbatches: int, seed: int) -> list[Plan]:
    """What searches from other sides find: they see what one order of the devices, or all pairs at once, do not."""
    found = [
        annealing(model, cluster, costs, microbatches, seed=seed, evaluations=ANNEALED),
        alpa(model, cluster, costs, microbatches),
        data_parallel(model, cluster, costs, microbatches),
    ]
    if len(cluster.devices) <= FEW:  # on more, dapple alone takes seconds
        found.append(dapple(model, cluster, costs, microbatches))
    return found


def _promising(  # noqa: PLR0917 - a problem has its parts
    model: Model, cluster: Cluster, costs: Costs, microbatches: int, seed: int, most: int
) -> Iterator[Plan]:
    """Different plans, those of each way of looking at the network in turn, best first by their own estimate."""
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
    """RDO and RDO with jittered bandwidths (up to 256 devices), clustering, and the cluster's own order."""
    weights, literal = bandwidths(cluster), len(cluster.devices) <= LITERAL
    jittered = weights * np.exp(np.random.default_rng(seed).normal(0, JITTER, weights.shape))
    cuts = [by_minimum_cuts(w) for w in (weights, np.minimum(jittered, jittered.T))] if literal else []
    found = [*cuts, hierarchical(cluster), given(cluster)]
    return [order for n, order in enumerate(found) if order not in found[:n]]


def _ranked(
    costs: Costs, cluster: Cluster, order: list[int], microbatches: int, *, shared: bool
) -> list[tuple[Solution, list[int]]]:
    """Plans for one order: those that keep fill and bottleneck small, then PRM's best."""
    tables = tables_of(costs, cluster, order, microbatches)
    if shared:
        tables = contended(tables, cluster, order)
    # One stage on all devices is a plan, and keeps this T: a start that is always within reach.
    together = float(tables.seconds[:, -1, -1].max() + tables.reduce[0, -1] * tables.parameters[-1])
    filling = solutions(tables, microbatches, together)
    found = [(solution, order) for solution in filling[::-1][:3]]
    if not shared:
        best = sorted(prm(costs, cluster, order, microbatches).values())[:2]
        found += [(solution, order) for solution in best]
    return found
