"""Settings of a Megatron-Bridge (or NeMo) recipe: `model.tensor_model_parallel_size=4`, one to a line.

Read are overrides, lines of Python such as `cfg.model.tensor_model_parallel_size = 4`, and arguments of a call, as in
NeMo 2; what precedes the name of the field is passed over. Written are overrides, as `run_recipe.py` takes them.
Names are those of Megatron-Bridge 067f987d.
"""

import ast
import re
import warnings
from typing import Any

from pipesim.base.errors import InputError, quoted, within
from pipesim.frameworks.megatron_values import layout_from, values_of
from pipesim.frameworks.training_layout import TrainingLayout

_MODEL, _DDP, _TRAIN = "model", "ddp", "train"
# Field -> the part of a recipe that it is in.
PARTS = {
    "num_layers": _MODEL,
    "seq_length": _MODEL,
    "micro_batch_size": _TRAIN,
    "global_batch_size": _TRAIN,
    "tensor_model_parallel_size": _MODEL,
    "pipeline_model_parallel_size": _MODEL,
    "virtual_pipeline_model_parallel_size": _MODEL,
    "context_parallel_size": _MODEL,
    "expert_model_parallel_size": _MODEL,
    "expert_tensor_parallel_size": _MODEL,
    "pipeline_model_parallel_layout": _MODEL,
    "num_layers_in_first_pipeline_stage": _MODEL,
    "num_layers_in_last_pipeline_stage": _MODEL,
    "account_for_embedding_in_pipeline_split": _MODEL,
    "account_for_loss_in_pipeline_split": _MODEL,
    "microbatch_group_size_per_vp_stage": _MODEL,
    "overlap_p2p_comm": "comm_overlap",
    "mtp_num_layers": _MODEL,
    "sequence_parallel": _MODEL,
    "recompute_granularity": _MODEL,
    "recompute_method": _MODEL,
    "recompute_num_layers": _MODEL,
    "recompute_modules": _MODEL,
    "use_distributed_optimizer": _DDP,
    "num_distributed_optimizer_instances": _DDP,
    "overlap_grad_reduce": _DDP,
    "overlap_param_gather": _DDP,
    "grad_reduce_in_fp32": _DDP,
    "bf16": "mixed_precision",
    "fp16": "mixed_precision",
    "fp8": "mixed_precision",
}
_TEXTS = {"pipeline_model_parallel_layout", "recompute_granularity", "recompute_method", "fp8"}
_FLAGS = {
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split", "overlap_p2p_comm", "bf16", "fp16",
    "sequence_parallel", "use_distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather",
    "grad_reduce_in_fp32",
}  # fmt: skip
# Stated even where they are false: recipes have their own defaults.
_ALWAYS = ("sequence_parallel", "use_distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather")
_LINE = re.compile(r"^[\s\"']*(?:\+{0,2}[A-Za-z_]\w*\.)*([a-z_0-9]+)\s*=(?!=)\s*([^\n]*?)\s*\\?$", re.MULTILINE)
_SIZE = re.compile(r"(?<![\w.])(?:WORLD_SIZE|num_gpus)\s*=\s*([0-9]{1,9})\b")
_NODES = re.compile(r"(?<!\w)num_nodes\s*=\s*([0-9]{1,6})\b")
_EACH = re.compile(r"(?<!\w)(?:devices|num_gpus_per_node|gpus_per_node)\s*=\s*([0-9]{1,6})\b")
_WORDS = re.compile(r"""(?<=\s)(?=(?:\+{0,2}[A-Za-z_]\w*\.)+[a-z_0-9]+=)""")


def recognised(text: str) -> bool:
    """Whether text has settings that state a layout."""
    return any(match[1] in PARTS and match[1].endswith(("size", "layout")) for match in _LINE.finditer(_lines(text)))


def _lines(text: str) -> str:
    """Overrides that are in one line, each in a line of its own."""
    return _WORDS.sub("\n", text)


def read(text: str, blocks: int | None = None, gpus: int | None = None) -> TrainingLayout:
    """The layout that settings state; `blocks` of the model and `gpus` in all, where they do not.

    >>> read("cfg.model.pipeline_model_parallel_size = 2", blocks=4).stages
    ('Ett', 'ttL')
    """
    values: dict[str, Any] = {"world_size": gpus}
    for match in _LINE.finditer(_lines(text)):
        if match[1] in PARTS:
            with within(match[1]):
                values[match[1]] = _value(match[1], match[2])
    size = _SIZE.search(text)
    if size is not None:
        values["world_size"] = int(size[1])
    elif (nodes := _NODES.search(text)) is not None and (each := _EACH.search(text)) is not None:
        values["world_size"] = int(nodes[1]) * int(each[1])
    return layout_from(values, blocks)


def _value(name: str, text: str) -> Any:  # noqa: ANN401 - of any field
    plain = text.partition(" #")[0].strip().rstrip(",")
    found: Any
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that of 3in, which is no number
            found = ast.literal_eval(plain)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        words = {"true": True, "false": False, "null": None, "none": None}
        found = words.get(plain.lower(), plain)
    if isinstance(found, str) and len(found) > 1 and found[0] == found[-1] and found[0] in "\"'":
        found = found[1:-1]
    if name == "pipeline_model_parallel_layout" and isinstance(found, list):
        return _joined(found)
    kind: type = str if name in _TEXTS else bool if name in _FLAGS else list if name == "recompute_modules" else int
    if found is not None and (not isinstance(found, kind) or (kind is int and isinstance(found, bool))):
        expected = {str: "text", bool: "True or False", list: "a list of names", int: "a whole number"}[kind]
        raise InputError(f"{quoted(text)} found; {expected} was expected")
    if isinstance(found, int) and not 0 <= found < 2**31:
        raise InputError(f"{quoted(text)} found; 0 to 2^31 was expected")
    return tuple(map(str, found)) if isinstance(found, list) else found


def _joined(stages: list[Any]) -> str:
    """A layout that is a list of lists of names, as text."""
    letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    if not all(isinstance(stage, list) and all(name in letters for name in stage) for stage in stages):
        raise InputError(f"lists of {', '.join(letters)} were expected, one for each stage")
    return "|".join("".join(letters[name] for name in stage) for stage in stages)


def write(layout: TrainingLayout) -> str:
    """The overrides, one to a line.

    >>> print(write(TrainingLayout(("Ett", "tt", "tL"), pipeline=3)).splitlines()[2])
    model.pipeline_model_parallel_size=3
    """
    values = values_of(layout)
    if values.pop("grad_reduce_in_bf16", False):
        values["grad_reduce_in_fp32"] = False
    values = dict.fromkeys(_ALWAYS, False) | {SIZE: 1 for SIZE in PARTS if SIZE.endswith("parallel_size")} | values
    for name in ("virtual_pipeline_model_parallel_size", "expert_tensor_parallel_size"):
        if values[name] == 1:
            values[name] = None
    lines = [] if layout.gpus is None else [f"# WORLD_SIZE={layout.gpus}"]
    return "\n".join(
        [*lines, *(f"{part}.{name}={_text(values[name])}" for name, part in PARTS.items() if name in values)]
    )


def _text(value: Any) -> str:  # noqa: ANN401 - of any field
    if isinstance(value, tuple):
        return str(list(value)).replace(" ", "")
    return f"'{value}'" if isinstance(value, str) and "|" in value else "null" if value is None else str(value)
