"""A layout as the fields of Megatron-LM's configuration, which its arguments and Megatron-Bridge's recipes set.

Read in Megatron-LM d98e8a64 (`training/arguments.py`, `core/transformer/transformer_block.py` get_num_layers_to_build).
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from pipesim.base import lookup
from pipesim.base.checks import check_whole
from pipesim.base.errors import InputError, quoted
from pipesim.frameworks.layout_text import stages_of, text_of
from pipesim.frameworks.training_layout import (
    BLOCK,
    EMBEDDING,
    INTERLEAVED,
    LOSS,
    MOST_LAYERS,
    ONE_F_ONE_B,
    PREDICTION,
    InexpressibleError,
    TrainingLayout,
)

Values = Mapping[str, Any]
SIZES = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
}
_EMBEDDING, _LOSS = "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"
_FIRST, _LAST = "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"
_LAYOUT, _CHUNKS = "pipeline_model_parallel_layout", "virtual_pipeline_model_parallel_size"
_PER_CHUNK, _GROUP = "num_layers_per_virtual_pipeline_stage", "microbatch_group_size_per_vp_stage"


def layout_from(values: Values, blocks: int | None = None) -> TrainingLayout:
    """The layout that fields state; `blocks` of the model, where `num_layers` is not among them."""
    sizes: dict[str, Any] = {
        name: check_whole(key, values.get(key) or 1, 1, MOST_LAYERS) for name, key in SIZES.items()
    }
    pipeline, data = sizes["pipeline"], None
    if values.get("world_size") is not None:
        data, rest = divmod(values["world_size"], sizes["tensor"] * pipeline * sizes["context"])
        if rest or not data:
            raise InputError(
                f"world_size = {values['world_size']} found; a multiple of tensor x pipeline x context = "
                f"{sizes['tensor']} x {pipeline} x {sizes['context']} was expected"
            )
    stages = _stages(values, pipeline, blocks)
    group = values.get(_GROUP)
    several = len(stages) > pipeline
    scheduler = ONE_F_ONE_B if not several else INTERLEAVED if group in {None, pipeline} else f"interleaved({group=})"
    found = {
        "data": data,
        "expert_tensor": values.get("expert_tensor_parallel_size"),
        "scheduler": scheduler,
        "microbatch_size": values.get("micro_batch_size"),
        "microbatches": _microbatches(values, data),
        "sequence": values.get("seq_length"),
        "precision": _precision(values),
        "sequence_parallel": bool(values.get("sequence_parallel")),
        **_sharded(values, data),
        "gradient_overlap": bool(values.get("overlap_grad_reduce")),
        "gather_overlap": bool(values.get("overlap_param_gather")),
        "message_overlap": values.get("overlap_p2p_comm") is not False,
        **_recomputed(values),
    }
    if found["expert_tensor"] == sizes["tensor"]:
        found["expert_tensor"] = None
    return TrainingLayout(stages, **sizes, **found)


def _stages(values: Values, pipeline: int, blocks: int | None) -> tuple[str, ...]:
    stated, layout = values.get("num_layers"), values.get(_LAYOUT)
    if stated is not None and blocks is not None and stated != blocks:
        raise InputError(f"num_layers = {stated} found; {blocks} was expected, the blocks of the model")
    layers = blocks if stated is None else check_whole("num_layers", stated, 1, MOST_LAYERS)
    ways = [key for key in (_LAYOUT, _CHUNKS, _PER_CHUNK) if values.get(key) is not None]
    ways = [key for key in ways if key != _CHUNKS or _LAYOUT not in ways]  # recipes state both; they must agree
    if len(ways) > 1:
        raise InputError(f"{ways[0]} and {ways[1]} found; one of them was expected")
    if layout is not None:
        return _stated(values, str(layout), pipeline, layers)
    if layers is None:
        raise InputError("num_layers is missing; the number of blocks was expected, there or in --model")
    predictions = PREDICTION * check_whole("mtp_num_layers", values.get("mtp_num_layers") or 0, 0, MOST_LAYERS)
    counts = block_counts(values, pipeline, layers)
    stages = [BLOCK * count for count in counts]
    stages[0], stages[-1] = EMBEDDING + stages[0], stages[-1] + predictions + LOSS
    if len(counts) == 1:
        stages = [EMBEDDING + BLOCK * counts[0] + predictions + LOSS]
    return tuple(stages)


def _stated(values: Values, layout: str, pipeline: int, layers: int | None) -> tuple[str, ...]:
    """The stages of a layout's text, checked as Megatron-LM does."""
    for key in (_FIRST, _LAST, _EMBEDDING, _LOSS):
        if values.get(key):
            raise InputError(f"{_LAYOUT} and {key} found; one of them was expected")
    stages = stages_of(layout)
    text = "".join(stages)
    if text.count(EMBEDDING) != 1 or text.count(LOSS) != 1 or text[0] != EMBEDDING or text[-1] != LOSS:
        raise InputError(f"layout {quoted(layout)}: one E as the first letter and one L as the last were expected")
    if layers is not None and text.count(BLOCK) != layers:
        raise InputError(f"layout {quoted(layout)}: {text.count(BLOCK)} blocks (t) found; {layers} were expected")
    if len(stages) % pipeline:
        raise InputError(
            f"layout {quoted(layout)}: {len(stages)} stages found; a multiple of pipeline_model_parallel_size = "
            f"{pipeline} was expected"
        )
    chunks = values.get(_CHUNKS)
    if chunks is not None and chunks * pipeline != len(stages):
        raise InputError(f"{_CHUNKS} = {chunks} found; {len(stages) // pipeline} was expected, as in {_LAYOUT}")
    return stages


