"""A DeepSpeed configuration (JSON) with its pipeline section: stages, how layers are parted, batches and ZeRO.

DeepSpeed parts layers by a method and takes no list: `uniform`, `parameters`, or `type:REGEX`, which counts only layers
whose class matches. Read in DeepSpeed edaa7221 (`runtime/pipe/module.py`, `runtime/utils.py`). Names of GPT-NeoX
(`pipe_parallel_size`, `model_parallel_size`, `pipe_partition_method`) are read, too.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from pipesim.base import lookup, serialisation
from pipesim.base.checks import check_whole
from pipesim.base.errors import FormatError, InputError, shown
from pipesim.frameworks.training_layout import BLOCK, MOST_LAYERS, ONE_F_ONE_B, InexpressibleError, TrainingLayout

METHODS = ("parameters", "uniform", "type:transformer")
_STAGES = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}
_KEYS = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")


def recognised(text: str) -> bool:
    """Whether text is a configuration with a pipeline."""
    return text.lstrip().startswith("{") and any(
        key in text for key in ('"pipeline"', '"pipe_parallel_size"', '"pipe-parallel-size"')
    )


def uniform(items: int, parts: int) -> list[int]:
    """Bounds of parts of equally many items; the first have one more."""
    if items <= parts:
        return [min(n, items) for n in range(parts + 1)]
    each, more = divmod(items, parts)
    return [n * each + min(n, more) for n in range(parts + 1)]


def balanced(weights: Sequence[float], parts: int) -> list[int]:
    """Bounds of parts of which the heaviest and the lightest differ little.

    For each number of items and parts one division is kept: of those by its last cut, the one with the least
    difference, and the last of equals. That is what DeepSpeed does, and not always the best division.
    """
    items = len(weights)
    if items <= parts:
        return uniform(items, parts)
    before = np.concatenate([[0.0], np.cumsum(np.asarray(weights, np.float64))])
    heaviest, lightest = np.full((items + 1, parts + 1), np.inf), np.full((items + 1, parts + 1), np.inf)
    heaviest[0, 0] = 0.0
    last = np.zeros((items + 1, parts + 1), np.int64)
    for part in range(1, parts + 1):
        for end in range(part, items + 1):
            own = before[end] - before[:end]
            most = np.maximum(heaviest[:end, part - 1], own)
            least = np.minimum(lightest[:end, part - 1], own)
            spread = most - least
            cut = end - 1 - int(np.argmin(spread[::-1]))
            if np.isfinite(spread[cut]):
                heaviest[end, part], lightest[end, part], last[end, part] = most[cut], least[cut], cut
    bounds = [items]
    for part in range(parts, 0, -1):
        bounds.append(int(last[bounds[-1], part]))
    return bounds[::-1]


def parted(method: str, letters: str, parameters: Sequence[float], stages: int) -> list[int] | None:
    """The bounds by a method; None where it needs parameters that are not known, or names other classes."""
    if method == "uniform":
        return uniform(len(letters), stages)
    if method == "parameters":
        return balanced(parameters, stages) if len(parameters) == len(letters) else None
    if method.startswith("type:") and any(word in method.lower() for word in ("transformer", "block", "layer")):
        return balanced([float(letter == BLOCK) for letter in letters], stages)
    return None


def read(
    text: str,
    blocks: int | None = None,
    gpus: int | None = None,
    letters: str = "",
    parameters: Sequence[float] = (),
) -> TrainingLayout:
    """The layout of a configuration; `letters` and `parameters` of the model's layers are what methods part."""
    data = serialisation.parse_data(text, ".json")
    given = data.get("pipeline", {})
    if not isinstance(given, Mapping):
        raise FormatError("pipeline: an object was expected")
    pipeline = check_whole(
        "pipeline.stages", given.get("stages", _named(data, "pipe_parallel_size", 1)), 1, MOST_LAYERS
    )
    tensor = check_whole("pipeline.tensor", given.get("tensor", _named(data, "model_parallel_size", 1)))
    stated = given.get("data")
    count = None if stated is None else check_whole("pipeline.data", stated)
    if count is None and gpus is not None:
        count, rest = divmod(gpus, pipeline * tensor)
        if rest or not count:
            raise InputError(f"{gpus} GPUs found; a multiple of {pipeline} x {tensor} was expected")
    if not letters and blocks is not None:
        letters = f"E{BLOCK * blocks}L"
    stages = _stages(data, given, pipeline, letters, parameters)
    zero = data.get("zero_optimization", {})
    level = zero.get("stage", 0) if isinstance(zero, Mapping) else 0
    if level not in _STAGES.values():
        raise InputError(f"zero_optimization.stage = {shown(level)} found; 0 to 3 was expected")
    interval = check_whole("pipeline.activation_checkpoint_interval", given.get("activation_checkpoint_interval", 0), 0)
    return TrainingLayout(
        stages,
        pipeline=pipeline,
        tensor=tensor,
        data=count,
        **_batches(data, count),
        precision=next((name for name in ("bf16", "fp16") if _enabled(data.get(name))), None),
        sharding={value: name for name, value in _STAGES.items()}[level],
        recompute="full" if interval else "none",
        recompute_unit=max(interval, 1),
    )


