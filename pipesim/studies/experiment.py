"""One way through the house, with things called by their names: load, plan, order, lower, replay."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.analysis import bounds, metrics
from pipesim.base import files, lookup, serialisation
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, quoted
from pipesim.core import limits
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import SCALINGS, Costs, Scaling, costs_of
from pipesim.core.limits import HostMemory
from pipesim.core.members import PlannerInfo, ProblemSize, info_of
from pipesim.core.plan import DERIVED_KEYS, Plan
from pipesim.core.program import Program
from pipesim.core.scenario import CALM, Scenario
from pipesim.core.schedule import INPUT, WEIGHT, Schedule
from pipesim.core.timeline import Timeline
from pipesim.core.trace import Trace
from pipesim.engines import ENGINES
from pipesim.importers.opening import open_trace
from pipesim.lowering import DEFAULTS, Options, Setup, lower, redraw
from pipesim.planners import PLANNERS
from pipesim.studies.ordering import Scheduler, named, ordered_with, schedule_with
from pipesim.studies.pricing import prices, simulated_seconds
from pipesim.topologies import TOPOLOGIES
from pipesim.topologies.hosts import cluster_file

__all__ = ["make_case", "ordered_with", "run", "schedule_with", "simulate"]

Planner = Callable[..., Plan]

MOST_JITTER = 10.0  # a standard deviation of ten means; what varies more is no measurement of one thing

# Where the traces that come with pipesim are: inside the installed package, or beside it in a checkout.
_PACKAGE = Path(__file__).parents[1]
_BUNDLES = (_PACKAGE / "_traces", _PACKAGE.parent / "traces")


# --- by name ---------------------------------------------------------------------------------------------------------


def bundled_traces() -> dict[str, Path]:
    """The traces that come with pipesim, by name."""
    folders = (header.parent for root in _BUNDLES for header in sorted(root.glob("*/*/trace.toml")))
    found: dict[str, Path] = {}
    for folder in folders:
        found.setdefault(folder.name, folder)
    return found


def load_trace(trace: Trace | Path | str) -> Trace:
    """A trace folder, a file of any importable format, or the name of a trace that comes with pipesim."""
    if isinstance(trace, Trace):
        return trace
    path = Path(trace)
    if not str(trace) or not files.exists(path):
        bundled = bundled_traces()
        if str(trace) not in bundled:
            raise InputError(
                f"no trace at {quoted(str(trace))}, and none is called so; {lookup.suggest(str(trace), bundled)}"
            )
        path = bundled[str(trace)]
    return open_trace([path])


def load_cluster(cluster: Cluster | Path | str) -> Cluster:
    """A cluster file, a machine's own description, or an expression as `servers(2, 8, intra="25GB/s", inter="1GB/s")`.

    A description is the output of `nvidia-smi topo -m` or a topology dump of NCCL.
    """
    if isinstance(cluster, Cluster):
        return cluster
    if isinstance(cluster, Path) or cluster_file.is_file(cluster, TOPOLOGIES):
        return cluster_file.load(Path(cluster))
    made = lookup.call(cluster, TOPOLOGIES, "cluster")
    if not isinstance(made, Cluster):
        raise InputError(f"cluster {quoted(cluster)}: returned a {type(made).__name__}; a Cluster was expected")
    return made


def load_plan(path: Path | str) -> Plan:
    """A plan as `pipesim plan --json` prints it, or as `serialisation.save` writes it."""
    return serialisation.load(Plan, Path(path), ignore=DERIVED_KEYS)


def load_scenario(path: Path | str) -> Scenario:
    """Slow devices and degraded links from a file."""
    return serialisation.load(Scenario, Path(path))


def make_plan(  # noqa: PLR0917 - as `make_case`
    trace: Trace | Path | str,
    cluster: Cluster | Path | str,
    planner: Planner | str = "balanced",
    microbatches: int = 8,
    microbatch_size: int | None = None,
    scaling: Scaling = "recorded",
    host_memory: HostMemory = None,
) -> Plan:
    """Split a model over a cluster; `host_memory` is that of `make_case`."""
    costs = costs_of(load_trace(trace), microbatch_size, scaling=scaling)
    return plan_with(planner, costs, load_cluster(cluster), microbatches, host_memory)


def plan_with(
    planner: Planner | str, costs: Costs, cluster: Cluster, microbatches: int, host_memory: HostMemory = None
) -> Plan:
    """The plan of a planner, by name or as a function; refused unless it fits model and cluster.

    Refused too, before it is looked for, if the planner's tables would take more than `host_memory`.
    """
    function: Planner = lookup.resolve(planner, PLANNERS, "planner") if isinstance(planner, str) else planner
    check_kinds(costs, cluster)
    with named("planner", planner):
        lookup.check_takes(function, "model, cluster, costs, microbatches")
        plans.check_microbatches(microbatches)
        _check_tables(function, planner, costs, cluster, host_memory)
        given = prices(function, costs, cluster, host_memory)
        plan = function(costs.model, cluster, costs, microbatches, **given)
        if not isinstance(plan, Plan):
            raise InputError(f"returned a {type(plan).__name__}; a Plan was expected")
        plans.check_fits(plan, costs.model, cluster)
    return plan


def _check_tables(
    function: Planner, planner: Planner | str, costs: Costs, cluster: Cluster, host_memory: HostMemory
) -> None:
    """Refuse a planner whose tables do not fit, before it makes them."""
    keywords = getattr(function, "keywords", {})
    nodes, kinds = ({getattr(device, column) for device in cluster.devices} for column in ("node", "kind"))
    most = next((keywords[key] for key in ("stages", "most_stages") if isinstance(keywords.get(key), int)), None)
    size = ProblemSize(len(costs.model), len(cluster.devices), len(nodes), len(kinds), most)
    name = planner.partition("(")[0].strip() if isinstance(planner, str) else getattr(planner, "__name__", "given")
    limits.check_planner(host_memory, name, size, info_of(function, PlannerInfo).tables(size))


def check_kinds(costs: Costs, cluster: Cluster) -> None:
    """Refuse devices that the trace has no times for, before anybody plans with them."""
    for device in cluster.devices:
        costs.recorded_kind(device.kind)


def run(program: Program, engine: str = "auto", watch: Callable[[int], None] | None = None) -> Timeline:
    """Replay a program on an engine; `watch` is told now and then how many tasks have ended."""
    function: Callable[..., Timeline] = lookup.function_named(engine, ENGINES, "engine")
    if engine in ENGINES:
        return function(program, watch=watch)
    with lookup.calling(engine, "engine"):
        lookup.check_takes(function, "program, watch=")
        timeline = function(program, watch=watch)
        if not isinstance(timeline, Timeline):
            raise InputError(f"returned a {type(timeline).__name__}; a Timeline was expected")
    return timeline


# --- one simulation --------------------------------------------------------------------------------------------------


def schedule_bound(setup: Setup) -> float | None:
    """Seconds that no schedule of this plan can beat which leaves backwards whole; None if this one splits them."""
    if np.isin(setup.schedule.kind, [INPUT, WEIGHT]).any():
        return None
    return _least_part(setup) * bounds.schedule_bound(setup.plan, setup.costs, setup.cluster)


def weight_share(setup: Setup) -> float | None:
    """The part of a whole backward taken as the weights' gradient; None if none is split, or both were recorded."""
    return setup.costs.weight_share if np.isin(setup.schedule.kind, [INPUT, WEIGHT]).any() else None


