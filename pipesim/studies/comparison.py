"""Planners and schedulers side by side: a row for each pair, and which of them is the best."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from pipesim.analysis import metrics
from pipesim.base import lookup
from pipesim.base.errors import PipesimError
from pipesim.core import limits
from pipesim.core import plan as plans
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.core.timeline import Timeline
from pipesim.display import notebook, text
from pipesim.display.text.columns import flat
from pipesim.planners import PLANNERS
from pipesim.schedulers import COMPARED, SCHEDULERS
from pipesim.studies import setups, sources
from pipesim.studies.loading import load_plan
from pipesim.studies.ordering import Scheduler, is_table
from pipesim.studies.results import SimulationResult, simulated
from pipesim.studies.setups import Planner
from pipesim.studies.simulation import ANY, LAYOUT, Simulation, simulation_of, takes_fields, widths_of_ranks

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

PLAN_FILES = (".json", ".toml")


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One line of a comparison: a planner with a scheduler, and their result or the error that they ended with."""

    planner: str
    scheduler: str
    result: SimulationResult | None = None
    error: str = ""

    @property
    def timeline(self) -> Timeline | None:
        """The timeline, if there is one."""
        return None if self.result is None else self.result.timeline

    def as_data(self, *, bound: bool = True) -> dict[str, Any]:
        """Plain numbers and text; without `bound` no certified bound is searched for."""
        head: dict[str, Any] = {"planner": self.planner, "scheduler": self.scheduler}
        if self.result is None:
            return head | {"error": self.error}
        result, timeline = self.result, self.result.timeline
        bounds = {
            "schedule_bound_s": result.schedule_bound, "bound_s": result.bound, "layout_bound_s": result.layout_bound,
        } if bound else {}  # fmt: skip
        return head | {
            "iteration_time_s": result.iteration_time,
            "measured_interval": result.interval.as_data(result.iteration_time),
            "scaling": result.setup.costs.scaling,
            "iteration_time_by_scaling_s": result.times_by_scaling,
            "throughput_samples_per_s": metrics.throughput(timeline),
            **result.as_performance(),
            "notes": list(result.notes),
            "bubble": metrics.bubble(timeline),
            **bounds,
            "peak_memory_bytes": int(metrics.peak_memory(timeline).max()),
            "fits_memory": result.fits_memory,
            "devices": len(result.setup.plan.gpus),
            "tasks": len(timeline.program),
            "engine": timeline.engine,
        }


