"""An extension of SPP, ours: several device orders, contended channels, fill and drain, idle devices, local moves.

for each order of the devices:   SPP's plans, and plans that keep fill, drain and bottleneck small together,
                                 each with channels as SPP sees them and as the links really share them
for islands of devices:          plans that keep the inequalities of the bound; these may leave devices idle
from other planners:             what they find
all are simulated; the best few are improved by local moves
"""

import functools
import inspect
from math import inf

from pipesim.analysis.bounds import schedule_bound
from pipesim.analysis.channels import Known, execute
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError
from pipesim.base.kernels import is_compiling
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import machine_memory
from pipesim.core.members import PlannerInfo, ProblemSize, info_of
from pipesim.core.model import Model
from pipesim.core.plan import REPLICAS, Plan
from pipesim.planners.abstract_cost import Begin, Cost, CostBelow, abstract_cost, begin_of, with_limit
from pipesim.planners.annealing import annealing
from pipesim.planners.spp import holds, memory_limit, spp
from pipesim.planners.spp.contention import shared_pipeline
from pipesim.planners.spp.rdo import given
from pipesim.planners.spp_plus.candidates import ANNEALED, ASKED, MANY, candidates
from pipesim.planners.spp_plus.chunked import chunked
from pipesim.planners.spp_plus.polish import POLISHED, Key, fastest, key_of, polished, with_next
from pipesim.planners.spp_plus.team_widths import Improving, best_of_widths

EVALUATIONS = ((16, 200), (32, 400), (128, 120))  # on up to so many devices
LESS = 40  # evaluations on more devices, where each takes long
PROCESSES, SHARE = 4, 0.25  # that make candidates: at most so many, with tables in this part of the machine's memory
NEAR = 1.1  # on more than MANY devices only plans whose estimate is within this of the best are improved and timed


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
        of_one = functools.partial(spp_plus, seed=seed, chunks=chunks, processes=processes)
        options = Improving(evaluations, memory, split)
        return best_of_widths(of_one, costs, cluster, microbatches, (estimate, exact), options)
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
            known.setdefault(key_of(plan), plan)

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
    plan, least = fastest(judged, price, begin)
    return Plan(model.name, len(model), microbatches, plan.stages, plan.replicas, "spp_plus", least)


def _most_processes(given: int | None, size: ProblemSize) -> int:
    """So many processes, or as many as have room for their tables; one beside another that compiles."""
    if given is None:
        given = int(max(1, SHARE * machine_memory() // table_bytes(size)))
    check_at_least("processes", given, 1)
    return 1 if is_compiling() else min(PROCESSES, given)


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
