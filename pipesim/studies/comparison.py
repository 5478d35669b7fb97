"""Planners and schedulers side by side: a row for each pair, and which of them is the best."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipesim.analysis import metrics
from pipesim.base import lookup
from pipesim.base.errors import PipesimError
from pipesim.core import limits
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Scaling, costs_of
from pipesim.core.limits import HostMemory
from pipesim.core.scenario import CALM, Scenario
from pipesim.core.timeline import Timeline
from pipesim.core.trace import Trace
from pipesim.lowering import DEFAULTS, Options, Setup, lower
from pipesim.planners import PLANNERS
from pipesim.schedulers import COMPARED, SCHEDULERS
from pipesim.studies import experiment
from pipesim.studies.ordering import ordered_with


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


def compare(  # noqa: PLR0917 - as `experiment.make_case`
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
    host_memory: HostMemory = None,
) -> Iterator[Row]:
    """Every planner with every scheduler, one row after the other. What fails is a row that says why."""
    for name in planners:  # a name that nobody has is a slip of the pen, not a result
        lookup.resolve(name, PLANNERS, "planner")
    for name in schedulers:
        lookup.resolve(name, SCHEDULERS, "scheduler")
    trace, cluster = experiment.load_trace(trace), experiment.load_cluster(cluster)
    costs = costs_of(trace, microbatch_size, scaling=scaling)
    experiment.check_kinds(costs, cluster)
    plans.check_microbatches(microbatches)
    limits.check_microbatches(host_memory, microbatches)
    for planner in planners:
        try:
            plan = experiment.plan_with(planner, costs, cluster, microbatches, host_memory)
        except PipesimError as error:
            yield from (Row(planner, scheduler, error=str(error)) for scheduler in schedulers)
            continue
        for scheduler in schedulers:
            try:
                ordered = ordered_with(scheduler, plan, costs, cluster, options, host_memory)
                case = Setup(*ordered, costs, cluster, options, scenario)
                yield _row(planner, scheduler, case, engine)
            except PipesimError as error:
                yield Row(planner, scheduler, error=str(error))


def _row(planner: str, scheduler: str, case: Setup, engine: str) -> Row:
    timeline = experiment.run(lower(case), engine)
    limits = experiment.schedule_bound(case), experiment.bound(case)
    return Row(planner, scheduler, timeline, *limits, experiment.seconds_by_scaling(case, timeline), case.costs.scaling)


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
