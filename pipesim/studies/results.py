"""What comes of a simulation and of planning: typed records whose expensive parts are computed when asked for."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesim.analysis import bounds, metrics
from pipesim.analysis.bottleneck import Bottleneck, bottleneck
from pipesim.analysis.critical_path import slack_data
from pipesim.analysis.joint_samples import draw_of
from pipesim.analysis.ledger import Ledger, ledger, mean_data
from pipesim.base import serialisation
from pipesim.base.moved import renamed, warn_renamed
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.plan_layout import PlanLayout
from pipesim.core.program import Program
from pipesim.core.timeline import Timeline
from pipesim.display import notebook, text
from pipesim.engines import by_name
from pipesim.lowering import DEFAULTS, Fold, Options, Setup, expanded, fold_of, lower, lower_folded
from pipesim.studies import certified, setups, sources
from pipesim.studies.accuracy import MeasuredInterval, interval
from pipesim.studies.origins import headline
from pipesim.studies.performance import Performance, performance_of, tokens_of
from pipesim.studies.remedies import remedies
from pipesim.studies.replay import check_replay, drawn_programs, replay, replay_statistics
from pipesim.studies.simulation import PLANNING, Simulation, simulation_of, takes_fields, with_defaults

if TYPE_CHECKING:
    import pandas as pd

LEDGERS = 20  # drawn iterations of which there is a ledger


@dataclass(frozen=True, eq=False, repr=False)
class SimulationResult:
    """One simulated iteration, and the statistics of many with drawn times where they were asked for."""

    setup: Setup
    played: Timeline
    """The timeline that was simulated: of all tasks, or of those that represent others."""
    simulation: Simulation | None = None
    replay: Mapping[str, Any] | None = None
    fold: Fold | None = None

    @cached_property
    def timeline(self) -> Timeline:
        """When every task ran; of what was folded, it is expanded when it is first asked for."""
        return self.played if self.fold is None else expanded(self.setup, self.fold, self.played)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - `simulate` returned the timeline in pipesim 0.1
        if name.startswith("_") or not (hasattr(Timeline, name) or name in Timeline.__dataclass_fields__):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        warn_renamed(f"{name} of a result", f"result.timeline.{name}")
        return getattr(self.timeline, name)

    @property
    def iteration_time(self) -> float:
        """Seconds of the iteration."""
        return metrics.iteration_time(self.played)

    @cached_property
    def performance(self) -> Performance:
        """The iteration in the words of training: layout, global batch, tokens/s, MFU."""
        return performance_of(self.setup, self.played)

    def as_performance(self) -> dict[str, Any]:
        """The performance as plain numbers, with what the tokens of the simulation take."""
        tokens = None if self.simulation is None else self.simulation.tokens
        return self.performance.as_data(tokens_of(tokens, self.setup.costs.model.sequence))

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be known of the times and of the plan, in sentences."""
        return (*self.setup.costs.notes, *self.setup.notes)

    @property
    def origin(self) -> str:
        """Where the times are from: which trace or model, recorded or computed."""
        return headline(self.setup.costs, self.setup.cluster)

    @cached_property
    def bottleneck(self) -> Bottleneck:
        """What the iteration loses most of the devices' time to."""
        return bottleneck(self.summary())

    @cached_property
    def interval(self) -> MeasuredInterval:
        """Between which factors of the iteration time measured runs of this kind are."""
        return interval(self.setup.costs, self.setup.cluster, self.framework, len(self.setup.plan.gpus))

    @property
    def framework(self) -> str | None:
        """The framework that was simulated, if one was named."""
        return None if self.simulation is None else self.simulation.framework

    @property
    def fits_memory(self) -> bool | None:
        """Whether every device whose memory is known holds what it must; None where the layers' bytes are unknown."""
        fits = metrics.fits_memory(self.played)
        return None if fits and not self.setup.costs.model.has_bytes else fits

    @cached_property
    def would_fit_with(self) -> tuple[str, ...]:
        """Options with which a simulation that does not fit in memory would, each tried; none where it fits."""
        if self.fits_memory is not False or self.simulation is None:
            return ()
        return remedies(self.simulation, self.setup)

    @cached_property
    def bound(self) -> float:
        """Seconds that no plan and schedule of this sort can beat: a certificate, which may take longer to search for
        than the simulation took.
        """
        return certified.bound(self.setup)

    @cached_property
    def layout_bound(self) -> float | None:
        """Seconds that no layout on this cluster has less of: any stages, chunks, replicas, cuts, schedule that fit."""
        return certified.layout_bound(self.setup)

    @cached_property
    def schedule_bound(self) -> float | None:
        """Seconds that no schedule of this plan can beat which leaves backwards whole; None if this one splits them."""
        return certified.schedule_bound(self.setup)

    @cached_property
    def channel_time(self) -> float:
        """Seconds of the same schedule on the abstract network without contention: one more simulation."""
        return certified.channel_time(self.setup, self.played)

    @cached_property
    def times_by_scaling(self) -> dict[str, float] | None:
        """Seconds under each scaling of times, where it makes a difference: one more simulation there."""
        return certified.times_by_scaling(self.setup, self.played)

    @cached_property
    def ledger(self) -> Ledger:
        """The iteration by causes, which sum to it, and how long it is without each: two simulations for each cause."""
        engine = "auto" if self.simulation is None else self.simulation.engine
        return ledger(self.timeline.program, by_name.makespans(engine, self.timeline))

    @cached_property
    def replay_ledger(self) -> dict[str, Any] | None:
        """The mean ledger of the first drawn iterations: stragglers, and waiting for the slowest of the replicas."""
        chosen = self.simulation
        if chosen is None or chosen.iterations is None:
            return None
        count = min(chosen.iterations, LEDGERS)
        programs = drawn_programs(self.setup, count, chosen.seed, chosen.jitter, chosen.draw)
        found = [ledger(each, by_name.makespans(chosen.engine)) for each in programs]
        return {"iterations": count, **mean_data(found)}

    def __repr__(self) -> str:
        found = self.performance
        each = "" if found.tokens_per_s_per_gpu is None else f", {found.tokens_per_s_per_gpu:,.0f} tokens/s/GPU"
        fits = {True: "fits in memory", False: "does NOT fit in memory", None: "memory unknown"}[self.fits_memory]
        time, bubble = text.seconds(self.iteration_time), text.percent(metrics.bubble(self.played)["idle_share"])
        return f"Iteration of {self.setup.costs.model.name} in {time}{each}: {found.layout}, {bubble} idle, {fits}"

    def _repr_html_(self) -> str:
        lines = text.answer(self.as_data()).splitlines()
        rows = [(line[:16].strip(), line[16:]) for line in lines]
        return notebook.html_table(("", ""), rows, 2) + notebook.gantt_svg(self.timeline)

    def frame(self) -> "pd.DataFrame":
        """A row for each device: how long it computes and waits, and its memory."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        devices = self.summary()["devices"]
        return pd.DataFrame([{"device": name} | row for name, row in devices.items()])

    def search_bounds(self) -> None:
        """Compute the certified bounds and the time without contention now, and not when they are read."""
        _ = self.bound, self.schedule_bound, self.channel_time

    def summary(self) -> dict[str, Any]:
        """All metrics of the timeline as plain numbers."""
        return metrics.summary(self.played)

    def as_data(self, *, bound: bool = False, ledger: bool = False, slack: bool = False) -> dict[str, Any]:
        """The result as `pipesim simulate --json` prints it; if asked for, with certified bounds, ledger and slack."""
        setup, summary = self.setup, self.summary()
        found = summary | {
            "bottleneck": bottleneck(summary).as_data(),
            "measured_interval": self.interval.as_data(self.iteration_time),
            "origin": self.origin,
            "notes": list(self.notes),
            "model": setup.costs.model.name,
            "cluster": setup.cluster.name,
            "planner": setup.plan.planner,
            "replication": list(setup.plan.replication),
            "cuts": list(setup.plan.cuts),
            **self.as_performance(),
            "fits_memory": self.fits_memory,
            "would_fit_with": list(self.would_fit_with),
            "scaling": setup.costs.scaling,
            "iteration_time_by_scaling_s": self.times_by_scaling,
            "weight_share": certified.weight_share(setup),
        }
        if bound:
            found |= {
                "schedule_bound_s": self.schedule_bound,
                "bound_s": self.bound,
                "layout_bound_s": self.layout_bound,
                "channel_time_s": self.channel_time,
            }
        if ledger:
            found["ledger"] = self.ledger.as_data()
        if slack:
            found["slack"] = slack_data(self.timeline)
        if self.replay is not None:
            found["replay"] = dict(self.replay)
            if ledger:
                found["replay"]["ledger"] = self.replay_ledger
        if self.simulation is not None:
            found["simulation"] = self.simulation.as_data()
        return found


@dataclass(frozen=True, eq=False, repr=False)
class PlanResult:
    """A plan, and how long its planner took."""

    plan: Plan
    costs: Costs
    cluster: Cluster
    planning_s: float
    notes: tuple[str, ...] = ()
    framework: str | None = None
    options: Options = DEFAULTS

    @cached_property
    def interval(self) -> MeasuredInterval:
        """Between which factors of a simulated time of this plan measured runs of this kind are."""
        return interval(self.costs, self.cluster, self.framework, len(self.plan.gpus))

    def __repr__(self) -> str:
        return f"{self.plan!r}, planned in {text.seconds(self.planning_s)}"

    def _repr_html_(self) -> str:
        return notebook.html(self.plan)

    def frame(self) -> "pd.DataFrame":
        """A row for each stage."""
        return self.plan.frame()

    @property
    def origin(self) -> str:
        """Where the times are from: which trace or model, recorded or computed."""
        return headline(self.costs, self.cluster)

    @cached_property
    def bound(self) -> float:
        """Seconds that no plan of this sort can beat."""
        stages, teams = max(map(len, self.plan.chunks)), bounds.team_widths(self.plan)
        if stages > 1 or teams:
            work = bounds.total_work(self.costs, self.cluster, self.plan.microbatches, stages, teams)
            if not teams:
                return work
            return max(
                work, certified.plan_space_bound(self.plan, self.costs, self.cluster, self.options, memory=False)
            )
        return bounds.plan_bound(self.costs, self.cluster, self.plan.microbatches)

    @cached_property
    def layout_bound(self) -> float | None:
        """Seconds that no layout on this cluster has less of: any stages, chunks, replicas, cuts, schedule that fit."""
        found = certified.plan_space_bound(self.plan, self.costs, self.cluster, self.options)
        return found if isfinite(found) else None

    @cached_property
    def times_by_scaling(self) -> dict[str, float] | None:
        """Simulated seconds under each scaling of times, where it makes a difference."""
        return certified.plan_times_by_scaling(self.plan, self.costs, self.cluster)

    def as_data(self) -> dict[str, Any]:
        """The plan as `pipesim plan --json` prints it: its file form, and what follows from it."""
        plan = self.plan
        return {
            "format": Plan.FORMAT,
            "version": Plan.VERSION,
            **serialisation.to_data(plan),
            "replication": list(plan.replication),
            "cuts": list(plan.cuts),
            "origin": self.origin,
            "notes": list(self.notes),
            "gpus": len(plan.gpus),
            "layout": PlanLayout.of(plan, self.costs.widths.expert).by_name,
            "bound_s": self.bound,
            "measured_interval": self.interval.as_data(),
            "layout_bound_s": self.layout_bound,
            "planning_s": self.planning_s,
            "scaling": self.costs.scaling,
            "seconds_by_scaling": self.times_by_scaling,
        }


@takes_fields()
def simulate(*values: Any, **fields: Any) -> SimulationResult:  # noqa: ANN401 - fields of Simulation
    """Plan, order and simulate one iteration, and many with drawn times if `iterations` is given.

    Values and keywords are the fields of `Simulation`: trace, cluster, planner, scheduler, microbatches,
    microbatch_size, then by name; or a Simulation.

    >>> result = ps.simulate("bert-large", 'flat(4, bandwidth="10Gb/s")', "balanced", "one_f_one_b", microbatches=8)
    >>> print(f"{result.iteration_time * 1e3:.1f} ms, fits: {result.fits_memory}")
    250.0 ms, fits: True
    """
    simulation = simulation_of(*values, **fields)
    return simulated(setups.setup_of(simulation), simulation)


def simulated(
    setup: Setup,
    simulation: Simulation,
    drawn: Iterable[float] | None = None,
    run: Callable[[Program], Timeline] | None = None,
    play: Callable[[], "Played"] | None = None,
) -> SimulationResult:
    """The result of a setup that a simulation describes; `drawn` times where they were made already.

    `play` is what plays the iteration with median times, if not `played`.
    """
    if drawn is None:
        check_drawn(setup, simulation)  # refused before anything is simulated
    timeline, fold = play() if play is not None else played(setup, simulation, run)
    times = drawn if drawn is not None else drawn_times(setup, simulation, timeline.program if fold is None else None)
    statistics = None
    if times is not None:
        draw, found = draw_of(setup.costs, simulation.draw)
        shown: dict[str, Any] = {"seed": simulation.seed, "jitter": simulation.jitter, "draw": draw}
        shown["joint_samples"] = None if found is None else found.as_data()
        statistics = replay_statistics(times, simulation.seed) | shown
    return SimulationResult(setup, timeline, with_defaults(simulation), statistics, fold)


class Played(NamedTuple):
    """The iteration with median times, and what represents others in it."""

    timeline: Timeline
    fold: Fold | None


def played(setup: Setup, simulation: Simulation, run: Callable[[Program], Timeline] | None = None) -> Played:
    """Lower a setup, folded where it can be, and play its iteration with median times."""
    program, fold = lowered(setup, simulation.fold)
    return Played(run(program) if run is not None else by_name.run(program, simulation.engine), fold)


LARGE = 20_000  # actions and messages from which on folding is worth the search for what is alike


def lowered(setup: Setup, fold: str = "auto") -> tuple[Program, Fold | None]:
    """The program of a setup, folded where that is asked for, worth it and possible."""
    found = fold_of(setup) if fold == "auto" and _is_large(setup) else None
    return (lower(setup) if found is None else lower_folded(setup, found)), found


def _is_large(setup: Setup) -> bool:
    return len(setup.schedule.kind) * (1 + len(setup.plan.gpus) // len(setup.plan.devices)) >= LARGE


def check_drawn(setup: Setup, simulation: Simulation) -> None:
    """Refuse iterations with drawn times that a simulation asks for and that cannot be drawn."""
    if simulation.iterations is not None:
        how = setup, simulation.iterations, simulation.seed, simulation.jitter
        check_replay(*how, simulation.host_memory, simulation.draw)


def drawn_times(setup: Setup, simulation: Simulation, program: Program | None = None) -> Iterator[float] | None:
    """Seconds of every iteration with drawn times; None if a simulation asks for none. Refused at once, not later."""
    if simulation.iterations is None:
        return None
    check_drawn(setup, simulation)
    how = setup, simulation.iterations, simulation.seed, simulation.jitter
    return replay(*how, simulation.engine, simulation.host_memory, simulation.draw, program)


@takes_fields()
def make_setup(*values: Any, **fields: Any) -> Setup:  # noqa: ANN401 - fields of Simulation
    """Load, plan and order: what `lower` makes a program of. Takes what `simulate` takes.

    >>> setup = ps.make_setup("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=2)
    >>> print(setup.schedule)
    0F0,0F1,0B0,0B1
    1F0,1B0,1F1,1B1
    """
    return setups.setup_of(simulation_of(*values, **fields))


@takes_fields(PLANNING)
def find_plan(*values: Any, **fields: Any) -> PlanResult:  # noqa: ANN401 - fields of Simulation
    """Split a model over a cluster. Takes what `simulate` takes, as far as it concerns planning.

    >>> found = ps.find_plan("bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", microbatches=4)
    >>> print(f"{found.plan.cuts} {found.bound * 1e3:.1f} ms")
    (27,) 167.6 ms
    """
    return planned(simulation_of(*values, order=PLANNING, **fields))


def planned(simulation: Simulation) -> PlanResult:
    """The plan of a simulation, and how long its planner took."""
    cluster = sources.cluster_of(simulation)
    trace = sources.trace_of(simulation, cluster)
    costs = setups.costs_in(simulation, trace)
    began = time.perf_counter()
    plan, notes = setups.fitting_plan(simulation, trace, costs, cluster)
    took, notes = time.perf_counter() - began, (*costs.notes, *notes)
    options = setups.options_of(simulation, trace)
    return PlanResult(plan, setups.of_plan(costs, plan), cluster, took, notes, simulation.framework, options)


@takes_fields(PLANNING)
def make_plan(*values: Any, **fields: Any) -> Plan:  # noqa: ANN401 - fields of Simulation
    """The plan alone that `find_plan` finds.

    >>> plan = ps.make_plan("bert-large", 'flat(4, bandwidth="1GB/s")', "balanced", microbatches=8)
    >>> plan.cuts
    (13, 27, 41)
    """
    return find_plan(*values, **fields).plan


# Where the names of pipesim.experiment of 0.1 are.
_NOW = {
    "Case": "pipesim.lowering:Setup",
    "bundled_traces": "pipesim.studies.loading:bundled_traces",
    "check_kinds": "pipesim.studies.setups:check_kinds",
    "load_cluster": "pipesim.studies.loading:load_cluster",
    "load_plan": "pipesim.studies.loading:load_plan",
    "load_scenario": "pipesim.studies.loading:load_scenario",
    "load_trace": "pipesim.studies.loading:load_trace",
    "make_case": "pipesim.studies.results:make_setup",
    "plan_with": "pipesim.studies.setups:plan_with",
    "run": "pipesim.engines.by_name:run",
}
__getattr__ = renamed(__name__, _NOW)
