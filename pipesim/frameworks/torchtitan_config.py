"""A torchtitan job file (TOML): sections training, parallelism and activation_checkpoint.

Read in torchtitan v0.2.2 (`config/job_config.py`, `distributed/pipeline_parallel.py`). What follows the blocks is
`norm` and `output` (`lm_head` in 2026).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipesim.base import serialisation
from pipesim.base.checks import check_whole
from pipesim.base.errors import FormatError, InputError, shown
from pipesim.frameworks import torch_schedules
from pipesim.frameworks.training_layout import BLOCK, EMBEDDING, LOSS, InexpressibleError, TrainingLayout

_TAIL = ("norm", "output", "lm_head")
_PARTS = "module_fqns_per_model_part"
_PRECISIONS = {"bf16": "bfloat16", "fp32": "float32"}


def recognised(text: str) -> bool:
    """Whether text is a job file with a parallelism section."""
    return "[parallelism]" in text and "_degree" in text


def read(text: str, blocks: int | None = None, gpus: int | None = None) -> TrainingLayout:
    """The layout of a job file; `blocks` of the model and `gpus` in all, where the file does not state them."""
    file = serialisation.parse_data(text, ".toml")
    sections = {name: file.get(name) or {} for name in ("parallelism", "training", "activation_checkpoint")}
    wrong = next((name for name, value in sections.items() if not isinstance(value, Mapping)), None)
    if wrong is not None:
        raise FormatError(f"{wrong}: a section was expected")
    parallelism, training = sections["parallelism"], sections["training"]
    sizes: dict[str, Any] = {
        name: _whole(parallelism, f"{key}_degree", 1)
        for name, key in {
            "pipeline": "pipeline_parallel",
            "tensor": "tensor_parallel",
            "context": "context_parallel",
            "expert": "expert_parallel",
        }.items()
    }
    replicas = _whole(parallelism, "data_parallel_replicate_degree", 1)
    shard = parallelism.get("data_parallel_shard_degree", -1)
    if shard == -1:
        each = sizes["pipeline"] * sizes["tensor"] * sizes["context"] * replicas
        if gpus is not None and gpus % each:
            raise InputError(f"{gpus} GPUs found; a multiple of {each}, the product of the degrees, was expected")
        shard = None if gpus is None else gpus // each
    else:
        shard = check_whole("data_parallel_shard_degree", shard)
    schedule = _schedule(parallelism, sizes["pipeline"])
    stages = _stages(parallelism, sizes["pipeline"], schedule[2], blocks)
    data = None if shard is None else shard * replicas
    kept = None if shard is None or replicas == 1 or shard == 1 else shard
    return TrainingLayout(
        stages,
        **sizes,
        data=data,
        placement=schedule[1],
        scheduler=schedule[0],
        **_batches(parallelism, training, sizes["pipeline"], data),
        sequence=None if training.get("seq_len") is None else _whole(training, "seq_len", 1),
        precision={value: name for name, value in _PRECISIONS.items()}.get(str(training.get("mixed_precision_param"))),
        sequence_parallel=sizes["tensor"] > 1 and parallelism.get("enable_sequence_parallel", True) is not False,
        sharding="none" if shard == 1 else _sharding(parallelism, sizes["pipeline"]),
        sharding_size=kept,
        gradient_overlap=True,
        gather_overlap=shard != 1,
        **_recomputed(sections["activation_checkpoint"]),
    )


def _whole(section: Mapping[str, Any], key: str, default: int) -> int:
    return check_whole(key, section.get(key, default))


def _schedule(parallelism: Mapping[str, Any], pipeline: int) -> tuple[str, str, bool]:
    """Scheduler, placement, and whether a rank has several stages."""
    file, name = (
        parallelism.get("pipeline_parallel_schedule_csv"),
        parallelism.get("pipeline_parallel_schedule", "1F1B"),
    )
    if file:
        return str(file), "loop", False
    found = torch_schedules.placed(str(name))
    if found is None:
        raise InputError(
            f"pipeline_parallel_schedule = {shown(name)} found; {', '.join(torch_schedules.SCHEDULES)}, or "
            "pipeline_parallel_schedule_csv, was expected"
        )
    several = next(value[1] for value in torch_schedules.SCHEDULES.values() if value[0] == found[0])
    return (found[0], found[1], several and pipeline > 1)


def _stages(parallelism: Mapping[str, Any], pipeline: int, several: bool, blocks: int | None) -> tuple[str, ...]:  # noqa: FBT001 - of a pair
    parts = parallelism.get(_PARTS)
    if parts is not None:
        return _stated(parts)
    if blocks is None:
        raise InputError(f"{_PARTS} is missing; without it, the number of blocks was expected: add --model")
    first = check_whole("pipeline_parallel_first_stage_less_layers", _less(parallelism, "first"), 0)
    last = check_whole("pipeline_parallel_last_stage_less_layers", _less(parallelism, "last"), 0)
    each = parallelism.get("pipeline_parallel_layers_per_stage")
    count = pipeline * (2 if several else 1)
    if each is not None and pipeline > 1:
        count = math.ceil((blocks + first + last) / check_whole("pipeline_parallel_layers_per_stage", each))
    return generated(count, blocks, first, last)


def _less(parallelism: Mapping[str, Any], end: str) -> Any:  # noqa: ANN401 - of a file
    return parallelism.get(f"pipeline_parallel_{end}_stage_less_layers", 1)


def generated(count: int, blocks: int, first: int, last: int) -> tuple[str, ...]:
    """The stages that torchtitan makes where none are stated: even, the ends counted as so many blocks.

    >>> generated(3, 7, 1, 1)
    ('Ett', 'ttt', 'ttL')
    """
    if count == 1:
        return (EMBEDDING + BLOCK * blocks + LOSS,)
    least, more = divmod(blocks + first + last, count)
    if least < 1 or first > least or last > least:
        raise InputError(
            f"{blocks} blocks in {count} stages found, with {first} and {last} less at the ends; fewer stages, or "
            "less that is less, were expected"
        )
    sizes = [least + (n < more) for n in range(count)]
    sizes[0] -= first
    sizes[-1] -= last
    stages = [BLOCK * size for size in sizes]
    stages[0], stages[-1] = EMBEDDING + stages[0], stages[-1] + LOSS
    return tuple(stages)


def _stated(parts: Any) -> tuple[str, ...]:  # noqa: ANN401 - of a file
    if not isinstance(parts, list) or not all(isinstance(part, list) for part in parts):
        raise FormatError(f"{_PARTS}: a list of lists of names was expected")
    stages, following = [], 0
    for part in parts:
        letters = ""
        for name in part:
            if name == "tok_embeddings":
                letters += EMBEDDING
            elif name in _TAIL:
                letters += LOSS
            elif name == f"layers.{following}":
                letters, following = letters + BLOCK, following + 1
            else:
                raise InputError(
                    f"{_PARTS}: {shown(name)} found; tok_embeddings, layers.{following} or {', '.join(_TAIL)} was "
                    "expected"
                )
        stages.append(letters)
    return TrainingLayout(tuple(stages), pipeline=len(stages)).joined().stages if stages else ()


def _batches(
    parallelism: Mapping[str, Any], training: Mapping[str, Any], pipeline: int, data: int | None
) -> dict[str, Any]:
    local, size = _whole(training, "local_batch_size", 8), _whole(parallelism, "pipeline_parallel_microbatch_size", 1)
    batch = training.get("global_batch_size", -1)
    steps = 1
    if batch != -1 and data is not None:
        steps, rest = divmod(check_whole("global_batch_size", batch), local * data)
        if rest or not steps:
            raise InputError(f"global_batch_size = {batch} found; a multiple of {local} x {data} was expected")
    if pipeline == 1:
        return {"microbatch_size": local, "microbatches": steps}
    if steps > 1:
        raise InputError(
            f"global_batch_size = {batch} found: {steps} passes through the pipeline in an iteration; one was "
            f"expected, of local_batch_size = {local} x {data} samples"
        )
    if local % size:
        raise InputError(f"local_batch_size = {local} found; a multiple of {size}, a microbatch, was expected")
    return {"microbatch_size": size, "microbatches": local // size}


def _sharding(parallelism: Mapping[str, Any], pipeline: int) -> str:
    """With pipelines, parameters are gathered once for all microbatches: in time and bytes that is zero1."""
    policy = parallelism.get("fsdp_reshard_after_forward", "default")
    if policy not in {"default", "always", "never"}:
        raise InputError(f"fsdp_reshard_after_forward = {shown(policy)} found; default, always or never was expected")
    always = policy == "always" or (policy == "default" and pipeline == 1)
    return "zero3" if always else "zero1"


def _recomputed(section: Mapping[str, Any]) -> dict[str, Any]:
    mode = section.get("mode", "none")
    if mode not in {"none", "full"}:
        option = section.get("selective_ac_option", "2")
        raise InputError(f"activation_checkpoint.mode = {shown(mode)} ({option}) found; none or full was expected")
    return {"recompute": mode}


def write(layout: TrainingLayout) -> str:
    """The job file's sections; refused by name where torchtitan has no such layout."""
    layout = expressible(layout)
    data = layout.data or 1
    shard = 1 if layout.sharding == "none" else layout.sharding_size or data
    policy = "default" if (layout.sharding == "zero3") == (layout.pipeline == 1) else (
        "always" if layout.sharding == "zero3" else "never"
    )  # fmt: skip
    lines = ["[training]", f"local_batch_size = {_local(layout)}"]
    if layout.global_batch is not None:
        lines.append(f"global_batch_size = {layout.global_batch}")
    lines += [] if layout.sequence is None else [f"seq_len = {layout.sequence}"]
    if layout.precision is not None:
        lines.append(f'mixed_precision_param = "{_PRECISIONS[layout.precision]}"')
    lines += ["", "[parallelism]", f"data_parallel_replicate_degree = {data // shard}"]
    lines += [f"data_parallel_shard_degree = {-1 if layout.data is None and shard != 1 else shard}"]
    lines += [] if shard == 1 else [f'fsdp_reshard_after_forward = "{policy}"']
    lines += [f"tensor_parallel_degree = {layout.tensor}", f"context_parallel_degree = {layout.context}"]
    lines += [] if layout.expert == 1 else [f"expert_parallel_degree = {layout.expert}"]
    lines += [f"pipeline_parallel_degree = {layout.pipeline}"]
    if layout.pipeline > 1:
        name = torch_schedules.named(layout)
        lines.append(f'pipeline_parallel_schedule = "{name or torch_schedules.RUNTIME}"')
        if name is None:
            lines.append(f"pipeline_parallel_schedule_csv = {json.dumps(torch_schedules.file_of(layout))}")
        lines.append(f"pipeline_parallel_microbatch_size = {layout.microbatch_size or 1}")
    lines += [f"{_PARTS} = [", *(f"    {json.dumps(part)}," for part in module_names(layout)), "]"]
    lines += ["", "[activation_checkpoint]", f'mode = "{layout.recompute}"']
    return "\n".join(lines)


