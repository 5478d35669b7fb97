"""An extension of SPP, ours: several device orders, contended channels, fill and drain, idle devices, local moves.

for each order of the devices:   SPP's plans, and plans that keep fill, drain and bottleneck small together,
                                 each with channels as SPP sees them and as the links really share them
for islands of devices:          plans that keep the inequalities of the bound; these may leave devices idle
from other planners:             what they find
all are simulated; the best few are improved by local moves
"""

import functools
import inspect
from collections.abc import Container, Iterator
from dataclasses import replace
from math import inf
from typing import Any

from pipesim.analysis.bounds import schedule_bound
from pipesim.analysis.channels import Known, execute
from pipesim.base.checks import check_at_least
from pipesim.base.errors import DoesNotFitError, InputError
from pipesim.base.kernels import is_compiling
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import machine_memory
from pipesim.core.members import PlannerInfo, ProblemSize, info_of
from pipesim.core.model import Model
from pipesim.core.plan import REPLICAS, Plan, Replicas, Stage
from pipesim.core.teams import Team, Widths
from pipesim.planners.abstract_cost import Begin, Cost, CostBelow, abstract_cost, begin_of, with_limit
from pipesim.planners.annealing import annealing
from pipesim.planners.spp import holds, memory_limit, spp
from pipesim.planners.spp.contention import shared_pipeline
from pipesim.planners.spp.prm import MemoryLimit
from pipesim.planners.spp.rdo import given
from pipesim.planners.spp_plus import polish
from pipesim.planners.spp_plus.candidates import ANNEALED, ASKED, MANY, candidates
from pipesim.planners.spp_plus.chunked import chunked
from pipesim.planners.spp_plus.polish import polished, with_next
from pipesim.planners.spp_plus.team_widths import TeamCost, problems, regrouped, widths_of

EVALUATIONS = ((16, 200), (32, 400), (128, 120))  # on up to so many devices
LESS = 40  # evaluations on more devices, where each takes long
PROCESSES, SHARE = 4, 0.25  # that make candidates: at most so many, with tables in this part of the machine's memory
POLISHED = 3  # plans that local moves start from
NEAR = 1.1  # on more than MANY devices only plans whose estimate is within this of the best are improved and timed

