"""What torch.distributed.pipelining takes: the modules of each stage, where to split, the schedule; as JSON.

`split_spec` is that of `pipeline(module, ..., split_spec={name: SplitPoint.BEGINNING})`, for modules whose layers have
the names of the model's; `stages` is for who builds a `PipelineStage` of each by hand.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from pipesim.base import serialisation
from pipesim.base.checks import check_whole
from pipesim.base.errors import FormatError, InputError, shown
from pipesim.frameworks import torch_schedules
from pipesim.frameworks.training_layout import TrainingLayout

_SIZES = ("data", "tensor", "context", "expert", "microbatch_size", "microbatches", "sequence")
_STATED = {"stages", "pipeline", "placement", "scheduler", *_SIZES}


def recognised(text: str) -> bool:
    """Whether text is what `write` wrote."""
    return '"split_spec"' in text and '"stages"' in text


def read(text: str, blocks: int | None = None, gpus: int | None = None) -> TrainingLayout:
    """The layout of a file that `write` wrote."""
    del blocks, gpus  # the file states both
    data = serialisation.parse_data(text, ".json")
    stages, schedule = data.get("stages"), data.get("schedule")
    if not isinstance(stages, list) or not all(isinstance(one, Mapping) for one in stages):
        raise FormatError("stages: a list of objects with stage, rank, modules and holds was expected")
    holds = tuple(str(one.get("holds", "")) for one in stages)
    pipeline = check_whole("pipeline", data.get("pipeline", 1))
    file = data.get("schedule_csv")
    found = (str(file), str(data.get("placement", "loop"))) if file else torch_schedules.placed(str(schedule))
    if found is None:
        raise InputError(f"schedule: {shown(schedule)} found; {', '.join(torch_schedules.SCHEDULES)} was expected")
    made = TrainingLayout(
        holds,
        pipeline=pipeline,
        scheduler=found[0],
        placement=found[1],
        **{name: data[name] for name in _SIZES if data.get(name) is not None},
        **_others(data.get("options", {})),
    )
    ranks = [one.get("rank") for one in stages]
    if ranks != made.positions:
        raise InputError(f"stages: ranks {shown(ranks)} found; {shown(made.positions)} was expected of a {found[1]}")
    return made


def _others(options: Any) -> dict[str, Any]:  # noqa: ANN401 - of a file
    known = {field.name for field in fields(TrainingLayout)} - _STATED
    if not isinstance(options, Mapping) or not set(options) <= known:
        raise FormatError(f"options: an object with some of {', '.join(sorted(known))} was expected")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def write(layout: TrainingLayout, names: Sequence[str] = ()) -> str:
    """The JSON text; `names` are those of the model's layers, one for each letter."""
    letters = "".join(layout.stages)
    if len(names) != len(letters):
        names = [f"layers.{n}" for n in range(len(letters))]
    schedule = torch_schedules.named(layout)
    parts, start = [], 0
    for stage in layout.stages:
        parts.append(list(names[start : start + len(stage)]))
        start += len(stage)
    default = TrainingLayout(layout.stages, pipeline=layout.pipeline, placement=layout.placement)
    others = {name: getattr(layout, name) for name in layout.differences(default) if name not in _STATED}
    data = {
        "schedule": schedule or torch_schedules.RUNTIME,
        **({} if schedule else {"schedule_csv": torch_schedules.file_of(layout)}),
        "pipeline": layout.pipeline,
        "placement": layout.placement,
        **{name: getattr(layout, name) for name in _SIZES if getattr(layout, name) is not None},
        "options": others,
        "stages": [
            {"stage": n, "rank": position, "holds": stage, "modules": part}
            for n, (position, stage, part) in enumerate(zip(layout.positions, layout.stages, parts, strict=True))
        ],
        "split_spec": {part[0]: "BEGINNING" for part in parts[1:] if part},
    }
    return json.dumps(data, indent=1)
