"""Plans in a framework's words: what it cannot express is rounded to the nearest that it has, at a simulated cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import text_of
from pipesim.frameworks.layout_formats import FORMATS, format_named
from pipesim.frameworks.plan_conversion import ModelUnits, layout_of_plan, plan_of_layout, ranks_of, uncut
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout
from pipesim.studies import results, setups
from pipesim.studies.layout_fields import fields_of, simulation_fields, units_of
from pipesim.studies.loading import load_cluster
from pipesim.studies.simulation import Simulation, defaults, with_defaults

SCHEDULE_FILE = "schedule.csv"


@dataclass(frozen=True, slots=True)
class ConvertedLayout:
    """A plan in a framework's words, the nearest that it has, and what that costs."""

    framework: str
    text: str
    layout: TrainingLayout
    ranks: tuple[str, ...] = ()
    """The device of each rank."""
    notes: tuple[str, ...] = ()
    exact_s: float | None = None
    """Seconds of the iteration as planned; None where nothing was rounded."""
    rounded_s: float | None = None
    """Seconds of the iteration as it is written."""
    files: dict[str, str] = field(default_factory=dict)
    """Further files that the text names: a schedule."""

    def as_data(self) -> dict[str, Any]:
        """As plain values, as `--json` prints them."""
        stated = {one.name: getattr(self.layout, one.name) for one in fields(TrainingLayout)}
        return {
            "framework": self.framework,
            "text": self.text,
            "layout": stated,
            "gpus": self.layout.gpus,
            "global_batch": self.layout.global_batch,
            "ranks": list(self.ranks),
            "notes": list(self.notes),
            "exact_s": self.exact_s,
            "rounded_s": self.rounded_s,
            "files": dict(self.files),
        }


def convert(simulation: Simulation, found: Plan, framework: str, schedule_file: str = SCHEDULE_FILE) -> ConvertedLayout:
    """A plan of a simulation in a framework's words; where it has none for it, the fastest of the nearest that it has.

    >>> simulation = ps.Simulation(trace="gpt2", cluster="hgx_h100(1)", pipeline=4, data=2, global_batch=16)
    >>> print(ps.layout.convert(simulation, ps.make_plan(simulation), "deepspeed").layout.blocks)
    (3, 3, 3, 3)
    """
    name = format_named(framework)
    scheduler = with_defaults(simulation).scheduler
    stated = replace(simulation, plan=found, planner=None, scheduler=scheduler, **_UNPLANNED)
    setup = setups.setup_of(stated)
    rounding = _Rounding(name, stated, setup.plan, units_of(setup.costs.model), setup.costs.model, schedule_file)
    layouts, reasons = rounding.start()
    exact, best = None, layouts[0]
    if reasons:
        exact = results.simulate(stated).iteration_time
    text: str | None = None
    seconds: float | None = None
    for _ in range(4):  # a rounding may need another one
        choices = [(rounding.seconds(one) if reasons else 0.0, n, one) for n, one in enumerate(layouts)]
        seconds, _, best = min(choices)
        try:
            text = FORMATS[name].write(best, rounding.units)
            break
        except InexpressibleError as error:
            if not error.nearest:
                raise
            reasons, layouts = [*reasons, error.message], list(error.nearest)
            exact = results.simulate(stated).iteration_time if exact is None else exact
    if text is None:
        raise InexpressibleError("; ".join(reasons))
    notes = [f"rounded: {reason}" for reason in reasons]
    ranks = ranks_of(found)
    order = tuple(device.name for device in setup.cluster.devices)[: len(ranks)]
    if ranks != order:
        notes.append(f"rank n is on the n-th of these devices, not on that of the cluster: {', '.join(ranks)}")
    made = {schedule_file: rounding.table()} if best.scheduler == schedule_file else {}
    rounded = seconds if reasons else None
    return ConvertedLayout(name, text, best, ranks, tuple(notes), exact if reasons else None, rounded, made)


def best_of(simulations: Sequence[Simulation], framework: str) -> ConvertedLayout:
    """The first of simulations that a framework can express, in its words; those before it are noted."""
    refused: dict[str, list[int]] = {}
    for n, simulation in enumerate(simulations):
        try:
            setup = setups.setup_of(simulation)
            made = convert(simulation, setup.plan, framework)
        except InexpressibleError as error:
            refused.setdefault(error.message, []).append(n + 1)
        else:
            return replace(made, notes=(*_left_out(refused), *made.notes))
    raise InexpressibleError("; ".join(_left_out(refused)) or "no layouts found")


