"""The checked result of a factory: layers with names, example, and the whole model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pipesim.base import lookup
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, PipesimError, shown
from pipesim.recorders.values import Value, mapped, tensors

if TYPE_CHECKING:
    import torch

_CONTRACT = (
    "(layers, example) or (layers, example, model) was expected: torch.nn.Modules in order, and what the first is "
    "called with, a tensor or a tuple, list or dict of tensors"
)
_PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """The model to record. `whole` runs it; `is_chain`: it is the sequence of its layers."""

    names: tuple[str, ...]
    layers: "tuple[torch.nn.Module, ...]"
    example: Value
    whole: Callable[[Value], Value]
    is_chain: bool
    device: "torch.device"

    @property
    def parameters(self) -> "list[torch.nn.Parameter]":
        """All parameters, each once."""
        return list({id(p): p for layer in self.layers for p in layer.parameters()}.values())

    @property
    def precision(self) -> str:
        """The type of most of what the parameters hold, as fp32, fp16, bf16; empty without parameters."""
        held: dict[str, int] = {}
        for parameter in self.parameters:
            name = str(parameter.dtype).removeprefix("torch.")
            held[name] = held.get(name, 0) + parameter.numel()
        most = max(held, key=lambda name: held[name], default="")
        return _PRECISIONS.get(most, most)


def load_factory(text: str) -> Callable[..., Any]:
    """The factory that `module:factory` or `module:factory(option=value)` names."""
    if ":" not in text.partition("(")[0]:
        raise InputError(
            f"{shown(text)} found; a factory as module:factory or module:factory(option=value) was expected"
        )
    module = text.partition(":")[0]
    if module.endswith(".py") or "/" in module:
        raise InputError(
            f"{shown(text)} found; the name of a module, package.module, and not of its file, was expected"
        )
    try:
        factory = lookup.resolve(text, {}, "factory")
    except PipesimError:
        raise
    except (Exception, SystemExit) as error:  # anything may happen while a module is imported
        raise failed(f"factory {text!r}: importing its module", error) from error
    if isinstance(factory, partial) and "microbatch" in factory.keywords:
        raise InputError(f"{shown(text)} found; microbatch is not an option there; give it with --microbatch")
    return factory


def device_of(name: str) -> "torch.device":
    """The device of this name; "auto" is the GPU where there is one."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"device {name!r} found; cpu, cuda, cuda:1 or auto was expected") from None
    if device.type not in {"cpu", "cuda"}:
        raise InputError(f"device {name!r} found; recording works on cpu and cuda")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise InputError(f"device {name!r} found; this PyTorch sees {count} CUDA devices")
    return device


def make_subject(factory: Callable[..., Any], microbatch: int, device: "torch.device") -> Subject:
    """Call the factory, check what it returned, and move it to the device."""
    check_at_least("microbatch", microbatch)
    try:
        made = factory(microbatch=microbatch)
    except Exception as error:  # anything may happen in a user's function
        raise InputError(f"the factory, called with microbatch={microbatch}, raised {_summary(error)}") from error
    if not (isinstance(made, tuple) and 2 <= len(made) <= 3):
        raise InputError(f"the factory returned {_kind(made)}; {_CONTRACT}")
    names, layers = _layers(made[0])
    for place, layer in enumerate(layers):
        try:
            layer.to(device)
        except Exception as error:  # no data (the meta device), no memory
            raise failed(f"layer {place} ({names[place]}), moved to {device},", error) from error
    example = mapped(made[1], lambda tensor: tensor.detach().to(device))
    if not tensors(example):
        raise InputError(f"the factory's example is {_kind(made[1])} without tensors; {_CONTRACT}")
    whole = made[2] if len(made) == 3 else partial(_chain, names, layers)
    if not callable(whole):
        raise InputError(f"the factory's model is {_kind(whole)}; a callable was expected")
    if hasattr(whole, "to"):
        whole.to(device)
    return _shaped(Subject(names, layers, example, whole, len(made) == 2, device))


def _chain(names: Sequence[str], layers: "Sequence[torch.nn.Module]", value: Value) -> Value:
    for place, layer in enumerate(layers):
        try:
            value = layer(value)
        except InputError:
            raise
        except Exception as error:  # anything may happen in a user's layer
            raise failed(f"layer {place} ({names[place]}) forward", error) from error
    return value


def _shaped(subject: Subject) -> Subject:
    """The subject, after the example has set the shapes of lazy parameters."""
    import torch
    from torch.nn.parameter import is_lazy

    if any(is_lazy(parameter) for parameter in subject.parameters):
        with torch.no_grad():
            run(subject)
    return subject


def run(subject: Subject) -> Value:
    """The model's forward on its example."""
    try:
        return subject.whole(subject.example)
    except InputError:
        raise
    except Exception as error:  # anything may happen in a user's model
        raise failed("the model's forward", error) from error


def _layers(found: Any) -> "tuple[tuple[str, ...], tuple[torch.nn.Module, ...]]":  # noqa: ANN401 - the user's
    """Names and modules. A module without a name is named by its class and position: linear-3."""
    import torch

    if isinstance(found, torch.nn.Sequential):
        pairs = list(found.named_children())
        # named_children lists a duplicate module once
        pairs = pairs if len(pairs) == len(found) else [("", module) for module in found]
    elif isinstance(found, Mapping | torch.nn.ModuleDict):
        pairs = list(found.items())
    elif isinstance(found, Sequence | torch.nn.ModuleList) and not isinstance(found, str):
        pairs = [("", module) for module in found]
    else:
        raise InputError(f"the factory's layers are {_kind(found)}; {_CONTRACT}")
    if not pairs:
        raise InputError(f"the factory returned no layers; {_CONTRACT}")
    for place, (_, module) in enumerate(pairs):
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"layer {place} of the factory is {_kind(module)}; a torch.nn.Module was expected")
    names = [
        str(name) if name and not str(name).isdecimal() else f"{type(module).__name__.lower()}-{place}"
        for place, (name, module) in enumerate(pairs)
    ]
    return tuple(names), tuple(module for _, module in pairs)


def failed(what: str, error: BaseException, hint: str = "") -> InputError:
    """The error for an exception in the user's model."""
    return InputError(f"{what} raised {_summary(error)}{hint}")


def _summary(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first[:300]}" if first else type(error).__name__


def _kind(value: Any) -> str:  # noqa: ANN401 - anything
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"a {type(value).__name__} ({shown(value)})" if isinstance(value, int | float | str) else (
        f"a {type(value).__name__}"
    )  # fmt: skip
