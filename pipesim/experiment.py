"""One way through the house, with things called by their names: load, plan, order, lower, replay, compare."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipesim import bounds, files, lookup, metrics, serial
from pipesim import plan as plans
from pipesim.cluster import Cluster
from pipesim.costs import SCALINGS, Costs, Phase, Scaling, costs_of
from pipesim.engines import ENGINES
from pipesim.errors import InputError, PipesimError
from pipesim.importers.opening import open_trace
from pipesim.lowering import DEFAULTS, Options, lower, redraw
from pipesim.ordering import Scheduler, named, ordered_with, schedule_with
from pipesim.plan import DERIVED_KEYS, Plan
from pipesim.planners import PLANNERS
from pipesim.pricing import prices, simulated_seconds
from pipesim.program import Program
from pipesim.scenario import CALM, Scenario
from pipesim.schedule import INPUT, WEIGHT, Schedule
from pipesim.schedulers import COMPARED, SCHEDULERS
from pipesim.timeline import Timeline
from pipesim.topologies import TOPOLOGIES
from pipesim.topologies.hosts import cluster_file
from pipesim.trace import Trace

__all__ = ["Case", "Row", "compare", "make_case", "ordered_with", "run", "schedule_with", "simulate"]

Planner = Callable[..., Plan]

# Where the traces that come with pipesim are: inside the installed package, or beside it in a checkout.
_PACKAGE = Path(__file__).parent
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
                f"no trace at {str(trace)!r}, and none is called so; {lookup.suggest(str(trace), bundled)}"
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
        raise InputError(f"cluster {cluster!r}: returned a {type(made).__name__}; a Cluster was expected")
    return made


def load_plan(path: Path | str) -> Plan:
    """A plan as `pipesim plan --json` prints it, or as `serial.save` writes it."""
    return serial.load(Plan, Path(path), ignore=DERIVED_KEYS)


def load_scenario(path: Path | str) -> Scenario:
    """Slow devices and degraded links from a file."""
    return serial.load(Scenario, Path(path))


def make_plan(  # noqa: PLR0917 - as `make_case`
    trace: Trace | Path | str,
    cluster: Cluster | Path | str,
    planner: Planner | str = "balanced",
    microbatches: int = 8,
    microbatch_size: int | None = None,
    scaling: Scaling = "recorded",
) -> Plan:
    """Split a model over a cluster."""
    costs = costs_of(load_trace(trace), microbatch_size, scaling=scaling)
    return plan_with(planner, costs, load_cluster(cluster), microbatches)


def plan_with(planner: Planner | str, costs: Costs, cluster: Cluster, microbatches: int) -> Plan:
    """The plan of a planner, by name or as a function; refused unless it fits model and cluster."""
    function: Planner = lookup.resolve(planner, PLANNERS, "planner") if isinstance(planner, str) else planner
    _check_kinds(costs, cluster)
    with named("planner", planner):
        lookup.check_takes(function, "model, cluster, costs, microbatches")
        given = prices(function, costs, cluster)
        plan = function(costs.model, cluster, costs, microbatches, **given)
        if not isinstance(plan, Plan):
            raise InputError(f"returned a {type(plan).__name__}; a Plan was expected")
        plans.check_fits(plan, costs.model, cluster)
    return plan


def _check_kinds(costs: Costs, cluster: Cluster) -> None:
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


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated: a plan and a schedule for it, with the costs and the cluster they were made for."""

    plan: Plan
    schedule: Schedule
    costs: Costs
    cluster: Cluster
    options: Options = DEFAULTS
    scenario: Scenario = CALM

    def program(self) -> Program:
        """All tasks of one iteration."""
        return lower(self.plan, self.schedule, self.costs, self.cluster, self.options, scenario=self.scenario)

    def schedule_bound(self) -> float | None:
        """Seconds that no schedule of this plan can beat which leaves backwards whole; None if this one splits them."""
        split = np.isin(self.schedule.kind, [INPUT, WEIGHT]).any()
        return None if split else bounds.schedule_bound(self.plan, self.costs, self.cluster)

    def weight_share(self) -> float | None:
        """The part of a whole backward taken as the weights' gradient; None if none is split, or both were recorded."""
        return self.costs.weight_share if np.isin(self.schedule.kind, [INPUT, WEIGHT]).any() else None

    def bound(self) -> float:
        """Seconds that no plan and schedule of this sort can beat."""
        return bounds.bound_for(self.plan, self.schedule, self.costs, self.cluster, self.options.sharing)

    def seconds_by_scaling(self, timeline: Timeline) -> dict[str, float] | None:
        """Seconds of this plan and schedule when shares take what was recorded, and when they take just their share.

        None where it makes no difference: no stage splits its microbatches, or only one size was recorded. `timeline`
        is what came out under the scaling of these costs.
        """
        if not _scaling_matters(self.plan, self.costs):
            return None
        own, found = self.costs.scaling, dict.fromkeys(map(str, SCALINGS), metrics.iteration_time(timeline))
        for other in (scaling for scaling in SCALINGS if scaling != own):
            case = replace(self, costs=replace(self.costs, scaling=other))
            found[other] = metrics.iteration_time(run(case.program(), timeline.engine))
        return found


