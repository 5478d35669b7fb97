"""Values that layers pass to each other: a tensor, or tuples, lists and dicts of tensors."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Value = Any  # a tensor, or a tuple, list or dict of values


def tensors(value: Value) -> "list[torch.Tensor]":
    """The tensors in a value, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for part in value for tensor in tensors(part)]
    if isinstance(value, dict):
        return tensors(list(value.values()))
    return []


def mapped(value: Value, function: "Callable[[torch.Tensor], torch.Tensor]") -> Value:
    """The same value with every tensor replaced."""
    import torch

    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple takes its parts one by one
        return type(value)(*(mapped(part, function) for part in value))
    if isinstance(value, tuple | list):
        return type(value)(mapped(part, function) for part in value)
    if isinstance(value, dict):
        made = copy.copy(value)  # keeps its class, whose constructor can have other arguments
        for key, part in value.items():
            made[key] = mapped(part, function)
        return made
    return value


def cut(value: Value) -> Value:
    """The same tensors, detached, as the start of a new graph; those that required a gradient still do."""
    return mapped(value, lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad))


def start_of_backward(value: Value) -> "tuple[list[torch.Tensor], list[torch.Tensor | None]]":
    """The start of the backward: outputs that require a gradient, and their gradients (None for a loss)."""
    import torch

    outputs = [tensor for tensor in tensors(value) if tensor.requires_grad]
    is_loss = len(outputs) == 1 and outputs[0].numel() == 1
    return outputs, [None if is_loss else torch.ones_like(output) for output in outputs]


def nbytes(tensor: "torch.Tensor") -> int:
    """Bytes of a tensor's elements."""
    return int(tensor.numel() * tensor.element_size())
