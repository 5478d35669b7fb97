"""What a worker does: it simulates points and keeps what several of them share.

    trace or architecture ─> costs ─┐
    cluster ────────────────────────┴─> plan ─> schedule ─> program ─> timeline ─> metrics
    └──── kept from one point to the next ───────────────────────────────┘

    kept        for points that differ only in
    plan        what plans do not depend on (UNPLANNED): scheduler, sharing, scenario, drawn times, ...
    schedule    the same without the scheduler; with a scheduler that simulates, without options of the simulation
    program     how iterations are drawn (DRAWN); with it the setup, and the timeline with median times

Bounds are kept by `analysis.bounds`, for points that differ in planner, scheduler or scenario.

A failure is a result too: its row has the error.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pipesim.base.errors import PipesimError, RefusedError
from pipesim.core import limits
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import HostMemory
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.core.trace import Trace
from pipesim.lowering import Setup
from pipesim.studies import setups, sources
from pipesim.studies.ordering import is_table, ordered_with, takes_options
from pipesim.studies.results import Played, SimulationResult, played, simulated
from pipesim.studies.simulation import Simulation, defaults, may_be_model, with_defaults
from pipesim.studies.sweep import outputs
from pipesim.studies.sweep.kept_values import KeptValues
from pipesim.studies.sweep.outputs import PointResult, Value

# How many of each a worker keeps; neighbouring points share them.
_TRACES, _CLUSTERS, _PLANS = 16, 16, 64
_ACTIONS, _TASKS = 10**6, 2 * 10**5  # of schedules, of programs: some 20 MB, and 40 MB with their timelines

# A plan is the same for all points that differ only in these; they are put aside before it is looked up.
UNPLANNED: dict[str, Any] = {
    name: value
    for name, value in defaults().items()
    if name in {
        "scheduler", "sharing", "transfers", "optimizer", "optimizer_s_per_byte", "optimizer_state", "recompute",
        "pair_overlap", "pair_factor", "scenario", "slow", "background", "tokens", "fit",
        "iterations", "seed", "jitter", "draw",
        "sharding", "sharding_size", "gradient_precision", "gradient_overlap", "rings", "scatter_sends", "message_time",
        "tied_all_reduce", "gradient_norm", "reserve", "recompute_blocks", "whole_first_stage",
    }
}  # fmt: skip
# What the trace of a point depends on, where it is recorded, and where it may be computed for the cluster.
_RECORDED = ("trace", "microbatch_size", "tensor", "context", "expert", "frozen", "lora_rank", "lora_targets")
_COMPUTED = (*_RECORDED, "architecture", "efficiency", "cluster", "device", "sequence", "lengths", "packed",
             "precision", "sequence_parallel", "tensor_overlap", "framework", "scale_widths")  # fmt: skip
# What is the same for all drawn iterations of a setup; with an objective its plan depends on how they are drawn.
DRAWN: dict[str, Any] = {name: defaults()[name] for name in ("iterations", "seed", "jitter", "draw")}
_READ = ("trace", "plan", "scheduler", "scenario", "background", "lengths")  # fields whose files were read before


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker needs to know of a sweep beside its points: what was read, which metrics, which engine."""

    inputs: Mapping[str, Any]
    metrics: tuple[str, ...]
    engine: str
    host_memory: HostMemory = None
    fold: str = "auto"


class Outcome(NamedTuple):
    """The metrics of a point, or its error; and how long that took."""

    key: bytes
    values: list[Value]
    error: str | None
    refused: bool  # by the engine, so that another one may have an answer
    engine: str
    seconds: float


class _Ordered(NamedTuple):
    """A plan in the layout of a scheduler and its schedule; `of` is what they were made from."""

    plan: Plan
    schedule: Schedule
    of: tuple[Plan, Costs, Cluster]


