"""SPP, our reconstruction of the planner of INFOCOM 2022 (Luo et al.).

    order = RDO(all devices);   for x in 1 .. min(V, L):   plan = PRM(order, x), time = PE(plan);   keep the fastest

`rdo` orders the devices, `prm` partitions and replicates for every number of stages, `channels.execute` is PE.

Only the abstract of the paper was available: it minimises the time of a synchronous iteration over any connectivity
of GPUs, by a partition with device mapping and by an order of the microbatches. The formulas of RDO, PRM and PE are
reconstructed. Our own choices among them: the smaller side of a cut comes first; all replica pairs of two stages send
at once; a channel is one half-duplex machine; PE runs blocks in cycle order. What is extended: read literally, every
pair of devices has its nominal bandwidth (`bandwidth="nominal"`); by default pairs share links (`contention`).
"""

from collections.abc import Callable, Mapping

import numpy as np

from pipesim.analysis.channels import Known, execute, pipeline_of
from pipesim.base.checks import check_at_least, check_one_of
from pipesim.base.errors import DoesNotFitError
from pipesim.base.units import to_s
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.core.teams import Widths
from pipesim.lowering import state_factor
from pipesim.planners.spp.bottlenecks import GroupTables
from pipesim.planners.spp.contention import contended, shared_bandwidths, shared_pipeline
from pipesim.planners.spp.prm import (
    MemoryLimit,
    Partition,
    even_partitions,
    is_small,
    next_limit,
    partitions,
    prm,
    tables_of,
)
from pipesim.planners.spp.rdo import ordered

BANDWIDTHS = ("nominal", "shared")
Timed = tuple[int, int, Plan]
"""Nanoseconds of a plan by PE, its number, and the plan."""