def _left_out(refused: Mapping[str, Sequence[int]]) -> list[str]:
    return [f"of the table, {', '.join(map(str, rows))} left out: {reason}" for reason, rows in refused.items()]


_UNPLANNED: dict[str, Any] = {
    "pipeline": None, "data": None, "interleave": None, "objective": None, "global_batch": None,
    "microbatches": defaults()["microbatches"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Rounding:
    """A plan that is rounded to what a framework has: what was asked for, and the model."""

    framework: str
    simulation: Simulation
    plan: Plan
    units: ModelUnits
    model: Model
    schedule_file: str

    def start(self) -> tuple[list[TrainingLayout], list[str]]:
        """The layout of the plan, or of the plans nearest to it that cut between blocks, and why."""
        given = fields_of(self.simulation, self.model)
        if self.framework in {"torch", "torchtitan"}:
            given = self._with_file(given)
        size = self.model.microbatch_size
        try:
            return [layout_of_plan(self.plan, self.units, size, **given)], []
        except InexpressibleError as error:
            near = uncut(self.plan, self.units)
            if not near or near == [self.plan]:
                raise
            return [layout_of_plan(one, self.units, size, **given) for one in near], [error.message]

    def _with_file(self, given: dict[str, Any]) -> dict[str, Any]:
        """With a schedule that PyTorch has no class for as a file."""
        from pipesim.frameworks import torch_schedules  # noqa: PLC0415 - of these frameworks alone

        layout = layout_of_plan(uncut(self.plan, self.units)[0], self.units, None, **given)
        named = torch_schedules.named(layout) is not None or layout.scheduler.endswith(".csv")
        return given if named or layout.pipeline == 1 else given | {"scheduler": self.schedule_file}

    def planned(self, layout: TrainingLayout) -> Plan:
        """The plan of a layout on the devices of the plan."""
        bounds = self.units.divided(layout.stages)
        stages = (Stage(a, b, one.devices) for a, b, one in zip(bounds, bounds[1:], self.plan.stages, strict=False))
        return replace(self.plan, stages=tuple(stages))

    def seconds(self, layout: TrainingLayout) -> float:
        """The simulated iteration of a layout on the devices of the plan."""
        file = layout.scheduler == self.schedule_file
        chosen = replace(
            self.simulation,
            plan=self.planned(layout),
            scheduler=self.simulation.scheduler if file else layout.scheduler,
            sharding=layout.sharding,
        )
        return results.simulate(chosen).iteration_time

    def table(self) -> str:
        """The schedule of one pipeline, as PyTorch reads it."""
        first = tuple(replace(stage, devices=stage.devices[:1]) for stage in self.plan.stages)
        leaders = {device for stage in first for device in stage.devices}
        count = self.plan.microbatches
        count = count if self.plan.replicas == "split" else count // len(self.plan.stages[0].devices)
        teams = tuple(team for team in self.plan.teams if team[0] in leaders)
        one = replace(self.plan, stages=first, teams=teams, microbatches=count)
        made = setups.setup_of(replace(self.simulation, plan=one))
        return f"{text_of(made.schedule.cells)}\n"


def rounded(layout: TrainingLayout, framework: str, model: str | None, cluster: str | None) -> ConvertedLayout:
    """A layout in another framework's words; rounded, at a simulated cost, where a model and a cluster are given."""
    name = format_named(framework)
    units = None if model is None else units_of(model)
    try:
        return ConvertedLayout(name, FORMATS[name].write(layout, units), layout)
    except InexpressibleError as error:
        if not error.nearest:
            raise
        if model is None or cluster is None or layout.microbatches is None:
            hint = "--model, --cluster and the batches were expected to round it and simulate the cost"
            raise InexpressibleError(f"{error.message}; {hint}") from error
        given = simulation_fields(layout, model, framework)
        simulation = Simulation(trace=model, cluster=cluster, **given)
        return convert(simulation, plan_of_layout(layout, units_of(model), load_cluster(cluster)), framework)
