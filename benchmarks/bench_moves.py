"""Local moves of a plan, each simulated; when a move first matters; and a ledger whose runs resume earlier ones."""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from math import inf

from pipesim.analysis.ledger import ledger
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.core.limits import Limit
from pipesim.core.plan import Plan, Stage
from pipesim.core.timeline import Timeline
from pipesim.core.trace import Trace
from pipesim.engines import by_name, compiled
from pipesim.lowering import Options, Setup, lower
from pipesim.planners.abstract_cost import begin_of, with_limit
from pipesim.planners.spp_plus import spp_plus
from pipesim.planners.spp_plus.polish import polished
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies import pricing
from pipesim.studies.loading import load_cluster

Row = tuple[str, str, str]
LAYERS, STAGES, MICROBATCHES, MOVES, REPEATS = 64, 16, 64, 400, 3
MEMORY = Limit(1e10, "a benchmark")


def problem() -> tuple[Costs, Cluster, Plan]:
    """Layers that are not quite even, in a row of devices each of whose neighbours is in another server."""
    drawn = random.Random(0)  # noqa: S311 - no secret
    layers = {
        "layer": list(range(LAYERS)),
        "name": [f"layer{n}" for n in range(LAYERS)],
        "forward_s": [drawn.uniform(2e-4, 3e-4) for _ in range(LAYERS)],
        "backward_s": [drawn.uniform(4e-4, 6e-4) for _ in range(LAYERS)],
        "output_bytes": [333_000] * LAYERS,
        "parameter_bytes": [8_000_000] * LAYERS,
    }
    costs, cluster = costs_of(Trace("uneven", "benchmark", 1, layers)), load_cluster('servers(4, 4, "25GB/s", "1GB/s")')
    order = [cluster.devices[4 * (n % 4) + n // 4].name for n in range(STAGES)]
    each = LAYERS // STAGES
    stages = tuple(Stage(each * n, each * (n + 1), (order[n],)) for n in range(STAGES))
    return costs, cluster, Plan(costs.model.name, LAYERS, MICROBATCHES, stages)


def cpu(call: Callable[[], object]) -> float:
    """Seconds of CPU of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def wall(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    costs, cluster, plan = problem()
    first = pricing.estimated_seconds(costs, cluster, plan)

    def price(tried: Plan, least: float) -> float:
        return pricing.estimated_seconds(costs, cluster, tried, least, MEMORY)

    def search() -> int:
        return polished(plan, price, lambda _: 0.0, MOVES, first)[2]

    def search_as_planned() -> int:
        estimate = pricing.prices(spp_plus, costs, cluster, MEMORY)["estimate"]
        return polished(plan, with_limit(estimate), lambda _: 0.0, MOVES, first, begin_of(estimate))[2]

    search()
    seconds = statistics.median(cpu(search) for _ in range(REPEATS))
    waited = statistics.median(wall(search_as_planned) for _ in range(REPEATS))
    matters = list(_first_differences(costs, cluster, plan, first))
    return [
        (
            f"local moves of {STAGES} stages x {MICROBATCHES} microbatches over shared NICs, a second of CPU",
            f"{MOVES / seconds:.0f}",
            "",
        ),
        ("... as spp_plus has them priced, a second of time, two processes", f"{MOVES / waited:.0f}", ""),
        ("... part of the iteration before a move first matters, mean", f"{statistics.mean(matters):.1%}", ""),
        *_ledgers(costs),
    ]


def _first_differences(costs: Costs, cluster: Cluster, plan: Plan, least: float) -> Iterator[float]:
    """For each move how much of an iteration is the same as in that of the best plan until then."""
    best: tuple[float, Timeline] | None = None
    found: list[float] = []

    def price(tried: Plan, _: float) -> float:
        nonlocal best
        timeline = compiled.run(lower(Setup(tried, one_f_one_b(tried, costs, cluster, warm_up="3A"), costs, cluster)))
        if best is not None:
            found.append(min(1.0, _same_until(best[1], timeline) / timeline.makespan))
        if best is None or timeline.makespan < best[0]:
            best = timeline.makespan, timeline
        return best[0] if timeline is best[1] else inf

    price(plan, inf)
    polished(plan, price, lambda _: 0.0, MOVES // 2, least)
    return iter(found)


def _same_until(one: Timeline, other: Timeline) -> float:
    """When two timelines first differ: in what runs, between which devices, or when it starts or ends."""
    sets = []
    for timeline in (one, other):
        program, devices = timeline.program, timeline.program.devices
        ends = ((devices[a], devices[b]) for a, b in zip(program.source.tolist(), program.target.tolist(), strict=True))
        columns = (program.kind, program.stage, program.microbatch, timeline.start, timeline.end)
        sets.append(set(zip(ends, *(column.tolist() for column in columns), strict=True)))
    return min((row[-2] for row in sets[0] ^ sets[1]), default=inf)


def _ledgers(costs: Costs) -> Iterator[Row]:
    """A ledger of a large iteration, each of its runs from the beginning, and resumed where that is possible."""
    cluster = load_cluster('servers(8, 8, "25GB/s", "10GB/s")')
    names = [device.name for device in cluster.devices]
    plan = Plan("uneven", LAYERS, 512, tuple(Stage(16 * n, 16 * (n + 1), tuple(names[n::4])) for n in range(4)))
    options = Options("fair", optimizer_s_per_byte=1e-11)
    program = lower(Setup(plan, one_f_one_b(plan, costs, cluster), costs, cluster, options))
    timeline = compiled.run(program)
    ledger(program, by_name.makespans("compiled", timeline))
    pairs = [
        (
            cpu(lambda: ledger(program, lambda one: compiled.run(one).makespan)),
            cpu(lambda: ledger(program, by_name.makespans("compiled", timeline))),
        )
        for _ in range(REPEATS)
    ]
    saved = statistics.median(1 - resumed / whole for whole, resumed in pairs)
    yield f"ledger of {len(program):,} tasks: less time since its runs begin where they differ", f"{saved:.0%}", ""