def block_counts(values: Values, pipeline: int, layers: int) -> list[int]:
    """The number of blocks of each stage, in order, where no layout states them."""
    first, last = values.get(_FIRST), values.get(_LAST)
    embedding, loss = bool(values.get(_EMBEDDING)), bool(values.get(_LOSS))
    if (first is not None or last is not None) and (embedding or loss):
        raise InputError(f"{_FIRST} or {_LAST} found beside {_EMBEDDING} or {_LOSS}; one of both kinds was expected")
    if first is not None or last is not None:
        ends = [check_whole(key, values[key]) for key in (_FIRST, _LAST) if values.get(key) is not None]
        places, rest = pipeline - len(ends), layers - sum(ends)
        if rest < 0 or places < 0 or (places and rest % places) or (not places and rest):
            raise InputError(
                f"{_FIRST} = {first}, {_LAST} = {last} found; {layers} layers less those were expected to be a "
                f"multiple of the other {places} of {pipeline} positions"
            )
        even = rest // places if places else 0
        by_position = [even] * pipeline
        by_position[0] = even if first is None else first
        by_position[-1] = by_position[-1] if last is None else last
    else:
        counted = layers + embedding + loss
        if counted % pipeline:
            what = (
                " with embedding and loss as one each" if embedding and loss else " with one more" * (embedding + loss)
            )
            raise InputError(
                f"num_layers = {layers}{what} found; a multiple of {SIZES['pipeline']} = {pipeline} was expected"
            )
        by_position = [counted // pipeline] * pipeline
    chunks = _chunks_of(values, by_position)
    uneven = next((count for count in by_position if count % chunks), None)
    if uneven is not None:
        raise InputError(f"{uneven} layers on a position found; a multiple of its {chunks} chunks was expected")
    counts = [count // chunks for _ in range(chunks) for count in by_position]
    counts[0] -= embedding
    counts[-1] -= loss
    if min(counts) < 0:
        raise InputError("a stage of less than no layer found; more layers or fewer stages were expected")
    return counts


def _chunks_of(values: Values, by_position: list[int]) -> int:
    chunks, per_chunk = values.get(_CHUNKS), values.get(_PER_CHUNK)
    if per_chunk is not None:
        if len(set(by_position)) > 1 or values.get(_FIRST) is not None or values.get(_LAST) is not None:
            raise InputError(f"{_PER_CHUNK} found beside {_FIRST} or {_LAST}; {_CHUNKS} was expected")
        chunks, rest = divmod(by_position[0], check_whole(_PER_CHUNK, per_chunk))
        if rest:
            raise InputError(f"{_PER_CHUNK} = {per_chunk} found; a divisor of {by_position[0]} was expected")
    chunks = check_whole(_CHUNKS, 1 if chunks is None else chunks, 1, MOST_LAYERS)
    check_whole(f"{_CHUNKS} x {SIZES['pipeline']}", chunks * len(by_position), 1, MOST_LAYERS)
    if chunks > 1 and len(by_position) == 1:
        raise InputError(f"{_CHUNKS} = {chunks} found on one position; {SIZES['pipeline']} of 2 or more was expected")
    return chunks


def _microbatches(values: Values, data: int | None) -> int | None:
    size, batch = values.get("micro_batch_size"), values.get("global_batch_size")
    if batch is None or size is None or data is None:
        return None
    count, rest = divmod(int(batch), size * data)
    if rest or not count:
        raise InputError(
            f"global_batch_size = {batch} found; a multiple of micro_batch_size x data-parallel size = {size} x {data} "
            "was expected"
        )
    return int(count)


def _precision(values: Values) -> str | None:
    if values.get("fp8"):
        return "fp8"
    return next((name for name in ("bf16", "fp16", "fp32") if values.get(name)), None)


def _sharded(values: Values, data: int | None) -> dict[str, Any]:
    in_fp32, in_bf16 = values.get("grad_reduce_in_fp32"), values.get("grad_reduce_in_bf16")
    precision = "bf16" if in_bf16 or in_fp32 is False else "fp32" if in_fp32 else None
    found: dict[str, Any] = {"gradient_precision": precision}
    if not values.get("use_distributed_optimizer"):
        return found
    instances = values.get("num_distributed_optimizer_instances") or 1
    if instances > 1:
        if data is None or data % instances:
            raise InputError(
                f"num_distributed_optimizer_instances = {instances} found; a divisor of the data-parallel size was "
                "expected, which follows from the number of GPUs (WORLD_SIZE=...)"
            )
        found["sharding_size"] = data // instances
    return found | {"sharding": "zero1"}


def _recomputed(values: Values) -> dict[str, Any]:
    kind, method = values.get("recompute_granularity"), values.get("recompute_method")
    number = values.get("recompute_num_layers")
    if kind is None:
        return {}
    if kind == "selective":
        if method is not None or number is not None:
            raise InputError("recompute_method or recompute_num_layers found beside selective; none was expected")
        modules = tuple(values.get("recompute_modules") or ())
        return {"recompute": "selective", "recompute_modules": () if modules == ("core_attn",) else modules}
    if kind != "full" or method not in {"uniform", "block"}:
        raise InputError(
            f"recompute_granularity = {kind}, recompute_method = {method} found; selective, or full with uniform or "
            "block was expected"
        )
    if number is None:
        raise InputError("recompute_num_layers is missing beside recompute_granularity = full")
    return {"recompute": "full", ("recompute_unit" if method == "uniform" else "recompute_blocks"): number}


def values_of(layout: TrainingLayout) -> dict[str, Any]:
    """The fields that state a layout; refused by name where they cannot."""
    layout = expressible(layout)
    sizes = {key: getattr(layout, name) for name, key in SIZES.items()}
    found: dict[str, Any] = {"num_layers": sum(layout.blocks), **sizes, "world_size": layout.gpus}
    predictions = sum(stage.count(PREDICTION) for stage in layout.stages)
    found |= {"expert_tensor_parallel_size": layout.expert_tensor, "mtp_num_layers": predictions or None}
    found |= _split(layout, found)
    group = _group_of(layout)
    found |= {_GROUP: group, "overlap_p2p_comm": None if layout.message_overlap else False}
    found |= {
        "seq_length": layout.sequence,
        "micro_batch_size": layout.microbatch_size,
        "global_batch_size": layout.global_batch,
        "sequence_parallel": layout.sequence_parallel or None,
        "overlap_grad_reduce": layout.gradient_overlap or None,
        "overlap_param_gather": layout.gather_overlap or None,
    }
    if layout.precision is not None:
        found |= {"fp8": "hybrid", "bf16": True} if layout.precision == "fp8" else {layout.precision: True}
    if layout.gradient_precision is not None:
        found |= {f"grad_reduce_in_{layout.gradient_precision}": True}
    if layout.sharding == "zero1":
        found |= {"use_distributed_optimizer": True}
        if layout.sharding_size is not None and layout.data is not None:
            found |= {"num_distributed_optimizer_instances": layout.data // layout.sharding_size}
    if layout.recompute != "none":
        found |= {"recompute_granularity": layout.recompute}
    if layout.recompute == "full":
        in_blocks = layout.recompute_blocks is not None
        found |= {
            "recompute_method": "block" if in_blocks else "uniform",
            "recompute_num_layers": layout.recompute_blocks if in_blocks else layout.recompute_unit,
        }
    elif layout.recompute_modules:
        found |= {"recompute_modules": layout.recompute_modules}
    return {key: value for key, value in found.items() if value is not None}


def _split(layout: TrainingLayout, found: Values) -> dict[str, Any]:
    """The fewest fields that lead to these stages: none, the two kinds for ends that differ, or a layout."""
    chunks = None if layout.interleave == 1 else layout.interleave
    counts, plain = list(layout.blocks), layout.stages[0].startswith(EMBEDDING) and PREDICTION not in "".join(
        layout.stages[:-1]
    )  # fmt: skip
    by_position = [sum(counts[n :: layout.pipeline]) for n in range(layout.pipeline)]
    ways: list[dict[str, Any]] = [
        {_EMBEDDING: embedding or None, _LOSS: loss or None} for embedding, loss in product((False, True), repeat=2)
    ]
    ways += [{_FIRST: by_position[0]}, {_LAST: by_position[-1]}, {_FIRST: by_position[0], _LAST: by_position[-1]}]
    for way in ways if plain else ():
        way |= {_CHUNKS: chunks}
        try:
            if _stages({**found, **way}, layout.pipeline, None) == layout.stages:
                return way
        except InputError:
            continue
    return {_LAYOUT: text_of(layout.stages)}


def _group_of(layout: TrainingLayout) -> int | None:
    """The microbatch group of an interleaved schedule; None for the default, as many as positions."""
    if layout.interleave == 1:
        return None
    group: int = int(lookup.parse_call(layout.scheduler, "scheduler")[2].get("group", layout.pipeline))
    if layout.microbatches is not None:
        rest = layout.microbatches % group
        if layout.microbatches < group or 0 < rest < layout.pipeline:
            raise InexpressibleError(
                f"{layout.microbatches} microbatches in groups of {group} on {layout.pipeline} positions found; "
                f"Megatron-LM's interleaved schedule takes a multiple of {group}, or one with a rest of "
                f"{layout.pipeline} or more"
            )
    return None if group == layout.pipeline else group


def expressible(layout: TrainingLayout) -> TrainingLayout:
    """The layout with one E and one L; refused by name if Megatron-LM has no such layout."""
    if not layout.has_blocks:
        raise InexpressibleError(
            "Megatron-LM divides transformers into blocks; the layers of this model are none (--to torch has any)"
        )
    if layout.placement != "loop":
        raise InexpressibleError("stages that go down the positions and up again found; Megatron-LM has only loops")
    name = lookup.parse_call(layout.scheduler, "scheduler")[0]
    wanted = ONE_F_ONE_B if layout.interleave == 1 else INTERLEAVED
    if name != wanted:
        has = f"{wanted} where a position holds {'one stage' if layout.interleave == 1 else 'several stages'}"
        raise InexpressibleError(
            f"scheduler {quoted(layout.scheduler)} found; Megatron-LM has {has}", [replace(layout, scheduler=wanted)]
        )
    if layout.sharding not in {"none", "zero1"}:
        raise InexpressibleError(
            f"sharding {layout.sharding} found; Megatron-LM with pipelines shards the optimizer only (zero1)",
            [replace(layout, sharding="zero1")],
        )
    if layout.precision == "tf32":
        raise InexpressibleError("precision tf32 found; Megatron-LM has fp32, bf16, fp16 and fp8")
    if layout.gradient_precision not in {None, "bf16", "fp32"}:
        raise InexpressibleError(f"gradients in {layout.gradient_precision} found; Megatron-LM sums bf16 or fp32")
    if layout.recompute_blocks is not None and layout.recompute_unit > 1:
        raise InexpressibleError("recompute_blocks and recompute_unit found; Megatron-LM has one or the other")
    if layout.divided():
        raise InexpressibleError(
            "embedding, or norm and head, in several stages found; Megatron-LM has each in one", [layout.gathered()]
        )
    layout = layout.joined()
    text = "".join(layout.stages)
    if EMBEDDING not in text or LOSS not in text:
        raise InexpressibleError("no layers before or after the blocks found; Megatron-LM has an embedding and a loss")
    return replace(layout, precision=None) if layout.precision == "fp32" else layout  # fp32 is what no flag means
