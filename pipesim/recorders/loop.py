"""Layer by layer: each layer is a separate graph, run and timed by itself, as the stages of a pipeline are.

    forward      example ─> [layer 0] ─> y0 ┆ y0' ─> [layer 1] ─> y1 ┆ y1' ─> [layer 2] ─> loss
                            ├───────┤            ├───────┤              ├───────┤
    backward                ├───────┤ <─ g0 ┆ g0 <─ ├───────┤ <─ g1 ┆ g1 <─ ├───────┤ <─ 1

    ┆      a cut: y' is y, detached; the gradient of y' is passed to y
    ├──┤   is timed; operations at the cuts are not

Ways of running a microbatch, and the columns each fills:

    whole       forward_s, backward_s        gradients are added to those of microbatches before
    first       backward_first_s             there are no gradients yet
    split       backward_input_s,            as schedules with split backwards run it: gradients of the inputs, then,
                backward_weight_s            from the tensors that were kept, gradients of the parameters
    recompute   recompute_s                  the forward again, just before the backward

A layer that uses a tensor of an earlier layer without receiving it as input is refused: no cut separates the two.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipesim.base.errors import InputError
from pipesim.recorders.autograd_nodes import Node, is_leaf, post_order, roots
from pipesim.recorders.clock import DeviceClock, Span
from pipesim.recorders.split import split_backward
from pipesim.recorders.subjects import Subject, failed
from pipesim.recorders.values import Value, cut, start_of_backward, tensors

if TYPE_CHECKING:
    import torch

Columns = dict[str, list[float]]
Way = Callable[[], Columns]

_IN_PLACE = "; time a layer that changes its input in place with the method hooks, or let it copy the input"


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One layer's part of a microbatch."""

    layer: "torch.nn.Module"
    entering: Value
    leaving: Value

    def inputs(self) -> "list[torch.Tensor]":
        return [tensor for tensor in tensors(self.entering) if tensor.requires_grad]

    def weights(self) -> "list[torch.nn.Parameter]":
        return [parameter for parameter in self.layer.parameters() if parameter.requires_grad]

    def outputs(self, which: list[int]) -> "list[torch.Tensor]":
        """Some of its output tensors, by their positions."""
        leaving = tensors(self.leaving)
        return [leaving[place] for place in which]


def loop(subject: Subject, clock: DeviceClock) -> dict[str, Way]:
    """The ways of running a microbatch layer by layer."""
    _check_cuts(subject, _forwards(subject, clock)[0])
    ways = {"whole": _whole, "first": _first, "split": _split, "recompute": _recompute}
    return {name: partial(way, subject, clock) for name, way in ways.items()}


def _whole(subject: Subject, clock: DeviceClock) -> Columns:
    steps, forward = _forwards(subject, clock)
    backward = [_backward(clock, step.outputs(which), gradients) for step, which, gradients in _backwards(steps)]
    clock.settle()
    return {"forward_s": clock.seconds(forward), "backward_s": clock.seconds(backward[::-1])}


def _first(subject: Subject, clock: DeviceClock) -> Columns:
    for parameter in subject.parameters:
        parameter.grad = None
    return {"backward_first_s": _whole(subject, clock)["backward_s"]}


def _split(subject: Subject, clock: DeviceClock) -> Columns:
    steps, _ = _forwards(subject, clock)
    spans = [
        _split_backward(clock, step, step.outputs(which), gradients) for step, which, gradients in _backwards(steps)
    ]
    clock.settle()
    return {
        "backward_input_s": clock.seconds([span for span, _ in reversed(spans)]),
        "backward_weight_s": clock.seconds([span for _, span in reversed(spans)]),
    }


def _recompute(subject: Subject, clock: DeviceClock) -> Columns:
    steps, _ = _forwards(subject, clock)
    spans: list[Span] = []
    for step, which, gradients in _backwards(steps):
        entering = cut(step.entering)
        begin = clock.mark()
        leaving = step.layer(entering)
        spans.append((begin, clock.mark()))
        again = _Step(step.layer, entering, leaving)
        _backward(clock, again.outputs(which), gradients)
        for old, new in zip(step.inputs(), again.inputs(), strict=True):
            old.grad = new.grad
    clock.settle()
    return {"recompute_s": clock.seconds(spans[::-1])}


def _forwards(subject: Subject, clock: DeviceClock) -> tuple[list[_Step], list[Span]]:
    """Every layer's forward, timed, with the tensors for its backward."""
    steps: list[_Step] = []
    spans: list[Span] = []
    value = subject.example
    for place, layer in enumerate(subject.layers):
        entering = cut(value)
        try:
            begin = clock.mark()
            value = layer(entering)
            spans.append((begin, clock.mark()))
        except Exception as error:  # anything may happen in a user's layer
            hint = _IN_PLACE if "in-place" in str(error) else ""
            raise failed(f"layer {place} ({subject.names[place]}) forward", error, hint) from error
        steps.append(_Step(layer, entering, value))
    return steps, spans


def _backwards(steps: list[_Step]) -> "Iterator[tuple[_Step, list[int], list[torch.Tensor | None]]]":
    """From the last layer to the first: which of its outputs have gradients, and these gradients."""
    for place in reversed(range(len(steps))):
        step = steps[place]
        if place == len(steps) - 1:
            _, gradients = start_of_backward(step.leaving)
            yield step, [i for i, tensor in enumerate(tensors(step.leaving)) if tensor.requires_grad], gradients
            continue
        arrived = {
            i: after.grad for i, after in enumerate(tensors(steps[place + 1].entering)) if after.grad is not None
        }
        yield step, list(arrived), list(arrived.values())


def _backward(clock: DeviceClock, outputs: "list[torch.Tensor]", gradients: "list[torch.Tensor | None]") -> Span:
    import torch

    if not outputs:
        return None
    begin = clock.mark()
    torch.autograd.backward(outputs, gradients)
    return begin, clock.mark()


def _split_backward(
    clock: DeviceClock, step: _Step, outputs: "list[torch.Tensor]", gradients: "list[torch.Tensor | None]"
) -> tuple[Span, Span]:
    """The gradients of the inputs, then those of the parameters; one of them is the whole if the other is empty."""
    inputs, weights = step.inputs(), step.weights()
    if not (inputs and weights and outputs):
        span = _backward(clock, outputs, gradients)
        return (span, None) if inputs else (None, span)
    begin = clock.mark()
    for_inputs, for_weights = split_backward(outputs, gradients, inputs, weights)
    for_inputs()
    middle = clock.mark()
    for_weights()
    return (begin, middle), (middle, clock.mark())


def _check_cuts(subject: Subject, steps: list[_Step]) -> None:
    """Refuse a layer whose backward would continue into that of an earlier layer; shared parameters are allowed."""
    # For each node: the layer whose input it is, or from whose outputs it was reached first.
    belongs: dict[Node, int] = {node: place for place, step in enumerate(steps) for node in roots(step.inputs())}
    for place, step in enumerate(steps):
        outputs = [tensor for tensor in tensors(step.leaving) if tensor.requires_grad]
        for node in post_order(roots(outputs)):
            found = belongs.get(node, place) if is_leaf(node) else belongs.setdefault(node, place)
            if found != place:
                raise InputError(
                    f"layer {place} ({subject.names[place]}) uses a tensor of layer {found} ({subject.names[found]}) "
                    "that it does not receive as input; pass it through the layers between, or use --method hooks"
                )