def _scaling_matters(plan: Plan, costs: Costs) -> bool:
    return costs.is_curved and any(plan.share(n) < 1 for n in range(len(plan.stages)))


def plan_seconds_by_scaling(plan: Plan, costs: Costs, cluster: Cluster) -> dict[str, float] | None:
    """As `Case.seconds_by_scaling`, for the better of the schedules that planners reckon with."""
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
) -> Case:
    """Load, plan and order; `plan` is a Plan or what makes one. `weight_share` is that of `costs_of`."""
    recorded = load_trace(trace)
    costs = costs_of(recorded, microbatch_size, weight_share=weight_share, scaling=scaling)
    cluster = load_cluster(cluster)
    made = plan if isinstance(plan, Plan) else plan_with(plan, costs, cluster, microbatches)
    plans.check_fits(made, costs.model, cluster)
    _check_kinds(costs, cluster)
    made, schedule = ordered_with(scheduler, made, costs, cluster, options)
    return Case(made, schedule, costs, cluster, options, scenario)


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
    **options: Any,  # noqa: ANN401 - the fields of Options
) -> Timeline:
    """Plan, order and replay one iteration.

    `plan` is a Plan, a planner's name or a planner; it decides the microbatches if it is a Plan. `options` are those of
    `Options`: sharing, transfers, optimizer_s_per_byte, optimizer_state. `scaling` is that of `costs_of`.
    """
    calm = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    case = make_case(trace, cluster, plan, scheduler, microbatches, microbatch_size, Options(**options), calm, scaling)
    return run(case.program(), engine)


# --- many simulations ------------------------------------------------------------------------------------------------


def check_replay(case: Case, iterations: int, seed: int, jitter: float) -> None:
    """Refuse a replay that cannot be drawn, or in which nothing would vary."""
    if iterations < 1:
        raise InputError(f"iterations = {iterations} found; at least 1 was expected")
    if not 0 <= jitter < np.inf:
        raise InputError(f"jitter = {jitter} found; 0 or more was expected (0.05: times vary by 5 %)")
    if seed < 0:
        raise InputError(f"seed = {seed} found; 0 or more was expected")
    if not case.costs.is_random and not jitter:
        raise InputError(
            f"the trace of {case.costs.model.name!r} has one sample per layer, so every iteration would be the same; "
            "say how much times vary with jitter (0.05: by 5 %)"
        )


def replay(
    case: Case, iterations: int, seed: int = 0, jitter: float = 0.0, engine: str = "auto"
) -> Iterator[float]:  # fmt: skip
    """Seconds of one iteration after the other, every layer's time drawn anew from its samples for every microbatch.

    Iteration i depends on the seed and on i alone, not on how many there are.
    """
    check_replay(case, iterations, seed, jitter)
    program = case.program()
    for child in np.random.SeedSequence(seed).spawn(iterations):
        made_of = case.plan, case.costs, case.cluster, case.schedule, case.options
        drawn = redraw(program, *made_of, rng=np.random.default_rng(child), jitter=jitter)
        yield metrics.iteration_time(run(drawn, engine))