Key = tuple[tuple[Stage, ...], Replicas, tuple[Team, ...]]


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
    teams: bool = False,
    processes: int | None = None,
) -> Plan:
    """Minimises simulated seconds over SPP's plan, other orders and partitions, and local moves on the best of them.

    `estimate` gives the seconds of a plan, `exact` decides between its choice and SPP, so that by it the result is
    never worse than SPP; where they are not given, PE's time on the abstract pipeline is used. From the command line
    both simulate on the contended network, with the best of some schedules. `evaluations` bounds how often estimates
    are asked for: by default 200 times on up to 16 devices, 400 on up to 32, 120 on up to 128, and 40 on more, where
    only plans whose estimate is within a tenth of the best, SPP's too, are improved and timed. Devices that do not
    help stay idle; replicas split microbatches or, where they are simulated, take them whole. `memory` is as that of
    spp: only plans whose stages hold the microbatches in flight of this schedule are compared. With `chunks` devices
    may have up to so many stages each, in a loop or a wave; `split`: plans are also simulated with schedules that
    split backwards. With `teams` (`--tensor any`) replicas are teams of the widths of the costs: the best plans of each
    width, and local moves that change the width of a stage. At most so many `processes` make candidates: as many as
    there are cores, up to four, if their tables fit in a quarter of the memory of this machine, or from the command
    line in half of --host-memory. Ignores memory unless asked.
    """
    plans.check_microbatches(microbatches)
    if evaluations is None:
        evaluations = next((most for devices, most in EVALUATIONS if len(cluster.devices) <= devices), LESS)
    check_at_least("evaluations", evaluations, 1)
    check_at_least("seed", seed, 0)
    check_at_least("chunks", chunks, 1)
    _check_simulated(estimate, exact, chunks=chunks, split=split, teams=teams)
    if teams and estimate and exact:
        options = {
            "evaluations": evaluations,
            "seed": seed,
            "memory": memory,
            "chunks": chunks,
            "split": split,
            "processes": processes,
        }
        return _with_teams(costs, cluster, microbatches, estimate, exact, options)
    ways = REPLICAS if estimate else REPLICAS[:1]
    estimate = estimate or abstract_cost(costs, cluster, evaluations + ANNEALED)
    price, begin = with_limit(estimate, split=split), begin_of(estimate, split=split)
    limit = memory_limit(costs, cluster, given(cluster), microbatches, memory) if memory else None
    processes = _most_processes(processes, ProblemSize(len(model), len(cluster.devices)))
    most = max(evaluations // 4, 1)
    first, literal, *others = candidates(costs, cluster, microbatches, ways, seed, memory, most, processes)
    known: dict[Key, Plan] = {}
    for plan in [literal, *others]:
        if plan.replicas in ways and (limit is None or holds(limit, cluster, plan)):
            known.setdefault(_key(plan), plan)

    def floor(plan: Plan) -> float:
        fits = limit is None or holds(limit, cluster, plan)
        if not fits:
            return inf
        return 0.0 if split else schedule_bound(plan, costs, cluster)  # which is of whole backwards

    near = NEAR if len(cluster.devices) > MANY else inf
    chosen = _best(_by_pe(list(known.values()), costs, cluster), price, begin, floor, evaluations, near)
    if chunks > 1:
        several = [made for plan in chosen for made in chunked(plan, costs, cluster, chunks)]
        chosen += _best(dict(enumerate(several)), price, begin, floor, evaluations, near)
    judged = [*chosen, literal, first]
    if near < inf:
        most_seconds = near * min(price(plan, inf) for plan in chosen)
        judged = [plan for plan in judged if price(plan, most_seconds) < inf]
    if exact:
        price, begin = with_limit(exact, split=split), begin_of(exact, split=split)
    plan, least = _fastest(judged, price, begin)
    return Plan(model.name, len(model), microbatches, plan.stages, plan.replicas, "spp_plus", least)


def _key(plan: Plan) -> Key:
    return plan.stages, plan.replicas, plan.teams


def _fastest(plans: list[Plan], price: CostBelow, begin: Begin) -> tuple[Plan, float]:
    """The plan with the least price, the first of equal ones, and the price; the last plan where none has any."""
    different = dict[Key, Plan]()
    for plan in plans:
        different.setdefault(_key(plan), plan)
    least, best = inf, plans[-1]
    for plan, following in with_next(different.values()):
        if following is not None:
            begin(following, least)
        seconds = price(plan, least)
        if seconds < least:
            least, best = seconds, plan
    return best, least


def _most_processes(given: int | None, size: ProblemSize) -> int:
    """So many processes, or as many as have room for their tables; one beside another that compiles."""
    if given is None:
        given = int(max(1, SHARE * machine_memory() // table_bytes(size)))
    check_at_least("processes", given, 1)
    return 1 if is_compiling() else min(PROCESSES, given)


def _with_teams(  # noqa: PLR0917 - the parts of the problem
    costs: Costs, cluster: Cluster, microbatches: int, estimate: Cost, exact: Cost, options: dict[str, Any]
) -> Plan:
    """The best plans of each width, improved by moves that change the width of a stage too."""
    memory, split, found = options["memory"], options["split"], list[Plan]()
    limits: dict[Widths, MemoryLimit] = {}
    for of in problems(costs, cluster):
        try:
            plan = spp_plus(
                of.costs.model, of.cluster, of.costs, microbatches, estimate=TeamCost(estimate, of),
                exact=TeamCost(exact, of), **options,
            )  # fmt: skip
        except DoesNotFitError:
            continue
        found.append(of.with_teams(plan))
        if memory:
            limits[of.widths] = memory_limit(of.costs, cluster, given(cluster), microbatches, memory)
    if not found:
        raise DoesNotFitError(f"no plan fits the memory of cluster {cluster.name!r}, of whatever width its teams are")

    def floor(plan: Plan) -> float:
        if memory and not (set(widths_of(plan)) <= set(limits) and holds(limits, cluster, plan)):
            return inf
        return 0.0 if split else schedule_bound(plan, costs, cluster)

    def steps(plan: Plan, seen: Container[polish.Key]) -> Iterator[Plan]:
        yield from regrouped(plan, costs, cluster)
        yield from polish.moved(plan, seen)

    price, begin = with_limit(estimate, split=split), begin_of(estimate, split=split)
    left, better = options["evaluations"], list[Plan]()
    for place, plan in enumerate(sorted(found, key=lambda plan: plan.objective_s or inf)[:POLISHED]):
        share = left // (min(POLISHED, len(found)) - place)
        made, _, used = polished(plan, price, floor, share, price(plan, inf), begin, steps)
        left -= used
        better.append(made)
    price, begin = with_limit(exact, split=split), begin_of(exact, split=split)
    plan, least = _fastest([*better, *found], price, begin)
    return replace(plan, planner="spp_plus", objective_s=least)


def _check_simulated(
    estimate: Cost | None, exact: Cost | None, *, chunks: int, split: bool, teams: bool = False
) -> None:
    """Refuse what costs that are given, or PE's time, know nothing of."""
    asked = f"chunks = {chunks}" if chunks > 1 else "split = True" if split else "teams = True" if teams else ""
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


def _best(  # noqa: PLR0917 - what a search has
    candidates: dict[int, Plan], price: CostBelow, begin: Begin, floor: Cost, evaluations: int, near: float
) -> list[Plan]:
    """The best few of these, of equal ones those with lower numbers, each improved by local moves.

    As long as there are evaluations. A plan whose `floor`, which its price is never below, is no less than the price
    of the best few, or than `near` times the best, is not priced.
    """
    left, priced, found = evaluations, list[tuple[float, int]](), list[Plan]()
    floors = functools.cache(lambda n: floor(candidates[n]))

    def limit() -> float:
        least = near * priced[0][0] if priced and near < inf else inf
        return min(priced[-1][0], least) if len(priced) == POLISHED else least

    def is_worth(n: int) -> bool:
        return limit() == inf or floors(n) < limit()

    for n, following in with_next(n for n in candidates if is_worth(n)):
        if left and is_worth(n):  # still
            if following is not None and left > 1:
                begin(candidates[following], limit())
            priced = sorted([*priced, (price(candidates[n], limit()), n)])[:POLISHED]
            left -= 1
    priced = [one for one in priced if one[0] <= limit()]
    for place, (seconds, n) in enumerate(priced):
        share = left // (len(priced) - place)
        better, _, used = polished(candidates[n], price, floor, share, seconds, begin)
        left -= used
        found.append(better)
    return found
