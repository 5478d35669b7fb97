"""An architecture as an expression, "gpt-6.7b" or "gpt(24, 1024, 16)", and sizes -> Model, Trace."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.architectures import ARCHITECTURES, presets
from pipesim.architectures.roofline import Efficiency, roofline
from pipesim.architectures.team_links import TeamLink
from pipesim.base import files, lookup, serialisation
from pipesim.base.errors import InputError, quoted
from pipesim.core.model import Model
from pipesim.core.trace import Trace

NOUN = "architecture"
CONFIG = "config.json"
_WIDTH = "tensor_parallel"

Sizes = Mapping[str, int | str]


def model_called(text: str, sizes: Sizes) -> Model:
    """The model that `text` names, with sizes such as microbatch, sequence and precision beside those in `text`."""
    build = _builder(text, sizes)
    with lookup.calling(text, NOUN):
        model = build(**sizes)
        if not isinstance(model, Model):
            raise InputError(f"returned a {type(model).__name__}; a Model was expected")
        stated = _arguments(build, sizes)
        return replace(
            model,
            sequence=model.sequence or int(stated.get("sequence") or 0),
            sequence_parallel=bool(stated.get("sequence_parallel")),
        )


def trace_called(
    text: str,
    device_kinds: Sequence[str],
    sizes: Sizes,
    *,
    microbatches: Sequence[int] = (),
    efficiency: Efficiency = "device",
    command: str = "",
    team_link: TeamLink | None = None,
    tp_overlap: float = 0.0,
) -> Trace:
    """The trace from data sheets; with several microbatch sizes, the first is that of the trace."""
    if len(set(microbatches)) < len(microbatches):
        raise InputError(f"microbatches = {list(microbatches)} found; each size once was expected")
    models = [model_called(text, {**sizes, "microbatch": size}) for size in microbatches] or [model_called(text, sizes)]
    traces = [
        roofline(
            model,
            device_kinds,
            efficiency=efficiency,
            tensor_parallel=_width(text, sizes),
            team_link=team_link,
            tp_overlap=tp_overlap,
            command=command,
        )
        for model in models
    ]
    columns = {name: np.concatenate([trace.layers[name] for trace in traces]) for name in traces[0].layers}
    return replace(traces[0], layers=columns)


def _width(text: str, sizes: Sizes) -> Any:  # noqa: ANN401 - checked by its users
    """The width of tensor parallelism, from the sizes or from the text."""
    return _arguments(_builder(text, sizes), sizes).get(_WIDTH, 1)


def _arguments(build: Callable[..., object], sizes: Sizes) -> dict[str, Any]:
    """The sizes that a model is built with: defaults, those in its text, and those given beside it."""
    return {**lookup.defaults_of(build), **(build.keywords if isinstance(build, functools.partial) else {}), **sizes}


def expression(text: str) -> str:
    """The expression that `text` means: itself, or the model of the Hugging Face config.json that it is the path of."""
    path = Path(text)
    named = text in ARCHITECTURES or not text
    return text if named or not (path.suffix == ".json" or files.exists(path)) else f"huggingface({text!r})"


def _builder(text: str, sizes: Sizes) -> Callable[..., object]:
    """The function that builds the model; refused if it does not take these sizes or needs others."""
    function = lookup.resolve(expression(text), ARCHITECTURES, NOUN)
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise InputError(
            f"{NOUN} {quoted(text)}: has no signature that can be read; a function written in Python was expected"
        ) from None
    for name in sizes:
        if name not in signature.parameters:
            takes = ", ".join(name for name, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY)
            raise InputError(f"{NOUN} {quoted(text)} has no {name}; it has {takes}")
    try:
        signature.bind(**sizes)
    except TypeError as error:
        own = function.func if isinstance(function, functools.partial) else function
        raise InputError(
            f"{NOUN} {quoted(text)}: {error}; write {text.partition('(')[0].strip()}({_needed(own)})"
        ) from None
    return function


def _needed(function: Callable[..., object]) -> str:
    """The sizes that the function requires."""
    parameters = inspect.signature(function).parameters.values()
    return ", ".join(lookup.written(parameter) for parameter in parameters if parameter.default is parameter.empty)


def needs(name: str) -> str:
    """The sizes that this architecture requires."""
    return _needed(lookup.function_named(name, ARCHITECTURES, NOUN))


def is_config(path: Path) -> bool:
    """Whether this is a Hugging Face config.json, or a folder that has one."""
    file = path / CONFIG if path.is_dir() else path
    if file.suffix != ".json" or not files.is_file(file):
        return False
    with suppress(InputError):
        return "model_type" in serialisation.read_data(file)
    return False


def listed() -> list[tuple[tuple[str, ...], str, str]]:
    """All architectures: the names of each, its required sizes, and its description."""
    names: dict[str, list[str]] = {}
    for name, target in ARCHITECTURES.items():
        names.setdefault(target, []).append(name)
    found = []
    for target, known in names.items():
        function = lookup.function_named(target, {}, NOUN)
        found.append((tuple(known), _needed(function), _about(function)))
    return found


def _about(function: Callable[..., object]) -> str:
    """The description: the docstring of a published model, or that of the module of a family."""
    published = function.__module__ == presets.__name__
    text = function.__doc__ if published else sys.modules[function.__module__].__doc__
    return (text or "").strip().partition("\n")[0]