def bound(setup: Setup) -> float:
    """Seconds that no plan and schedule of this sort can beat on this cluster, in this scenario or a worse one."""
    in_step = setup.scenario == CALM and setup.options.transfers == "eager"  # nothing delays one replica only
    return _least_part(setup) * bounds.bound_for(
        setup.plan, setup.schedule, setup.costs, setup.cluster, setup.options.sharing, in_step=in_step
    )


def _least_part(setup: Setup) -> float:
    """What part of its time a task takes at the least: devices may be faster, and actions that are one."""
    part = math.prod(min(1.0, slow.factor) for slow in setup.scenario.slow)
    if not setup.schedule.paired.any():
        return part
    factor = setup.options.pair_factor
    return part * (1 - setup.options.pair_overlap / 2 if factor is None else min(1.0, factor))


def seconds_by_scaling(setup: Setup, timeline: Timeline) -> dict[str, float] | None:
    """Seconds of this plan and schedule when shares take what was recorded, and when they take just their share.

    None where it makes no difference: no stage splits its microbatches, or only one size was recorded. `timeline` is
    what came out under the scaling of these costs.
    """
    if not _scaling_matters(setup.plan, setup.costs):
        return None
    own, found = setup.costs.scaling, dict.fromkeys(map(str, SCALINGS), metrics.iteration_time(timeline))
    for other in (scaling for scaling in SCALINGS if scaling != own):
        scaled = replace(setup, costs=replace(setup.costs, scaling=other))
        found[other] = metrics.iteration_time(run(lower(scaled), timeline.engine))
    return found


def _scaling_matters(plan: Plan, costs: Costs) -> bool:
    return costs.is_curved and any(plan.share(n) < 1 for n in range(len(plan.stages)))


def plan_seconds_by_scaling(plan: Plan, costs: Costs, cluster: Cluster) -> dict[str, float] | None:
    """As `seconds_by_scaling`, for the better of the schedules that planners reckon with."""
    if not _scaling_matters(plan, costs):
        return None
    return {each: simulated_seconds(replace(costs, scaling=each), cluster, plan) for each in SCALINGS}