def _named(data: Mapping[str, Any], name: str, default: Any) -> Any:  # noqa: ANN401 - of a file
    return data.get(name, data.get(name.replace("_", "-"), default))


def _enabled(section: Any) -> bool:  # noqa: ANN401 - of a file
    return isinstance(section, Mapping) and section.get("enabled") is True


def _stages(
    data: Mapping[str, Any], given: Mapping[str, Any], stages: int, letters: str, parameters: Sequence[float]
) -> tuple[str, ...]:
    method = given.get("partition", _named(data, "pipe_partition_method", METHODS[0]))
    method = METHODS[0] if method == "best" else str(method).lower()
    holds, bounds = given.get("holds"), None
    if holds is not None:
        if not isinstance(holds, list):
            raise FormatError("pipeline.holds: a list of the letters of each stage was expected")
        return tuple(map(str, holds))
    if letters:
        bounds = parted(method, letters, parameters, stages)
    if bounds is None:
        raise InputError(
            f"pipeline.partition = {shown(method)} found; the layers of the model (--model) were expected to part "
            f"them, and one of {', '.join(METHODS)}"
        )
    return tuple(letters[a:b] for a, b in pairwise(bounds))


def _batches(data: Mapping[str, Any], count: int | None) -> dict[str, Any]:
    size, steps, batch = (None if data.get(key) is None else check_whole(key, data[key]) for key in _KEYS)
    if count is not None and batch is not None:
        known = size or steps
        if known is not None and (size is None or steps is None):
            other, rest = divmod(batch, known * count)
            if not rest and other:
                size, steps = (size, other) if steps is None else (other, steps)
        if size is None or steps is None or size * steps * count != batch:
            raise InputError(
                f"train_batch_size = {batch} found; {_KEYS[0]} x {_KEYS[1]} x {count} pipelines was expected"
            )
    return {"microbatch_size": size, "microbatches": steps}


def write(layout: TrainingLayout, parameters: Sequence[float] = ()) -> str:
    """The configuration; refused where no method parts the layers like this."""
    method = expressible(layout, parameters)
    data: dict[str, Any] = {
        "train_batch_size": layout.global_batch,
        "train_micro_batch_size_per_gpu": layout.microbatch_size,
        "gradient_accumulation_steps": layout.microbatches,
        **({layout.precision: {"enabled": True}} if layout.precision in {"bf16", "fp16"} else {}),
        "zero_optimization": {"stage": _STAGES[layout.sharding]},
        "pipeline": {
            "stages": layout.pipeline,
            "partition": method,
            "activation_checkpoint_interval": layout.recompute_unit if layout.recompute == "full" else 0,
            "tensor": layout.tensor,
            "data": layout.data,
            "holds": list(layout.stages),
        },
    }
    return json.dumps({key: value for key, value in data.items() if value is not None}, indent=1)


def expressible(layout: TrainingLayout, parameters: Sequence[float] = ()) -> str:
    """The method that parts the layers like this; refused by name where DeepSpeed has none."""
    name = lookup.parse_call(layout.scheduler, "scheduler")[0]
    if layout.interleave > 1 or name != ONE_F_ONE_B:
        raise InexpressibleError(f"scheduler {layout.scheduler}, {layout.interleave} stages on a position found; "
                                 "DeepSpeed has 1F1B with one")  # fmt: skip
    for what, width in (("context", layout.context), ("expert", layout.expert)):
        if width > 1:
            raise InexpressibleError(f"{what} width {width} found; DeepSpeed's pipelines have none")
    if layout.pipeline > 1 and layout.sharding in {"zero2", "zero3"}:
        raise InexpressibleError(
            f"sharding {layout.sharding} found; DeepSpeed refuses it with pipelines",
            [replace(layout, sharding="zero1")],
        )
    if layout.sharding_size is not None or layout.sequence_parallel:
        raise InexpressibleError(
            "sharding over a part of the replicas, or sequence parallelism, found; DeepSpeed has neither"
        )
    if layout.recompute == "selective" or layout.recompute_blocks is not None:
        raise InexpressibleError("recomputation of a part found; DeepSpeed recomputes every N layers, or none")
    if layout.precision not in {None, "bf16", "fp16", "fp32"}:
        raise InexpressibleError(f"precision {layout.precision} found; bf16, fp16 or fp32 was expected")
    letters = "".join(layout.stages)
    wanted = [sum(map(len, layout.stages[:n])) for n in range(layout.pipeline + 1)]
    made = {method: parted(method, letters, parameters, layout.pipeline) for method in METHODS}
    for method, bounds in made.items():
        if bounds == wanted:
            return method
    nearest = {tuple(letters[a:b] for a, b in pairwise(bounds)) for bounds in made.values() if bounds is not None}
    raise InexpressibleError(
        f"parts {wanted} found; DeepSpeed's methods make "
        + ", ".join(f"{bounds} ({method})" for method, bounds in made.items() if bounds is not None),
        [replace(layout, stages=stages) for stages in sorted(nearest)],
    )
