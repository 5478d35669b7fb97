"""The whole model, with hooks that record when each layer begins, forward and backward.

    forward     | layer 0 |  layer 1  | layer 2 |        from where a layer is called to where the next one is called
    backward    | layer 2 |  layer 1  | layer 0 |        from where the gradient of a layer's output is complete to
                                                         where that of the output of the layer before is

Operations between two layers count for the layer before them in the forward, and for the one after them in the
backward; the layers add up to the whole. Gradients of inputs and of parameters are not separated, and nothing is
recomputed.

Ways of running a microbatch: `whole` and `first`, as in `loop`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pipesim.base.errors import InputError
from pipesim.recorders.clock import DeviceClock, Mark, Span
from pipesim.recorders.loop import Columns, Way
from pipesim.recorders.subjects import Subject, run
from pipesim.recorders.values import Value, start_of_backward, tensors

if TYPE_CHECKING:
    import torch


def hooks(subject: Subject, clock: DeviceClock) -> dict[str, Way]:
    """The ways of running a microbatch under hooks."""
    return {"whole": partial(_whole, subject, clock), "first": partial(_first, subject, clock)}


def _first(subject: Subject, clock: DeviceClock) -> Columns:
    for parameter in subject.parameters:
        parameter.grad = None
    return {"backward_first_s": _whole(subject, clock)["backward_s"]}


def _whole(subject: Subject, clock: DeviceClock) -> Columns:
    import torch

    forward: list[Mark] = []
    backward: dict[int, Mark] = {}

    def leave(place: int, value: Value) -> None:
        for tensor in tensors(value):
            if tensor.requires_grad and place < len(subject.layers) - 1:
                tensor.register_hook(lambda _: backward.setdefault(place, clock.mark()) and None)

    with observed(subject, lambda _: forward.append(clock.mark()), leave):
        output = run(subject)
    forward.append(clock.mark())
    outputs, gradients = start_of_backward(output)
    backward[len(subject.layers) - 1] = clock.mark()
    torch.autograd.backward(outputs, gradients)
    end = clock.mark()
    clock.settle()
    spans = list(pairwise(forward))
    return {
        "forward_s": clock.seconds(spans),
        "backward_s": clock.seconds(_spans(backward, end, len(subject.layers))),
    }


def _spans(begins: dict[int, Mark], end: Mark, count: int) -> list[Span]:
    """Each layer's backward lasts until the next one begins; layers without a gradient have none."""
    spans: list[Span] = [None] * count
    for place in sorted(begins):
        spans[place] = (begins[place], end)
        end = begins[place]
    return spans


@contextmanager
def observed(subject: Subject, enter: Callable[[int], None], leave: Callable[[int, Value], None]) -> Iterator[None]:
    """Within, `enter(place)` is called when a layer is, and `leave(place, output)` when it returns; in order.

    Each layer must be called once. A module at several positions is identified by the number of earlier calls.
    """
    calls = 0

    def before(module: "torch.nn.Module", _: Value) -> None:
        nonlocal calls
        if calls >= len(subject.layers) or subject.layers[calls] is not module:
            raise InputError(_out_of_order(subject, module, calls))
        enter(calls)

    def after(_: "torch.nn.Module", __: Value, output: Value) -> None:
        nonlocal calls
        leave(calls, output)
        calls += 1

    modules = {id(layer): layer for layer in subject.layers}.values()
    handles = [layer.register_forward_pre_hook(before) for layer in modules]
    handles += [layer.register_forward_hook(after) for layer in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    if calls < len(subject.layers):
        raise InputError(f"the model called {calls} of its {len(subject.layers)} layers; each was expected once")


def _out_of_order(subject: Subject, module: "torch.nn.Module", calls: int) -> str:
    found = next(i for i, layer in enumerate(subject.layers) if layer is module)
    if calls >= len(subject.layers):
        return f"the model called layer {found} ({subject.names[found]}) again after all layers had been called"
    return (
        f"the model called layer {found} ({subject.names[found]}) where layer {calls} ({subject.names[calls]}) was "
        "expected; layers are called once each, in order, and none inside another"
    )
