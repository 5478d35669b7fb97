"""Arguments of Megatron-LM's training scripts: read from a command, a shell script or a YAML list, and written.

Arguments that state nothing of the layout are passed over. Variables of a script that it sets itself are replaced.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from pipesim.base import units
from pipesim.base.errors import InputError, RefusedError, quoted, within
from pipesim.frameworks.megatron_values import layout_from, values_of
from pipesim.frameworks.training_layout import TrainingLayout

# Argument -> the field that it sets; the kind of value; text of no value is what a flag sets.
_WHOLE, _TEXT, _WORDS, _ON, _OFF = "whole", "text", "words", "on", "off"
ARGUMENTS: dict[str, tuple[str, str]] = {
    "--num-layers": ("num_layers", _WHOLE),
    "--seq-length": ("seq_length", _WHOLE),
    "--micro-batch-size": ("micro_batch_size", _WHOLE),
    "--global-batch-size": ("global_batch_size", _WHOLE),
    "--tensor-model-parallel-size": ("tensor_model_parallel_size", _WHOLE),
    "--pipeline-model-parallel-size": ("pipeline_model_parallel_size", _WHOLE),
    "--context-parallel-size": ("context_parallel_size", _WHOLE),
    "--expert-model-parallel-size": ("expert_model_parallel_size", _WHOLE),
    "--expert-tensor-parallel-size": ("expert_tensor_parallel_size", _WHOLE),
    "--pipeline-model-parallel-layout": ("pipeline_model_parallel_layout", _TEXT),
    "--num-layers-per-virtual-pipeline-stage": ("num_layers_per_virtual_pipeline_stage", _WHOLE),
    "--num-virtual-stages-per-pipeline-rank": ("virtual_pipeline_model_parallel_size", _WHOLE),
    "--decoder-first-pipeline-num-layers": ("num_layers_in_first_pipeline_stage", _WHOLE),
    "--decoder-last-pipeline-num-layers": ("num_layers_in_last_pipeline_stage", _WHOLE),
    "--account-for-embedding-in-pipeline-split": ("account_for_embedding_in_pipeline_split", _ON),
    "--account-for-loss-in-pipeline-split": ("account_for_loss_in_pipeline_split", _ON),
    "--microbatch-group-size-per-virtual-pipeline-stage": ("microbatch_group_size_per_vp_stage", _WHOLE),
    "--no-overlap-p2p-communication": ("overlap_p2p_comm", _OFF),
    "--mtp-num-layers": ("mtp_num_layers", _WHOLE),
    "--sequence-parallel": ("sequence_parallel", _ON),
    "--use-distributed-optimizer": ("use_distributed_optimizer", _ON),
    "--num-distributed-optimizer-instances": ("num_distributed_optimizer_instances", _WHOLE),
    "--overlap-grad-reduce": ("overlap_grad_reduce", _ON),
    "--overlap-param-gather": ("overlap_param_gather", _ON),
    "--accumulate-allreduce-grads-in-fp32": ("grad_reduce_in_fp32", _ON),
    "--grad-reduce-in-bf16": ("grad_reduce_in_bf16", _ON),
    "--bf16": ("bf16", _ON),
    "--fp16": ("fp16", _ON),
    "--fp8-format": ("fp8", _TEXT),
    "--recompute-activations": ("recompute_granularity", "selective"),
    "--recompute-granularity": ("recompute_granularity", _TEXT),
    "--recompute-method": ("recompute_method", _TEXT),
    "--recompute-num-layers": ("recompute_num_layers", _WHOLE),
    "--recompute-modules": ("recompute_modules", _WORDS),
}
# Arguments that change the layout in a way that none of the fields above state.
REFUSED = (
    "--hybrid-layer-pattern", "--hybrid-override-pattern", "--encoder-num-layers", "--use-megatron-fsdp",
    "--use-torch-fsdp2", "--use-tp-pp-dp-mapping", "--encoder-pipeline-model-parallel-size",
)  # fmt: skip
_LAUNCH = {"--nproc-per-node", "--nproc_per_node", "--nnodes"}
_SET = re.compile(
    r"^\s*(?:export\s+|#\s*)?([A-Za-z_]\w*)=(\"[^\"$`]*\"|'[^']*'|[\w.:/|*(),-]*)(?=\s|;|$)", re.MULTILINE
)
_USED = re.compile(r"\$\{(\w+)(?::-([^}$]*))?\}|\$(\w+)")
_YAML = re.compile(r"^\s*(--[\w-]+):[ \t]*(.*?)\s*$", re.MULTILINE)
_ARRAY = re.compile(r"^\s*[A-Za-z_]\w*\+?=\(|^\s*\)\s*$", re.MULTILINE)


def recognised(text: str) -> bool:
    """Whether text has arguments of Megatron-LM that state a layout."""
    return any(argument in text for argument in ARGUMENTS if len(argument) > len("--bf16"))


def read(text: str, blocks: int | None = None, gpus: int | None = None) -> TrainingLayout:
    """The layout that arguments state; `blocks` of the model and `gpus` in all, where they do not.

    >>> read("--num-layers 8 --pipeline-model-parallel-size 2 --micro-batch-size 1").stages
    ('Etttt', 'ttttL')
    """
    values = _values(text)
    return layout_from({"world_size": gpus, **values}, blocks)


def _values(text: str) -> dict[str, Any]:
    settings = {match[1]: match[2].strip("\"'") for match in _SET.finditer(text)}
    found: dict[str, Any] = {}
    launch: dict[str, str] = {}
    words = _words(text)
    for n, word in enumerate(words):
        argument, given, value = word.partition("=")
        if argument in REFUSED:
            raise RefusedError(f"{argument} found; layouts with it are not read")
        if argument not in ARGUMENTS and argument not in _LAUNCH:
            continue
        following = [value] if given else words[n + 1 :]
        with within(argument):
            if argument in _LAUNCH:
                launch[argument.replace("_", "-")] = _filled(following[0] if following else "", settings)
            else:
                key, kind = ARGUMENTS[argument]
                found[key] = _value(kind, following, settings)
    if len(launch) == 2:
        settings.setdefault("WORLD_SIZE", str(_product(launch.values())))
    size = settings.get("WORLD_SIZE", "")
    if size.isdecimal() and size:
        found["world_size"] = int(size[:12])
    return found


def _product(values: Any) -> int | str:  # noqa: ANN401 - texts
    first, second = values
    return int(first[:6]) * int(second[:6]) if first.isdecimal() and second.isdecimal() else ""


def _words(text: str) -> list[str]:
    """The words of a command or script; a line `--name: value` of a YAML list is an argument, too."""
    if _YAML.search(text):
        lines = _YAML.findall(text)
        kept = [f"{name} {'' if value == 'true' else value}" for name, value in lines if value not in {"false", "null"}]
        text = "\n".join(kept) + "\n" + "\n".join(line for line in text.splitlines() if line.strip().startswith("#"))
    try:
        return shlex.split(_ARRAY.sub(" ", text).replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(f"{error} found; text with closed quotes was expected, as a shell reads it") from None


def _value(kind: str, following: list[str], settings: Mapping[str, str]) -> Any:  # noqa: ANN401 - of any argument
    if kind == _ON:
        return True
    if kind == _OFF:
        return False
    if kind not in {_WHOLE, _TEXT, _WORDS}:
        return kind
    if not following:
        raise InputError("a value was expected after it")
    if kind == _WORDS:
        end = next((n for n, word in enumerate(following) if word.startswith("--")), len(following))
        return tuple(following[:end])
    text = _filled(following[0], settings)
    return whole(text) if kind == _WHOLE else text


def whole(text: str) -> int:
    """A whole number in text."""
    if not text.isdecimal() or not text.isascii() or len(text) > len(str(units.LONGEST_NS)):
        raise InputError(f"{quoted(text)} found; a whole number was expected")
    return int(text)


def _filled(text: str, settings: Mapping[str, str]) -> str:
    """Text with the variables that a script sets."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        found = settings.get(name, match[2])
        if found is None:
            raise InputError(f"{quoted(text)} found, and no line {name}=...; its value was expected")
        return found

    return _USED.sub(value, text)