class Worker:
    """Simulates points. Pickled, it is its configuration; what it keeps is computed again."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self._cluster = functools.lru_cache(_CLUSTERS)(self._make_cluster)
        self._trace = functools.lru_cache(_TRACES)(self._make_trace)
        self._costs = functools.lru_cache(_TRACES)(self._make_costs)
        self._plan = functools.lru_cache(_PLANS)(self._make_plan)
        self._takes_options = functools.lru_cache(_PLANS)(takes_options)
        self._schedules = KeptValues[_Ordered](_ACTIONS, lambda ordered: len(ordered.schedule.kind))
        self._setups = KeptValues[Setup](_ACTIONS, lambda setup: len(setup.schedule.kind))
        self._medians = KeptValues[Played](_TASKS, lambda median: len(median.timeline.program))

    def __reduce__(self) -> tuple[Callable[..., "Worker"], tuple[WorkerConfig]]:
        return Worker, (self.config,)

    def work(self, chunk: Sequence[tuple[bytes, Simulation]], longest_s: float) -> list[Outcome]:
        """The points of a chunk, one after the other; where they take longer than so many seconds, the first."""
        began, done = time.perf_counter(), list[Outcome]()
        for key, point in chunk:
            done.append(self.outcome(key, point))
            if time.perf_counter() - began > longest_s:
                break
        return done

    def outcome(self, key: bytes, point: Simulation) -> Outcome:
        """The metrics of one point, or a sentence why there are none."""
        began = time.perf_counter()
        values: list[Value] = []
        error, refused, engine = None, False, self.config.engine
        try:
            result = self.result(point)
            measured = outputs.measured(self.config.metrics, PointResult(result))
            values, engine = measured, result.played.engine
        except Exception as reason:  # noqa: BLE001 - a user's planner may raise anything, and no row stops the others
            error, refused = _message(reason), isinstance(reason, RefusedError)
        return Outcome(key, values, error, refused, engine, time.perf_counter() - began)

    def result(self, point: Simulation) -> SimulationResult:
        """Plan, order and simulate."""
        known = with_defaults(self.known(point))
        if point.iterations is None:
            return simulated(self._setup(point, known), known)
        drawn = DRAWN if point.objective is None else {name: DRAWN[name] for name in ("iterations", "seed")}
        undrawn = replace(point, **drawn)
        setup = self._setups.of(undrawn, lambda: self._setup(point, known))
        return simulated(setup, known, play=lambda: self._medians.of(undrawn, lambda: played(setup, known)))

    def known(self, point: Simulation) -> Simulation:
        """The point with what was read of files in place of their names."""
        read = {name: self._read(name, text) for name in _READ if (text := getattr(point, name)) is not None}
        found = {name: value for name, value in read.items() if value is not None}
        of_all = {name: getattr(self.config, name) for name in ("engine", "host_memory", "fold")}
        return replace(point, **found, **of_all)

    def _setup(self, point: Simulation, known: Simulation) -> Setup:
        cluster, trace, costs = self.inputs(point)
        unplanned = replace(with_defaults(point), **_unplanned(point))
        plan = known.plan if isinstance(known.plan, Plan) else self._plan(unplanned)
        options, scenario = setups.options_of(known, trace), setups.scenario_of(known, cluster)
        return setups.assembled(known, plan, costs, cluster, options, scenario, self._order)

    def _order(self, scheduler: Any, plan: Plan, costs: Costs, cluster: Cluster, *more: Any) -> tuple[Plan, Schedule]:  # noqa: ANN401 - as `ordered_with`
        """As `ordered_with`; a schedule is kept by its name and by the objects that it was made from."""
        if not isinstance(scheduler, str) or is_table(scheduler):
            return ordered_with(scheduler, plan, costs, cluster, *more)
        options, _, blocks = more
        judged_by = options if self._takes_options(scheduler) else None
        key = scheduler, id(plan), id(costs), id(cluster), judged_by, blocks is None
        made = self._schedules.of(
            key, lambda: _Ordered(*ordered_with(scheduler, plan, costs, cluster, *more), (plan, costs, cluster))
        )
        return made.plan, made.schedule

    def inputs(self, point: Simulation) -> tuple[Cluster, Trace, Costs]:
        """Cluster, trace and costs of a point, which are kept."""
        kind_of = (point.trace, point.architecture) if point.device is None else (None, None)
        cluster = self._cluster(point.cluster, point.device, kind_of)
        chosen = _RECORDED if self._is_recorded(point) else _COMPUTED
        reduced = replace(Simulation(), **{name: getattr(point, name) for name in chosen})
        costs = self._costs(reduced, point.scaling, point.weight_share)
        setups.check_kinds(costs, cluster)
        return cluster, self._trace(reduced), costs

    def _is_recorded(self, point: Simulation) -> bool:
        """Whether a point's times do not depend on its cluster."""
        computed = may_be_model(point.trace) or isinstance(self._read("trace", point.trace), str)
        return point.trace is not None and not computed and not point.scale_widths

    # What is kept; arguments are text and numbers.

    def _make_cluster(self, text: str, device: str | None, kind_of: tuple[Any, str | None]) -> Cluster:
        described = Simulation(trace=kind_of[0], architecture=kind_of[1], device=device, cluster=text)
        return sources.cluster_of(replace(self.known(described), cluster=self._read("cluster", text) or text))

    def _make_trace(self, reduced: Simulation) -> Trace:
        if reduced.cluster is None:
            return self._read("trace", reduced.trace)  # type: ignore[no-any-return]  # what was read there
        kind_of = (reduced.trace, reduced.architecture) if reduced.device is None else (None, None)
        cluster = self._cluster(reduced.cluster, reduced.device, kind_of)
        read = self._read("architecture", reduced.architecture) or reduced.architecture
        found = self._read("trace", reduced.trace)
        trace = found if reduced.scale_widths or isinstance(found, str) else None  # a config.json: where it is
        lengths = self._read("lengths", reduced.lengths) or reduced.lengths
        named = replace(reduced, architecture=read, trace=trace or reduced.trace, lengths=lengths)
        return sources.trace_of(named, cluster, found if isinstance(found, Trace) else None)

    def _make_costs(self, reduced: Simulation, scaling: str, weight_share: float) -> Costs:
        return setups.costs_in(replace(reduced, scaling=scaling, weight_share=weight_share), self._trace(reduced))

    def _make_plan(self, point: Simulation) -> Plan:
        cluster, _, costs = self.inputs(point)
        limits.check_microbatches(self.config.host_memory, point.microbatches)
        return setups.plan_of(replace(point, host_memory=self.config.host_memory), costs, cluster)

    def _read(self, name: str, text: Any) -> Any:  # noqa: ANN401 - a field of a point, what was read there or None
        return self.config.inputs.get(f"{name} {text}")


def _unplanned(point: Simulation) -> dict[str, Any]:
    """What a plan does not depend on; with an objective it depends on how times are drawn."""
    if point.objective is None:
        return UNPLANNED
    return {name: value for name, value in UNPLANNED.items() if name not in {"jitter", "draw"}}


def _message(error: Exception) -> str:
    return outputs.writable(str(error) if isinstance(error, PipesimError) else f"{type(error).__name__}: {error}")
