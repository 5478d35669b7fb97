"""Plans as arguments of training frameworks, and back; what a framework cannot express is rounded, at a simulated cost.

ps.layout.read("--pipeline-model-parallel-size 8 ...", model="llama3-70b")    a layout of a framework's arguments
ps.layout.of(result)                                       the layout of a plan, or of what was simulated
ps.layout.write(layout, "megatron")                        its arguments
ps.layout.plan(layout, "llama3-70b", cluster)              its plan
ps.layout.convert(simulation, plan, "deepspeed")           its arguments, rounded where they must be
"""

from pathlib import Path

from pipesim.base import files
from pipesim.base.errors import InputError, PipesimError, within
from pipesim.core.cluster import Cluster
from pipesim.core.plan import Plan
from pipesim.frameworks.layout_formats import FORMATS, format_named, format_of
from pipesim.frameworks.plan_conversion import ModelUnits, layout_of_plan, plan_of_layout
from pipesim.frameworks.training_layout import TrainingLayout
from pipesim.studies.layout_fields import Named, approximations, command, fields_of, simulation_fields, units_of
from pipesim.studies.layout_rounding import SCHEDULE_FILE, ConvertedLayout, best_of, convert, rounded
from pipesim.studies.loading import load_cluster, load_plan
from pipesim.studies.results import PlanResult, SimulationResult
from pipesim.studies.simulation import Simulation

__all__ = [
    "SCHEDULE_FILE", "ConvertedLayout", "approximations", "best_of", "check_framework", "command", "convert",
    "framework_of", "gpus_of", "of", "plan", "read", "read_text", "rounded", "simulation_fields", "units_of", "write",
]  # fmt: skip


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
        return layout_of_plan(
            found.setup.plan, units_of(model or made), made.microbatch_size, **fields_of(chosen, made)
        )
    if isinstance(found, PlanResult):
        made = found.costs.model
        given = {} if simulation is None else fields_of(simulation, made)
        return layout_of_plan(found.plan, units_of(model or made), made.microbatch_size, **given)
    return layout_of_plan(found, units_of(found.model if model is None else model))


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


def gpus_of(cluster: str | None) -> int | None:
    """The number of GPUs of a cluster."""
    return None if cluster is None else len(load_cluster(cluster).devices)


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
