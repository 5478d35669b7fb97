"""Sizes of layers, from one forward of the whole model: bytes of outputs, parameters, saved tensors; FLOPs.

saved tensors    tensors that autograd keeps from the forward for the backward. Each storage counts once, whole, in the
                 first layer that saves it: two views of one storage, or an output that the next layer keeps as its
                 input, count once. Parameters and buffers do not count, since they exist anyway.
parameters       each once, in the first layer that has it
outputs          the tensors that a layer returns, each once
FLOPs            of matrix products, convolutions and attention, as torch.utils.flop_counter counts them
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipesim.base.errors import InputError
from pipesim.recorders.hooks import observed
from pipesim.recorders.subjects import Subject, run
from pipesim.recorders.values import Value, nbytes, tensors

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """For each layer, for a whole microbatch."""

    output_bytes: list[int]
    parameter_bytes: list[int]
    stash_bytes: list[int]
    forward_flops: list[float]


def sizes(subject: Subject) -> ModelSizes:
    """The sizes of a model's layers."""
    output, stash = _outputs_and_saved(subject)
    return ModelSizes(output, _parameters(subject), stash, _flops(subject))


def _outputs_and_saved(subject: Subject) -> tuple[list[int], list[int]]:
    import torch

    count = len(subject.layers)
    output, stash = [0] * count, [0] * count
    place = 0
    held: dict[int, Any] = {  # storages, kept alive so that their addresses are not reused
        storage.data_ptr(): storage for storage in map(_storage, _lasting(subject)) if storage.nbytes()
    }

    def enter(entered: int) -> None:
        nonlocal place
        place = entered

    def leave(left: int, value: Value) -> None:
        if not tensors(value):  # in other objects, tensors cannot be found
            raise InputError(_no_tensors(subject, left, value))
        output[left] = sum(nbytes(tensor) for tensor in {id(tensor): tensor for tensor in tensors(value)}.values())

    def keep(tensor: "torch.Tensor") -> "torch.Tensor":
        storage = _storage(tensor)
        if storage.nbytes() and storage.data_ptr() not in held:
            held[storage.data_ptr()] = storage
            stash[place] += storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), observed(subject, enter, leave):
        run(subject)
    return output, stash


def _no_tensors(subject: Subject, place: int, value: Value) -> str:
    return (
        f"layer {place} ({subject.names[place]}) returned a {type(value).__name__} without tensors; a tensor, or a "
        "tuple, list or dict of tensors, was expected"
    )


def _storage(tensor: "torch.Tensor") -> "torch.UntypedStorage":
    return tensor.untyped_storage()


def _lasting(subject: Subject) -> "list[torch.Tensor]":
    """Parameters and buffers, which exist before and after the forward."""
    buffers = [buffer for layer in subject.layers for buffer in layer.buffers()]
    return [*subject.parameters, *buffers]


def _parameters(subject: Subject) -> list[int]:
    seen: set[int] = set()
    found = []
    for layer in subject.layers:
        new = {id(p): p for p in layer.parameters() if id(p) not in seen}
        found.append(sum(nbytes(parameter) for parameter in new.values()))
        seen |= set(new)
    return found


def _flops(subject: Subject) -> list[float]:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False, custom_mapping=_attention_on_cpu())
    before: list[float] = []
    with torch.no_grad(), counter:
        with observed(subject, lambda _: before.append(counter.get_total_flops()), lambda _, __: None):
            run(subject)
        before.append(counter.get_total_flops())
    return [float(after - first) for first, after in pairwise(before)]


def _attention_on_cpu() -> dict[Any, Any]:
    """A count for the CPU's fused attention, which torch's counter lacks: as for that of the GPU."""
    import torch
    from torch.utils.flop_counter import sdpa_flop_count

    def count(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:  # noqa: ANN401 - shapes
        return int(sdpa_flop_count(query, key, value))

    return {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: count}  # noqa: SLF001 - its name in torch.ops