def _local(layout: TrainingLayout) -> int:
    size = layout.microbatch_size or 1
    return size if layout.pipeline == 1 else size * (layout.microbatches or 1)


def module_names(layout: TrainingLayout) -> list[list[str]]:
    """The names of the modules of each stage."""
    found, following = [], 0
    tail = [[name] for name in _TAIL[:2]] if sum(LOSS in stage for stage in layout.stages) > 1 else [list(_TAIL[:2])]
    for stage in layout.stages:
        names: list[str] = []
        for letter in stage:
            if letter == BLOCK:
                names, following = [*names, f"layers.{following}"], following + 1
            else:
                names += ["tok_embeddings"] if letter == EMBEDDING else tail.pop(0)
        found.append(names)
    return found


def expressible(layout: TrainingLayout) -> TrainingLayout:
    """The layout with one E and one L, or norm and output in two stages; refused by name otherwise."""
    layout = layout.joined()
    if not layout.has_blocks or any("m" in stage for stage in layout.stages):
        raise InexpressibleError("torchtitan divides transformers of embedding, blocks, norm and output only")
    if not all(layout.stages):
        raise InexpressibleError("a stage without layers found; torchtitan needs a layer in each", [layout.gathered()])
    ends = [sum(letter in stage for stage in layout.stages) for letter in (EMBEDDING, LOSS)]
    if ends[0] != 1 or not 1 <= ends[1] <= 2 or sum(stage.count(LOSS) for stage in layout.stages) > 2:
        raise InexpressibleError(
            "embedding, or norm and head, in several stages found; torchtitan has tok_embeddings, norm and output",
            [layout.gathered()],
        )
    _check_options(layout)
    return layout


