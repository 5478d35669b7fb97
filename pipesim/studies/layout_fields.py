"""What a simulation states of a framework's layout, and what a layout states of a simulation."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipesim.architectures import described
from pipesim.base import lookup
from pipesim.core.model import Model, model_of
from pipesim.core.trace import Trace
from pipesim.frameworks.layout_formats import FORMATS, format_named
from pipesim.frameworks.plan_conversion import ModelUnits
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import sources
from pipesim.studies.loading import load_trace
from pipesim.studies.simulation import Simulation, defaults, with_defaults

Named = Model | Trace | Path | str


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


def fields_of(simulation: Simulation, model: Model) -> dict[str, Any]:
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