IN_FLIGHT = ("one_f_one_b", "gpipe", "pe")


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices, of the tables of the search, and of its back-pointers."""
    L, V = size.layers, size.devices
    searched = 16 * ((V + 1) ** 2 * (L + 1) + (V + 1) ** 3) + 8 * size.kinds * V * L
    # With x stages to come, each takes a device and a layer.
    traced = sum((V - x + 1) * (V - x + 2) // 2 * (L - x + 1) for x in range(1, size.stages + 1))
    return PER_PAIR * V**2 + searched + 4 * traced


@PlannerInfo(tables=table_bytes, look=0)
def spp(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    order: str = "auto",
    most_stages: int | None = None,
    memory: str = "",
    bandwidth: str = "shared",
) -> Plan:
    """Minimises PE's time on the abstract pipeline over all numbers of stages, in one order of the devices.

    `order` is auto (rdo, above 256 devices hierarchical), rdo, hierarchical, given or random (seed 0). `memory` names
    the schedule whose microbatches in flight every stage must hold: one_f_one_b, or gpipe or pe, which may hold all.
    `bandwidth` is shared: RDO, PRM and PE give a pair what it has while all pairs of two groups of replicas send, and
    a ring is as slow as the NIC that it crosses; PE chooses between PRM's plans for this and for nominal bandwidths
    (our extension). Or it is nominal, each pair having its route for itself: the literal reading.
    Ignores contention between channels, latencies while partitioning, and memory unless asked; uses all devices.
    """
    plans.check_microbatches(microbatches)
    if most_stages is not None:
        check_at_least("most_stages", most_stages, 1)
    check_one_of("bandwidth", bandwidth, BANDWIDTHS)
    shared = bandwidth == "shared"
    sequence, name = ordered(cluster, order, shared_bandwidths(cluster) if shared else None)
    limit = memory_limit(costs, cluster, sequence, microbatches, memory) if memory else None
    tables = tables_of(costs, cluster, sequence, microbatches, limit)
    views = [tables]
    if shared:  # PE decides between both; it gives a pair what it has where links are shared
        apart = contended(tables, cluster, sequence)
        views = [apart, tables._replace(floor=apart.channel)]
    known: Known = {}

    def timed(solutions: list[Partition]) -> Timed | None:
        candidates = [plan_of(model, cluster, sequence, solution, microbatches) for solution in solutions]
        times = ((_pe_time(plan, costs, cluster, known, shared=shared), n, plan) for n, plan in enumerate(candidates))
        return min(times, default=None)

    def fastest(within: float) -> Timed | None:
        return timed([found for view in views for found in partitions(view, most_stages, within).values()])

    if is_small(tables):
        found = fastest(np.inf)
    else:
        even = [one for one in even_partitions(tables) if len(one.starts) <= (most_stages or np.inf)]
        found = _within(timed(even), tables, microbatches, fastest)
    if found is None:
        raise _nothing_fits(costs, cluster, sequence, microbatches, memory, most_stages)
    time, _, plan = found
    options = [] if order == "auto" and name == "rdo" else [f"order={name!r}"]
    options += [] if shared else ["bandwidth='nominal'"]
    label = f"spp({', '.join(options)})" if options else "spp"
    return Plan(plan.model, plan.layers, microbatches, plan.stages, "split", label, to_s(time))


def _within(
    even: Timed | None, tables: GroupTables, microbatches: int, fastest: Callable[[float], Timed | None]
) -> Timed | None:
    """The fastest of the plans whose bottleneck is no longer than the time of the fastest; that of `even` is a start.

    By PE a plan takes at least its bottleneck, but for blocks, which are rounded to nanoseconds, and for rings where
    links are shared: PRM takes the worst pair of a group, which PE's ring may avoid. Such a plan may be passed over.
    """
    rounding = 2 * microbatches + 2
    within = np.inf if even is None else to_s(even[0] + rounding)
    while (found := fastest(within)) is None and within < np.inf:
        within = next_limit(tables, within)
    if found is None or within == np.inf:
        return found
    time = to_s(found[0] + rounding)
    return found if time <= within else fastest(time)


def plan_of(model: Model, cluster: Cluster, order: list[int], solution: Partition, microbatches: int) -> Plan:
    """The plan of a partition: stage after stage takes the next devices of the order."""
    ends = np.cumsum(solution.replicas).tolist()
    bounds = [*solution.starts, len(model)]
    names = [cluster.devices[i].name for i in order]
    stages = tuple(
        Stage(bounds[n], bounds[n + 1], tuple(names[end - k : end]))
        for n, (k, end) in enumerate(zip(solution.replicas, ends, strict=True))
    )
    return Plan(model.name, len(model), microbatches, stages, "split", "prm", solution.bottleneck)


def _pe_time(plan: Plan, costs: Costs, cluster: Cluster, known: Known, *, shared: bool) -> int:
    pipeline = (shared_pipeline if shared else pipeline_of)(plan, costs, cluster, known)
    return execute(pipeline).time(pipeline)


def memory_limit(costs: Costs, cluster: Cluster, order: list[int], microbatches: int, schedule: str) -> MemoryLimit:
    """What stages must hold under a schedule: its microbatches in flight at the x-th stage from the end."""
    check_one_of("memory", schedule, IN_FLIGHT)
    positions = np.arange(len(order) + 1)
    depth = np.minimum(positions, microbatches) if schedule == "one_f_one_b" else np.full_like(positions, microbatches)
    memory = np.array([cluster.devices[i].memory or np.inf for i in order], np.float64)
    model = costs.model
    static = model.parameter_bytes + model.trained_bytes * (state_factor(model.precision) - 1)
    return MemoryLimit(static, model.stash_bytes, memory, depth)


def holds(limit: MemoryLimit | Mapping[Widths, MemoryLimit], cluster: Cluster, plan: Plan) -> bool:
    """Whether each device of a plan holds what it must; where teams have several widths, by the limits for each.

    A device with several stages must hold all microbatches of each: how many are in flight depends on the schedule.
    """
    held, alone = dict[str, float](), len(plan.stages) == len({stage.devices for stage in plan.stages})
    for n, stage in enumerate(plan.stages):
        of = limit if isinstance(limit, MemoryLimit) else limit[plan.widths(n)]
        k, in_flight = len(stage.devices), int(of.in_flight[len(plan.stages) - n]) if alone else plan.microbatches
        kept = in_flight / k if plan.replicas == "split" else -(-in_flight // k)
        layers = slice(stage.start, stage.stop)
        own = float(of.static[layers].sum() + of.stash[layers].sum() * kept)
        for name in stage.devices:
            held[name] = held.get(name, 0.0) + own
    capacity = (limit if isinstance(limit, MemoryLimit) else next(iter(limit.values()))).capacity
    return all(own <= capacity[cluster.index[name]] for name, own in held.items())


def _nothing_fits(  # noqa: PLR0917 - the parts of the problem
    costs: Costs, cluster: Cluster, order: list[int], microbatches: int, schedule: str, most_stages: int | None
) -> DoesNotFitError:
    """An error about the plan, of those that are best without a limit, that lacks the least memory."""
    memory = memory_limit(costs, cluster, order, microbatches, schedule)
    static, stash = (np.concatenate([[0.0], np.cumsum(column)]) for column in (memory.static, memory.stash))
    worst = []
    for x, solution in prm(costs, cluster, order, microbatches, most_stages).items():
        bounds, device = [*solution.starts, len(static) - 1], 0
        short = []
        for n, k in enumerate(solution.replicas):
            a, b = bounds[n], bounds[n + 1]
            held = static[b] - static[a] + (stash[b] - stash[a]) / k * memory.in_flight[x - n]
            short.append((float(held - memory.capacity[device : device + k].min()), n, a, b, x))
            device += k
        worst.append(max(short))
    missing, n, a, b, x = min(worst)
    limit = "" if most_stages is None else f" of at most {most_stages} stages"
    return DoesNotFitError(
        f"no plan{limit} fits in memory; of the best plans the least short has {x} stages, and its stage {n} "
        f"(layers {a} to {b - 1}) is short by {missing:.0f} bytes on each of its devices"
    )
