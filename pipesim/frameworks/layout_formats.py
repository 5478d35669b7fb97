"""The formats of layouts by name: which framework's text it is, how it is read and written."""

from collections.abc import Callable
from typing import NamedTuple

from pipesim.base import lookup, spelling
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.frameworks import (
    bridge_overrides,
    deepspeed_config,
    megatron_arguments,
    torch_stages,
    torchtitan_config,
)
from pipesim.frameworks.plan_conversion import ModelUnits
from pipesim.frameworks.training_layout import TrainingLayout

Read = Callable[[str, ModelUnits | None, int | None], TrainingLayout]
Write = Callable[[TrainingLayout, ModelUnits | None], str]


class LayoutFormat(NamedTuple):
    """How text of a framework is recognised, read and written, and the framework whose defaults it has."""

    title: str
    recognised: Callable[[str], bool]
    read: Read
    write: Write
    framework: str
    suffix: str


def _blocks(units: ModelUnits | None) -> int | None:
    return None if units is None else units.blocks


def _deepspeed(text: str, units: ModelUnits | None, gpus: int | None) -> TrainingLayout:
    if units is None:
        return deepspeed_config.read(text, None, gpus)
    return deepspeed_config.read(text, units.blocks, gpus, units.letters, units.parameters)


# The order is that in which text is recognised: what is more particular first.
FORMATS: dict[str, LayoutFormat] = {
    "torch": LayoutFormat(
        "torch.distributed.pipelining: modules of each stage, split_spec, schedule (JSON)",
        torch_stages.recognised,
        lambda text, units, gpus: torch_stages.read(text, _blocks(units), gpus),
        lambda layout, units: torch_stages.write(layout, () if units is None else units.names),
        "torch",
        ".json",
    ),
    "deepspeed": LayoutFormat(
        "DeepSpeed: the configuration (JSON) with its pipeline section",
        deepspeed_config.recognised,
        _deepspeed,
        lambda layout, units: deepspeed_config.write(layout, () if units is None else units.parameters),
        "deepspeed",
        ".json",
    ),
    "torchtitan": LayoutFormat(
        "torchtitan: the job file (TOML)",
        torchtitan_config.recognised,
        lambda text, units, gpus: torchtitan_config.read(text, _blocks(units), gpus),
        lambda layout, _: torchtitan_config.write(layout),
        "torch",
        ".toml",
    ),
    "megatron": LayoutFormat(
        "Megatron-LM: arguments of its training scripts",
        megatron_arguments.recognised,
        lambda text, units, gpus: megatron_arguments.read(text, _blocks(units), gpus),
        lambda layout, _: megatron_arguments.write(layout),
        "megatron",
        ".sh",
    ),
    "megatron-bridge": LayoutFormat(
        "Megatron-Bridge and NeMo: settings of a recipe",
        bridge_overrides.recognised,
        lambda text, units, gpus: bridge_overrides.read(text, _blocks(units), gpus),
        lambda layout, _: bridge_overrides.write(layout),
        "megatron",
        ".txt",
    ),
}
_ALIASES = {
    "megatron-lm": "megatron", "mcore": "megatron", "nemo": "megatron-bridge", "bridge": "megatron-bridge",
    "titan": "torchtitan", "pytorch": "torch", "torch.distributed.pipelining": "torch",
}  # fmt: skip


def format_named(name: str) -> str:
    """The name of a format, by it or another name of its framework."""
    names = [(one, one) for one in FORMATS] + list(_ALIASES.items())
    found = spelling.spellings(names).get(spelling.plain(name))
    if found is None:
        raise UnknownNameError(f"unknown framework {name!r}; {lookup.suggest(name, list(FORMATS))}")
    return found


def format_of(text: str) -> str:
    """The name of the format that text has."""
    found = next((name for name, one in FORMATS.items() if one.recognised(text)), None)
    if found is None:
        raise InputError(
            f"no layout found; text of {', '.join(FORMATS)} was expected, such as --pipeline-model-parallel-size 8, or "
            "a plan of pipesim"
        )
    return found