class Comparison:
    """The rows of a comparison, each simulated when it is first asked for; shows itself as a table in notebooks."""

    def __init__(self, rows: Iterator[ComparisonRow]) -> None:
        self._left = rows
        self._done: list[ComparisonRow] = []
        self._passed = 0

    def __iter__(self) -> Iterator[ComparisonRow]:
        at = 0
        while at < len(self._done) or self._simulate_next():
            yield self._done[at]
            at += 1

    def __next__(self) -> ComparisonRow:
        if self._passed == len(self._done) and not self._simulate_next():
            raise StopIteration
        self._passed += 1
        return self._done[self._passed - 1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> ComparisonRow:
        return self.rows[index]

    def _simulate_next(self) -> bool:
        found = next(self._left, None)
        if found is not None:
            self._done.append(found)
        return found is not None

    @property
    def rows(self) -> list[ComparisonRow]:
        """All rows."""
        while self._simulate_next():
            pass
        return list(self._done)

    @property
    def best(self) -> ComparisonRow | None:
        """The fastest row that fits in memory, else the fastest."""
        return best(self.rows)

    def as_data(self, *, bound: bool = False) -> list[dict[str, Any]]:
        """All rows as plain numbers and text."""
        return [row.as_data(bound=bound) for row in self]

    def frame(self) -> "pd.DataFrame":
        """A row for each planner and scheduler, with all numbers."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        return pd.DataFrame([flat(row) for row in self.as_data()])

    def plot(self, path: "Path | str | None" = None) -> Any:  # noqa: ANN401 - a figure of matplotlib
        """The iteration times as bars."""
        from pipesim.display import figures  # noqa: PLC0415 - imports matplotlib

        top = self.best
        done = [row for row in self if row.timeline]
        return figures.comparison([row.as_data(bound=False) | {"starred": row is top} for row in done], path)

    def __repr__(self) -> str:
        failed = sum(bool(row.error) for row in self._done)
        return f"Comparison of planners and schedulers: {len(self._done)} rows simulated, {failed} of them failed"

    def _repr_html_(self) -> str:
        rows, data, top = self.rows, self.as_data(), self.best
        bold = [n for n, row in enumerate(rows) if row is top]
        red = [n for n, row in enumerate(data) if row.get("fits_memory") is False]
        errors = "".join(
            f"<p>{escape(f'{row.planner} + {row.scheduler}: {row.error}')}</p>" for row in rows if row.error
        )
        return notebook.records_table(text.comparison_columns(data), data, bold, red) + errors


@takes_fields()
def compare(
    *values: Any,  # noqa: ANN401 - fields of Simulation
    planners: Sequence[str] = (),
    schedulers: Sequence[str] = COMPARED,
    **fields: Any,  # noqa: ANN401 - as above
) -> Comparison:
    """Every planner with every scheduler, one row after the other. What fails is a row with its error.

    Planners and schedulers are names, functions, plans and schedules, or files with one. The result is iterated, and
    has `frame()` (pandas), `plot()` and `best`.

    Without planners: all, or megatron where a layout (pipeline, data, interleave, tensor by rank) is given, which the
    others choose, and spp_plus where tensor is any.
    Takes what `simulate` takes, but for planner, plan and scheduler; the third and fourth value are the lists of them.

    >>> for row in ps.compare("bert-large", 'flat(4, bandwidth="1GB/s")', ["uniform", "balanced"], ["gpipe"]):
    ...     print(f"{row.planner} {row.scheduler} {row.result.iteration_time * 1e3:.1f} ms")
    uniform gpipe 253.1 ms
    balanced gpipe 227.3 ms
    """
    if len(values) > 2:
        planners, schedulers = values[2], values[3] if len(values) > 3 else schedulers
        values = (*values[:2], Simulation().planner, Simulation().scheduler, *values[4:])
    simulation = simulation_of(*values, **fields)
    return Comparison(compared(simulation, planners or planners_for(simulation), schedulers))


def planners_for(simulation: Simulation) -> tuple[str, ...]:
    """The planners that are compared where none is named."""
    if any(getattr(simulation, name) is not None for name in LAYOUT) or widths_of_ranks(simulation):
        return ("megatron",)
    return ("spp_plus",) if simulation.tensor == ANY else tuple(PLANNERS)


def compared(
    simulation: Simulation,
    planners: Sequence[Planner | Plan | str],
    schedulers: Sequence[Scheduler | Schedule | str],
) -> Iterator[ComparisonRow]:
    """`compare` for a simulation whose planner and scheduler are replaced by each of these.

    A planner may be a name, a function, a plan, or a file with one; a scheduler likewise.
    """
    for planner in planners:  # an unknown name is a user error: fail before running
        if isinstance(planner, str) and is_plan_file(planner):
            load_plan(planner)
        elif isinstance(planner, str):
            lookup.resolve(planner, PLANNERS, "planner")
    for scheduler in schedulers:
        if isinstance(scheduler, str):
            _ = Schedule.load(scheduler) if is_table(scheduler) else lookup.resolve(scheduler, SCHEDULERS, "scheduler")
    cluster = sources.cluster_of(simulation)
    trace = sources.trace_of(simulation, cluster)
    costs = setups.costs_in(simulation, trace)
    scenario = setups.scenario_of(simulation, cluster)
    setups.check_kinds(costs, cluster)
    microbatches = setups.microbatches_of(simulation, costs)
    plans.check_microbatches(microbatches)
    limits.check_microbatches(simulation.host_memory, microbatches)
    for planner in planners:
        by = {"plan": planner, "planner": None} if is_plan_file(planner) else {"planner": planner}
        try:
            plan = setups.plan_of(replace(simulation, **by), costs, cluster)
        except PipesimError as error:
            named = name_of(planner)
            yield from (ComparisonRow(named, name_of(scheduler), error=str(error)) for scheduler in schedulers)
            continue
        for scheduler in schedulers:
            names = name_of(planner), name_of(scheduler)
            one = replace(simulation, **by, scheduler=scheduler)
            options = setups.options_of(one, trace)  # a framework sends in ways that depend on the schedule
            try:
                setup = setups.assembled(one, plan, costs, cluster, options, scenario)
                yield ComparisonRow(*names, simulated(setup, one))
            except PipesimError as error:
                yield ComparisonRow(*names, error=str(error))


def is_plan_file(planner: Planner | Plan | str) -> bool:
    """Whether it is a plan or a file with one, and no planner that makes one."""
    return isinstance(planner, Plan) or (isinstance(planner, str) and planner.endswith(PLAN_FILES))


def name_of(member: Planner | Scheduler | Plan | Schedule | str) -> str:
    """What a row calls a planner or scheduler: its name, with the arguments that are bound to it."""
    if isinstance(member, str):
        return member
    function = getattr(member, "func", member)
    name = getattr(function, "__name__", "") or getattr(member, "planner", "") or type(member).__name__
    given = ", ".join(f"{key}={value!r}" for key, value in getattr(member, "keywords", {}).items())
    return f"{name}({given})" if given else name


def best(rows: Sequence[ComparisonRow]) -> ComparisonRow | None:
    """The fastest row that fits in memory, else the fastest."""
    done = [row for row in rows if row.result is not None]
    return min(done, key=_rank, default=None)


def starred(rows: Sequence[ComparisonRow]) -> list[bool]:
    """Which rows are the best of their planner; none is, where nothing of it fits in memory."""
    by_planner: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        by_planner.setdefault(row.planner, []).append(row)
    stars = [best(mine) for mine in by_planner.values()]
    fitting = [star for star in stars if star and star.result and star.result.fits_memory is not False]
    return [any(row is star for star in fitting) for row in rows]


def _rank(row: ComparisonRow) -> tuple[bool, int]:
    result = row.result
    return (True, 0) if result is None else (result.fits_memory is False, result.timeline.makespan)