def write(layout: TrainingLayout) -> str:
    """The arguments, one to a line.

    >>> print(write(TrainingLayout(("Ett", "ttL"), pipeline=2, data=1, microbatch_size=1, microbatches=4)))
    # WORLD_SIZE=2
    --num-layers 4
    --micro-batch-size 1
    --global-batch-size 4
    --pipeline-model-parallel-size 2
    """
    values = values_of(layout)
    chunks = values.get("virtual_pipeline_model_parallel_size")
    if chunks is not None and not {"num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"} & set(
        values
    ):
        del values["virtual_pipeline_model_parallel_size"]
        values["num_layers_per_virtual_pipeline_stage"] = max(layout.blocks)
    lines = [] if layout.gpus is None else [f"# WORLD_SIZE={layout.gpus}"]
    for argument, (key, kind) in ARGUMENTS.items():
        value = values.get(key)
        if value is None or (kind == "selective") or (value == 1 and key.endswith("_parallel_size") and kind == _WHOLE):
            continue
        if kind in {_ON, _OFF}:
            if value == (kind == _ON):
                lines.append(argument)
        else:
            lines.append(
                f"{argument} {' '.join(map(shlex.quote, value)) if kind == _WORDS else shlex.quote(str(value))}"
            )
    return "\n".join(lines)