def replay_statistics(seconds: Iterable[float], seed: int = 0) -> dict[str, float]:
    """Mean, percentiles and a confidence interval of what `replay` yields."""
    return metrics.statistics(np.fromiter(seconds, np.float64), np.random.default_rng(seed))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a comparison: a planner with a scheduler, and what came of it or why nothing did."""

    planner: str
    scheduler: str
    timeline: Timeline | None = None
    schedule_bound_s: float | None = None
    bound_s: float | None = None
    by_scaling_s: Mapping[str, float] | None = None
    scaling: Scaling = "recorded"
    error: str = ""

    def as_data(self) -> dict[str, Any]:
        """Plain numbers and text."""
        head: dict[str, Any] = {"planner": self.planner, "scheduler": self.scheduler}
        if self.timeline is None:
            return head | {"error": self.error}
        peak = metrics.peak_memory(self.timeline)
        return head | {
            "iteration_time_s": metrics.iteration_time(self.timeline),
            "scaling": self.scaling,
            "iteration_time_by_scaling_s": self.by_scaling_s,
            "throughput_samples_per_s": metrics.throughput(self.timeline),
            "bubble": metrics.bubble(self.timeline),
            "schedule_bound_s": self.schedule_bound_s,
            "bound_s": self.bound_s,
            "peak_memory_bytes": int(peak.max()),
            "fits_memory": metrics.fits_memory(self.timeline),
            "devices": len(self.timeline.program.devices),
            "tasks": len(self.timeline.program),
            "engine": self.timeline.engine,
        }


def compare(  # noqa: PLR0917 - as `make_case`
    trace: Trace | Path | str,
    cluster: Cluster | Path | str,
    planners: Sequence[str] = tuple(PLANNERS),
    schedulers: Sequence[str] = COMPARED,
    microbatches: int = 8,
    microbatch_size: int | None = None,
    options: Options = DEFAULTS,
    scenario: Scenario = CALM,
    engine: str = "auto",
    scaling: Scaling = "recorded",
) -> Iterator[Row]:
    """Every planner with every scheduler, one row after the other. What fails is a row that says why."""
    for name in planners:  # a name that nobody has is a slip of the pen, not a result
        lookup.resolve(name, PLANNERS, "planner")
    for name in schedulers:
        lookup.resolve(name, SCHEDULERS, "scheduler")
    trace, cluster = load_trace(trace), load_cluster(cluster)
    costs = costs_of(trace, microbatch_size, scaling=scaling)
    _check_kinds(costs, cluster)
    for planner in planners:
        try:
            plan = plan_with(planner, costs, cluster, microbatches)
        except PipesimError as error:
            yield from (Row(planner, scheduler, error=str(error)) for scheduler in schedulers)
            continue
        for scheduler in schedulers:
            try:
                made, schedule = ordered_with(scheduler, plan, costs, cluster, options)
                yield _row(planner, scheduler, Case(made, schedule, costs, cluster, options, scenario), engine)
            except PipesimError as error:
                yield Row(planner, scheduler, error=str(error))


def _row(planner: str, scheduler: str, case: Case, engine: str) -> Row:
    timeline = run(case.program(), engine)
    limits = case.schedule_bound(), case.bound()
    return Row(planner, scheduler, timeline, *limits, case.seconds_by_scaling(timeline), case.costs.scaling)


def best(rows: Sequence[Row]) -> Row | None:
    """The fastest row that fits in memory, else the fastest."""
    done = [row for row in rows if row.timeline is not None]
    return min(done, key=_rank, default=None)


def starred(rows: Sequence[Row]) -> list[bool]:
    """Which rows are the best of their planner; none is, where nothing of it fits in memory."""
    by_planner: dict[str, list[Row]] = {}
    for row in rows:
        by_planner.setdefault(row.planner, []).append(row)
    stars = [best(mine) for mine in by_planner.values()]
    fitting = [star for star in stars if star and star.timeline and metrics.fits_memory(star.timeline)]
    return [any(row is star for star in fitting) for row in rows]


def _rank(row: Row) -> tuple[bool, int]:
    timeline = row.timeline
    return (True, 0) if timeline is None else (not metrics.fits_memory(timeline), timeline.makespan)


def plan_data(
    plan: Plan,
    bound_s: float | None = None,
    planning_s: float | None = None,
    scaling: Scaling = "recorded",
    seconds_by_scaling: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """A plan as `pipesim plan --json` prints it: the plan's own keys, and those derived from it."""
    head = {"format": Plan.FORMAT, "version": Plan.VERSION, **serial.to_data(plan)}
    derived = {"replication": list(plan.replication), "cuts": list(plan.cuts)}
    shares = {"scaling": scaling, "seconds_by_scaling": seconds_by_scaling}
    return head | derived | {"bound_s": bound_s, "planning_s": planning_s} | shares


def simulation_data(case: Case, timeline: Timeline) -> dict[str, Any]:
    """A simulation as `pipesim simulate --json` prints it."""
    own = {
        "model": case.costs.model.name,
        "cluster": case.cluster.name,
        "planner": case.plan.planner,
        "replication": list(case.plan.replication),
        "cuts": list(case.plan.cuts),
        "schedule_bound_s": case.schedule_bound(),
        "bound_s": case.bound(),
        "channel_time_s": channel_seconds(case, timeline),
        "fits_memory": metrics.fits_memory(timeline),
        "scaling": case.costs.scaling,
        "iteration_time_by_scaling_s": case.seconds_by_scaling(timeline),
        "weight_share": case.weight_share(),
    }
    return metrics.summary(timeline) | own


def channel_seconds(case: Case, timeline: Timeline) -> float:
    """Seconds of the same schedule on the abstract network that planners assume: what contention costs is the rest."""
    if case.options.sharing == "channel":
        return metrics.iteration_time(timeline)
    abstract = replace(case, options=replace(case.options, sharing="channel"), scenario=Scenario(case.scenario.slow))
    return metrics.iteration_time(run(abstract.program()))


def cluster_data(cluster: Cluster) -> dict[str, Any]:
    """A cluster as `pipesim show --json` prints it: its file form, and the bandwidth between devices."""
    matrix = [[None if np.isinf(value) else value for value in row] for row in cluster.bandwidth_matrix.tolist()]
    head = {"format": Cluster.FORMAT, "version": Cluster.VERSION, **serial.to_data(cluster)}
    return head | {"bandwidth_matrix": matrix}


def trace_data(trace: Trace) -> dict[str, Any]:
    """A trace as `pipesim show --json` prints it: where it comes from, and its layers' costs by device kind."""
    costs = costs_of(trace)
    layers = [serial.to_data(layer) for layer in costs.model.layers]
    phases: tuple[Phase, ...] = ("forward", "backward")
    return {
        "model": trace.model,
        "source": trace.source,
        "machine": trace.machine,
        "microbatch_size": trace.microbatch_size,
        "device_kinds": list(trace.device_kinds),
        "layers": layers,
        "seconds": {kind: {phase: costs.seconds(phase, kind).tolist() for phase in phases} for kind in costs.kinds},
    }
