"""Plans as arguments of training frameworks, and back; what a framework cannot express is rounded, at a simulated cost.

ps.layout.read("--pipeline-model-parallel-size 8 ...", model="llama3-70b")    a layout of a framework's arguments
ps.layout.of(result)                                       the layout of a plan, or of what was simulated
ps.layout.write(layout, "megatron")                        its arguments
ps.layout.plan(layout, "llama3-70b", cluster)              its plan
ps.layout.convert(simulation, plan, "deepspeed")           its arguments, rounded where they must be
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pipesim.architectures import described
from pipesim.base import files, lookup
from pipesim.base.errors import InputError, PipesimError, within
from pipesim.core.cluster import Cluster
from pipesim.core.model import Model, model_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import text_of
from pipesim.core.trace import Trace
from pipesim.frameworks.layout_formats import FORMATS, format_named, format_of
from pipesim.frameworks.plan_conversion import ModelUnits, layout_of_plan, plan_of_layout, ranks_of, uncut
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import results, setups, sources
from pipesim.studies.loading import load_cluster, load_plan, load_trace
from pipesim.studies.results import PlanResult, SimulationResult
from pipesim.studies.simulation import Simulation, defaults, with_defaults

Named = Model | Trace | Path | str
SCHEDULE_FILE = "schedule.csv"


def units_of(model: "ModelUnits | Named") -> ModelUnits:
    """What frameworks divide of a model: of its name, a trace, or a Model."""
    if isinstance(model, ModelUnits):
        return model
    if isinstance(model, Model):
        return ModelUnits.of(model)
    name = "" if isinstance(model, Trace) else sources.model_named(str(model))
    if name:
        return ModelUnits.of(described.model_called(name, {}))
    return ModelUnits.of(model_of(load_trace(model)))


def read(
    source: Path | str,
    *,
    model: "ModelUnits | Named | None" = None,
    gpus: int | None = None,
    framework: str | None = None,
) -> TrainingLayout:
    """The layout that a file or text of a framework states, or a plan of pipesim.

    >>> layout = ps.layout.read("--num-layers 8 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 4")
    >>> layout.stages, layout.tensor
    (('Etttt', 'ttttL'), 4)
    """
    path = _file_of(source)
    if path is None:
        return read_text(str(source), model=model, gpus=gpus, framework=framework)
    text = files.read_text(path)
    with within(str(path)):
        if framework is None and "pipesim.plan" in text[:300]:
            found = load_plan(path)
            return layout_of_plan(found, units_of(found.model if model is None else model))
        return read_text(text, model=model, gpus=gpus, framework=framework)


def read_text(
    text: str,
    *,
    model: "ModelUnits | Named | None" = None,
    gpus: int | None = None,
    framework: str | None = None,
) -> TrainingLayout:
    """The layout that text of a framework states."""
    units = None if model is None else units_of(model)
    name = format_of(text) if framework is None else format_named(framework)
    layout = FORMATS[name].read(text, units, gpus)
    if units is not None and "m" not in "".join(layout.stages):
        _check_blocks(layout, units)
    return layout


def _check_blocks(layout: TrainingLayout, units: ModelUnits) -> None:
    own = len(units.letters) if units.blocks is None else units.blocks
    if sum(layout.blocks) != own:
        raise InputError(f"{sum(layout.blocks)} blocks found; {own} were expected, as {units.model!r} has")


def _file_of(source: Path | str) -> Path | None:
    """The file that a source names; None where it is text. A name of a file that is not there is refused."""
    if isinstance(source, Path):
        return source
    if len(source) > _LONGEST_NAME or "\n" in source or source.lstrip().startswith(("-", "{", "[")):
        return None
    path = Path(source)
    if files.is_file(path):
        return path
    if path.suffix in _SUFFIXES and " " not in source and "=" not in source:
        raise InputError(f"{source}: no such file")
    return None


_LONGEST_NAME = 400
_SUFFIXES = {".sh", ".json", ".toml", ".txt", ".py", ".yaml", ".yml"}


def of(
    found: SimulationResult | PlanResult | Plan,
    model: "ModelUnits | Named | None" = None,
    simulation: Simulation | None = None,
) -> TrainingLayout:
    """The layout of a plan, of what was planned or of what was simulated.

    >>> found = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", microbatches=4)
    >>> ps.layout.of(found).stages[1]
    'tttttttttttLLL'
    """
    if isinstance(found, SimulationResult):
        made = found.setup.costs.model
        chosen = simulation or found.simulation or Simulation()
        return layout_of_plan(found.setup.plan, units_of(model or made), made.microbatch_size, **_fields(chosen, made))
    if isinstance(found, PlanResult):
        made = found.costs.model
        given = {} if simulation is None else _fields(simulation, made)
        return layout_of_plan(found.plan, units_of(model or made), made.microbatch_size, **given)
    return layout_of_plan(found, units_of(found.model if model is None else model))


def _fields(simulation: Simulation, model: Model) -> dict[str, Any]:
    """The fields of a layout that a simulation states; the schedule of the plan where only the default is stated."""
    chosen = with_defaults(simulation)
    blocks = chosen.recompute_blocks
    if isinstance(blocks, str):
        counts = set(blocks.split(";"))
        if len(counts) > 1:
            raise InexpressibleError(f"recompute_blocks = {blocks} found; frameworks have one number for all stages")
        blocks = int(counts.pop())
    found: dict[str, Any] = {
        "expert": chosen.expert or 1,
        "sequence": model.sequence or None,
        "precision": model.precision or None,
        "sequence_parallel": model.sequence_parallel,
        "recompute_blocks": blocks,
        "gather_overlap": bool(chosen.gradient_overlap),
        **{
            name: getattr(chosen, name)
            for name in ("sharding", "sharding_size", "gradient_precision", "gradient_overlap", "recompute")
        },
    }
    found["gather_overlap"] = bool(chosen.gradient_overlap) and chosen.sharding != "none"
    if isinstance(chosen.scheduler, str) and chosen.scheduler != defaults()["scheduler"]:
        name = lookup.parse_call(chosen.scheduler, "scheduler")[0]
        known = name if name.endswith(".csv") else _present_name(chosen.scheduler)
        found["scheduler"] = known
    return found


def _present_name(scheduler: str) -> str:
    """A schedule's name as the list of schedules has it, with its options but the number of chunks."""
    name, _, options = lookup.parse_member(scheduler, SCHEDULERS, "scheduler")
    given = ", ".join(f"{key}={value!r}" for key, value in options.items() if key != "chunks")
    return f"{name}({given})" if given else name