def make_case(  # noqa: PLR0917 - the nouns of a simulation, in the order of the pipeline
    trace: Trace | Path | str,
    cluster: Cluster | Path | str,
    plan: Plan | Planner | str = "balanced",
    scheduler: Scheduler | Schedule | str = "one_f_one_b",
    microbatches: int = 8,
    microbatch_size: int | None = None,
    options: Options = DEFAULTS,
    scenario: Scenario = CALM,
    scaling: Scaling = "recorded",
    weight_share: float = 0.5,
    host_memory: HostMemory = None,
) -> Setup:
    """Load, plan and order; `plan` is a Plan or what makes one. `weight_share` is that of `costs_of`.

    What would take more than `host_memory` bytes (or "8GB") of this machine's memory is refused before it is made; by
    default that is half of it.
    """
    recorded = load_trace(trace)
    costs = costs_of(recorded, microbatch_size, weight_share=weight_share, scaling=scaling)
    cluster = load_cluster(cluster)
    if not isinstance(plan, Plan):
        plans.check_microbatches(microbatches)
        limits.check_microbatches(host_memory, microbatches)
    made = plan if isinstance(plan, Plan) else plan_with(plan, costs, cluster, microbatches, host_memory)
    plans.check_fits(made, costs.model, cluster)
    check_kinds(costs, cluster)
    made, schedule = ordered_with(scheduler, made, costs, cluster, options, host_memory)
    return Setup(made, schedule, costs, cluster, options, scenario)


def simulate(  # noqa: PLR0917 - as `make_case`
    trace: Trace | Path | str,
    cluster: Cluster | Path | str,
    plan: Plan | Planner | str = "balanced",
    scheduler: Scheduler | Schedule | str = "one_f_one_b",
    microbatches: int = 8,
    microbatch_size: int | None = None,
    scenario: Scenario | Path | str = CALM,
    engine: str = "auto",
    scaling: Scaling = "recorded",
    host_memory: HostMemory = None,
    **options: Any,  # noqa: ANN401 - the fields of Options
) -> Timeline:
    """Plan, order and replay one iteration.

    `plan` is a Plan, a planner's name or a planner; it decides the microbatches if it is a Plan. `options` are those of
    `Options`: sharing, transfers, optimizer_s_per_byte, optimizer_state. `scaling` is that of `costs_of`, `host_memory`
    that of `make_case`.
    """
    calm = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    how = Options(**options), calm, scaling
    setup = make_case(trace, cluster, plan, scheduler, microbatches, microbatch_size, *how, host_memory=host_memory)
    return run(lower(setup), engine)


# --- many simulations ------------------------------------------------------------------------------------------------


def check_replay(
    setup: Setup, iterations: int, seed: int, jitter: float, host_memory: HostMemory = None
) -> None:  # fmt: skip
    """Refuse a replay that cannot be drawn, in which nothing would vary, or that draws more at once than fits."""
    limits.check_draws(host_memory, setup.plan.microbatches, len(setup.costs.model))
    check_at_least("iterations", iterations)
    if not 0 <= jitter <= MOST_JITTER:
        raise InputError(f"jitter = {jitter} found; 0 to {MOST_JITTER:g} was expected (0.05: times vary by 5 %)")
    if seed < 0:
        raise InputError(f"seed = {seed} found; 0 or more was expected")
    if not setup.costs.is_random and not jitter:
        raise InputError(
            f"the trace of {setup.costs.model.name!r} has one sample per layer, so every iteration would be the same; "
            "say how much times vary with jitter (0.05: by 5 %)"
        )


def replay(  # noqa: PLR0917 - what is drawn, how, by whom
    setup: Setup,
    iterations: int,
    seed: int = 0,
    jitter: float = 0.0,
    engine: str = "auto",
    host_memory: HostMemory = None,
) -> Iterator[float]:
    """Seconds of one iteration after the other, every layer's time drawn anew from its samples for every microbatch.

    Iteration i depends on the seed and on i alone, not on how many there are.
    """
    check_replay(setup, iterations, seed, jitter, host_memory)
    program = lower(setup)
    for number in range(iterations):
        child = np.random.SeedSequence(seed, spawn_key=(number,))
        drawn = redraw(program, setup, rng=np.random.default_rng(child), jitter=jitter)
        yield metrics.iteration_time(run(drawn, engine))


def replay_statistics(seconds: Iterable[float], seed: int = 0) -> dict[str, float]:
    """Mean, percentiles and a confidence interval of what `replay` yields."""
    return metrics.statistics(np.fromiter(seconds, np.float64), np.random.default_rng(seed))


def channel_seconds(setup: Setup, timeline: Timeline) -> float:
    """Seconds of the same schedule on the abstract network that planners assume: what contention costs is the rest."""
    if not setup.sharing_rule.has_links:
        return metrics.iteration_time(timeline)
    abstract = replace(setup, options=replace(setup.options, sharing="channel"), scenario=Scenario(setup.scenario.slow))
    return metrics.iteration_time(run(lower(abstract)))
