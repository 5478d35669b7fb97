"""Layer by layer: each layer is a graph of its own, run and timed by itself, as the stages of a pipeline are.

    forward      example ─> [layer 0] ─> y0 ┆ y0' ─> [layer 1] ─> y1 ┆ y1' ─> [layer 2] ─> loss
                            ├───────┤            ├───────┤              ├───────┤
    backward                ├───────┤ <─ g0 ┆ g0 <─ ├───────┤ <─ g1 ┆ g1 <─ ├───────┤ <─ 1

    ┆      a cut: y' is y, detached; what arrives at y' as a gradient is handed to y
    ├──┤   is timed; what happens at the cuts is not

Ways of running a microbatch, and the columns each fills:

    whole       forward_s, backward_s        gradients are added to those of microbatches before
    first       backward_first_s             there are no gradients yet
    split       backward_input_s,            as schedules with split backwards run it: gradients of the inputs, then,
                backward_weight_s            from what that left behind, gradients of the parameters
    recompute   recompute_s                  the forward again, just before the backward
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipesim.recorders.clock import Clock, Span
from pipesim.recorders.split import split_backward
from pipesim.recorders.subjects import Subject, failed
from pipesim.recorders.values import Value, cut, start_of_backward, tensors

if TYPE_CHECKING:
    import torch

Columns = dict[str, list[float]]
Way = Callable[[], Columns]

_IN_PLACE = "; a layer that works in place on what it is given can be timed with the method hooks, or made not to"


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


def loop(subject: Subject, clock: Clock) -> dict[str, Way]:
    """The ways of running a microbatch layer by layer."""
    ways = {"whole": _whole, "first": _first, "split": _split, "recompute": _recompute}
    return {name: partial(way, subject, clock) for name, way in ways.items()}


def _whole(subject: Subject, clock: Clock) -> Columns:
    steps, forward = _forwards(subject, clock)
    backward = [_backward(clock, outputs, gradients) for _, outputs, gradients in _backwards(steps)]
    clock.settle()
    return {"forward_s": clock.seconds(forward), "backward_s": clock.seconds(backward[::-1])}


def _first(subject: Subject, clock: Clock) -> Columns:
    for parameter in subject.parameters:
        parameter.grad = None
    return {"backward_first_s": _whole(subject, clock)["backward_s"]}


def _split(subject: Subject, clock: Clock) -> Columns:
    steps, _ = _forwards(subject, clock)
    spans = [_split_backward(clock, step, outputs, gradients) for step, outputs, gradients in _backwards(steps)]
    clock.settle()
    return {
        "backward_input_s": clock.seconds([span for span, _ in reversed(spans)]),
        "backward_weight_s": clock.seconds([span for _, span in reversed(spans)]),
    }


def _recompute(subject: Subject, clock: Clock) -> Columns:
    steps, _ = _forwards(subject, clock)
    spans: list[Span] = []
    for step, _, gradients in _backwards(steps):
        entering = cut(step.entering)
        begin = clock.mark()
        again = step.layer(entering)
        spans.append((begin, clock.mark()))
        outputs, _ = start_of_backward(again)
        _backward(clock, outputs, gradients)
        for old, new in zip(step.inputs(), _Step(step.layer, entering, again).inputs(), strict=True):
            old.grad = new.grad
    clock.settle()
    return {"recompute_s": clock.seconds(spans[::-1])}


def _forwards(subject: Subject, clock: Clock) -> tuple[list[_Step], list[Span]]:
    """Every layer's forward, timed, with what it leaves for its backward."""
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


def _backwards(steps: list[_Step]) -> "Iterator[tuple[_Step, list[torch.Tensor], list[torch.Tensor | None]]]":
    """From the last layer to the first: its outputs that have gradients, and these, which the layer after it left."""
    for place in reversed(range(len(steps))):
        step = steps[place]
        if place == len(steps) - 1:
            outputs, gradients = start_of_backward(step.leaving)
            yield step, outputs, gradients
            continue
        pairs = zip(tensors(step.leaving), tensors(steps[place + 1].entering), strict=True)
        arrived = [(leaving, after.grad) for leaving, after in pairs if after.grad is not None]
        yield step, [leaving for leaving, _ in arrived], [gradient for _, gradient in arrived]


def _backward(clock: Clock, outputs: "list[torch.Tensor]", gradients: "list[torch.Tensor | None]") -> Span:
    import torch

    if not outputs:
        return None
    begin = clock.mark()
    torch.autograd.backward(outputs, gradients)
    return begin, clock.mark()


def _split_backward(
    clock: Clock, step: _Step, outputs: "list[torch.Tensor]", gradients: "list[torch.Tensor | None]"
) -> tuple[Span, Span]:
    """The gradients of the inputs, then those of the parameters; one of them is the whole where there is no other."""
    inputs, weights = step.inputs(), step.weights()
    if not (inputs and weights and outputs):
        span = _backward(clock, outputs, gradients)
        return (span, None) if inputs else (None, span)
    for_inputs, for_weights = split_backward(outputs, gradients, inputs, weights)
    begin = clock.mark()
    for_inputs()
    middle = clock.mark()
    for_weights()
    return (begin, middle), (middle, clock.mark())