def _check_options(layout: TrainingLayout) -> None:
    """Refuse by name what torchtitan has no setting for."""
    if layout.tensor > 1 and not layout.sequence_parallel:
        raise InexpressibleError(
            "tensor parallelism without sequence parallelism found; torchtitan v0.2.2 has both or neither (add "
            "--sequence-parallel)",
            [],
        )
    if layout.precision not in {None, *_PRECISIONS}:
        raise InexpressibleError(
            f"precision {layout.precision} found; torchtitan has bfloat16 and float32 (fp8 is a converter of models)",
            [replace(layout, precision="bf16")],
        )
    if layout.sharding == "zero2":
        raise InexpressibleError("sharding zero2 found; torchtitan shards nothing, or all with FSDP (zero1, zero3)")
    if layout.recompute == "selective" or layout.recompute_blocks is not None or layout.recompute_unit > 1:
        raise InexpressibleError("recomputation of a part found; torchtitan recomputes each block, or none, of these")
    if layout.expert_tensor is not None:
        raise InexpressibleError("another tensor width of experts found; it is not written for torchtitan")
    if layout.pipeline > 1 and torch_schedules.named(layout) is None:
        if layout.placement != "loop":
            raise InexpressibleError("stages down the positions and up again found; torchtitan has them with "
                                     "ZBVZeroBubble and DualPipeV only")  # fmt: skip
        torch_schedules.file_of(layout)
    if layout.microbatches is not None and layout.pipeline == 1 and layout.global_batch is None:
        raise InexpressibleError("microbatches without the number of pipelines found; --data or --cluster was expected")