def write(layout: TrainingLayout, framework: str, model: "ModelUnits | Named | None" = None) -> str:
    """The layout as a framework's text; refused by name where it cannot express it.

    >>> print(ps.layout.write(ps.layout.read("cfg.model.pipeline_model_parallel_size=2", model="gpt2"), "megatron"))
    --num-layers 12
    --pipeline-model-parallel-size 2
    """
    units = None if model is None else units_of(model)
    return FORMATS[format_named(framework)].write(layout, units)


def plan(layout: TrainingLayout, model: "ModelUnits | Named", cluster: Cluster | Path | str) -> Plan:
    """The plan of a layout on the first GPUs of a cluster, node by node, numbered as frameworks do.

    >>> layout = ps.layout.read("--num-layers 12 --pipeline-model-parallel-size 2 --micro-batch-size 1"
    ...     " --global-batch-size 4", gpus=2)
    >>> ps.layout.plan(layout, "gpt2", 'flat(2, bandwidth="1GB/s")').cuts
    (13,)
    """
    return plan_of_layout(layout, units_of(model), load_cluster(cluster))


def simulation_fields(layout: TrainingLayout, model: object, framework: str = "megatron") -> dict[str, Any]:
    """The fields of a simulation that a layout states, but for its plan, model and cluster."""
    computed = bool(sources.model_named(model)) if isinstance(model, str) else False
    found: dict[str, Any] = {
        "framework": FORMATS[format_named(framework)].framework,
        "microbatch_size": layout.microbatch_size,
        "scheduler": layout.scheduler,
        "sharding": layout.sharding,
        "sharding_size": layout.sharding_size,
        "gradient_precision": layout.gradient_precision,
        "gradient_overlap": layout.gradient_overlap,
        "recompute": layout.recompute,
        "recompute_blocks": layout.recompute_blocks,
        "transfers": None if layout.message_overlap or layout.interleave == 1 else "paired",
    }
    if computed:
        found |= {"sequence": layout.sequence, "precision": layout.precision}
        found |= {"sequence_parallel": True} if layout.sequence_parallel and layout.tensor > 1 else {}
    if layout.expert > 1:
        found["expert"] = layout.expert
    default = defaults()
    return {name: value for name, value in found.items() if value is not None and value != default[name]}


def approximations(layout: TrainingLayout) -> list[str]:
    """What a simulation does otherwise than the layout states, in sentences."""
    found = []
    if layout.recompute_unit > 1:
        found.append(f"units of {layout.recompute_unit} recomputed blocks are simulated as units of one block")
    if layout.recompute_modules:
        found.append(f"recomputation of {', '.join(layout.recompute_modules)} is simulated as that of core attention")
    if layout.gradient_overlap != layout.gather_overlap and layout.sharding != "none":
        found.append("overlap of gradients and of gathered parameters is simulated as one option: that of gradients")
    if layout.expert_tensor is not None:
        found.append("another tensor width of experts is not simulated")
    return found


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
        given = _fields(self.simulation, self.model)
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


def command(layout: TrainingLayout, model: str, cluster: str, plan_file: str | None = None) -> str:
    """What to type to simulate a layout."""
    from shlex import quote  # noqa: PLC0415 - of this function alone

    words = ["pipesim simulate", quote(model), quote(cluster)]
    if plan_file is not None:
        words += ["--plan", quote(plan_file)]
    else:
        words += _planner_words(layout)
    for name, value in simulation_fields(layout, model).items():
        flag = f"--{name.replace('_', '-')}"
        words.append(flag if value is True else f"{flag} {quote(str(value))}")
    return " ".join(words)


def _planner_words(layout: TrainingLayout) -> list[str]:
    if layout.placement != "loop" or layout.global_batch is None:
        return []
    words = [f"--planner 'megatron(blocks={layout.blocks})'"]
    sizes: Iterable[tuple[str, int | None]] = (
        ("tensor", layout.tensor), ("context", layout.context), ("pipeline", layout.pipeline), ("data", layout.data),
        ("interleave", layout.interleave), ("global-batch", layout.global_batch),
    )  # fmt: skip
    return words + [f"--{name} {size}" for name, size in sizes if size != 1 or name in {"pipeline", "data"}]


def gpus_of(cluster: str | None) -> int | None:
    """The number of GPUs of a cluster."""
    return None if cluster is None else len(load_cluster(cluster).devices)


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
        return convert(simulation, plan(layout, model, cluster), framework)


def check_framework(framework: str) -> str:
    """The name of a framework that layouts can be written for."""
    try:
        return format_named(framework)
    except PipesimError as error:
        raise error.within("--to") from None


def framework_of(source: str, framework: str | None = None) -> str:
    """The name of the format that a file or text has; `pipesim` for a plan."""
    if framework is not None:
        return format_named(framework)
    path = _file_of(source)
    text = source if path is None else files.read_text(path)
    return "pipesim" if "pipesim.plan" in text[:300] else format_of(text)
