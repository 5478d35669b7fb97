"""What a worker does: it simulates points and keeps what several of them share.

    trace or architecture ─> costs ─┐
    cluster ────────────────────────┴─> plan ─> schedule ─> timeline ─> metrics
    └──── kept from one point to the next ───┘

A failure is a result too: its row says what went wrong.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.roofline import roofline
from pipesim.base import lookup
from pipesim.base.errors import PipesimError, RefusedError
from pipesim.core import limits
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, Scaling, costs_of
from pipesim.core.devices import device_kind
from pipesim.core.limits import HostMemory
from pipesim.core.plan import Plan
from pipesim.core.scenario import CALM
from pipesim.core.trace import Trace
from pipesim.lowering import Options, Setup, lower
from pipesim.studies import experiment
from pipesim.studies.sweep import outputs
from pipesim.studies.sweep.outputs import Result, Value
from pipesim.studies.sweep.points import Point

# How many of each a worker keeps; neighbouring points share them.
_TRACES, _CLUSTERS, _PLANS = 16, 16, 64
LONGEST_S = 0.3  # a chunk that takes longer is handed back, so that little is lost with it and others can help


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker needs to know of a sweep beside its points: what was read, what to measure, who replays."""

    inputs: Mapping[str, Any]
    metrics: tuple[str, ...]
    engine: str
    host_memory: HostMemory = None


class Outcome(NamedTuple):
    """What came of a point: its metrics, or why there are none; and how long that took."""

    key: bytes
    values: list[Value]
    error: str | None
    refused: bool  # by the engine, so that another one may know an answer
    engine: str
    seconds: float


class Workshop:
    """Simulates points. Pickled, it is what it was given; what it made is made anew."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._cluster = functools.lru_cache(_CLUSTERS)(self._make_cluster)
        self._trace = functools.lru_cache(_TRACES)(self._make_trace)
        self._costs = functools.lru_cache(_TRACES)(self._make_costs)
        self._plan = functools.lru_cache(_PLANS)(self._make_plan)

    def __reduce__(self) -> tuple[Callable[..., "Workshop"], tuple[Order]]:
        return Workshop, (self.order,)

    def work(self, chunk: Sequence[tuple[bytes, Point]]) -> list[Outcome]:
        """The points of a chunk, one after the other; where they take longer than was thought, only the first ones."""
        began, done = time.perf_counter(), list[Outcome]()
        for key, point in chunk:
            done.append(self.outcome(key, point))
            if time.perf_counter() - began > LONGEST_S:
                break
        return done

    def outcome(self, key: bytes, point: Point) -> Outcome:
        """One point: numbers, or a sentence that says why there are none."""
        began = time.perf_counter()
        values: list[Value] = []
        error, refused, engine = None, False, self.order.engine
        try:
            result = self.result(point)
            values, engine = outputs.measured(self.order.metrics, result), result.timeline.engine
        except Exception as reason:  # noqa: BLE001 - somebody's planner may raise anything, and no row stops the others
            error, refused = _said(reason), isinstance(reason, RefusedError)
        return Outcome(key, values, error, refused, engine, time.perf_counter() - began)

    def result(self, point: Point) -> Result:
        """Plan, order and replay."""
        case = self._case(point)
        timeline = experiment.run(lower(case), self.order.engine)
        if point.iterations is None:
            return Result(case, timeline)
        how = point.seed, point.jitter, self.order.engine, self.order.host_memory
        times = experiment.replay(case, point.iterations, *how)
        return Result(case, timeline, experiment.replay_statistics(times, point.seed))

    def _case(self, point: Point) -> Setup:
        cluster, costs = self._nouns(point)
        plan = self._planned(point)
        plans.check_fits(plan, costs.model, cluster)
        options = Options(**{name: getattr(point, name) for name in OPTIONS})
        scheduler = self._read("scheduler", point.scheduler) or point.scheduler
        scenario = self._read("scenario", point.scenario) or CALM
        plan, schedule = experiment.ordered_with(scheduler, plan, costs, cluster, options, self.order.host_memory)
        return Setup(plan, schedule, costs, cluster, options, scenario)

    def _nouns(self, point: Point) -> tuple[Cluster, Costs]:
        cluster = self._cluster(point.cluster, point.device)
        kinds = tuple(dict.fromkeys(device.kind for device in cluster.devices))
        source = (point.trace, None, 0.0, ()) if point.trace else (None, point.architecture, point.efficiency, kinds)
        costs = self._costs(source, point.microbatch_size, point.scaling)
        for kind in kinds:
            costs.recorded_kind(kind)  # refuses a kind that the trace has no times for
        return cluster, costs

    def _planned(self, point: Point) -> Plan:
        if point.plan is not None:
            return self.order.inputs[f"plan {point.plan}"]  # type: ignore[no-any-return]  # what was read there
        return self._plan(replace(point, **UNPLANNED))

    # What is kept; arguments are text and numbers.

    def _make_cluster(self, text: str, device: str | None) -> Cluster:
        cluster = experiment.load_cluster(self._read("cluster", text) or text)
        return cluster if device is None else of_kind(cluster, device)

    def _make_trace(
        self, name: str | None, architecture: str | None, efficiency: float, kinds: tuple[str, ...]
    ) -> Trace:
        if name is not None:
            return self.order.inputs[f"trace {name}"]  # type: ignore[no-any-return]  # what was read there
        model = lookup.call(architecture or "", ARCHITECTURES, "architecture")
        return roofline(model, kinds, efficiency=efficiency)

    def _make_costs(self, source: tuple[Any, ...], microbatch_size: int | None, scaling: Scaling) -> Costs:
        return costs_of(self._trace(*source), microbatch_size, scaling=scaling)

    def _make_plan(self, point: Point) -> Plan:
        cluster, costs = self._nouns(point)
        limits.check_microbatches(self.order.host_memory, point.microbatches)
        return experiment.plan_with(point.planner, costs, cluster, point.microbatches, self.order.host_memory)

    def _read(self, name: str, text: str | None) -> Any:  # noqa: ANN401 - whatever was read there; None if nothing was
        return self.order.inputs.get(f"{name} {text}")


# What is the same option of the lowering.
OPTIONS = tuple(field.name for field in dataclasses.fields(Options))
# A plan is the same for all points that differ only in these; they are put aside before it is looked up.
UNPLANNED: dict[str, Any] = {
    name: getattr(Point(), name) for name in (*OPTIONS, "scheduler", "scenario", "iterations", "seed", "jitter")
}


def of_kind(cluster: Cluster, kind: str) -> Cluster:
    """The same cluster with devices of this kind, with the memory and the peak of its data sheet."""
    known = device_kind(kind)
    devices = tuple(
        device if device.kind == kind else replace(device, kind=kind, memory=known.memory, flops=known.peak.get("fp16"))
        for device in cluster.devices
    )
    return replace(cluster, devices=devices)


def _said(error: Exception) -> str:
    return outputs.writable(str(error) if isinstance(error, PipesimError) else f"{type(error).__name__}: {error}")
