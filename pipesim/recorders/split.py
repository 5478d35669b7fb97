"""A layer's backward in two: gradients of the inputs first, those of the parameters later.

    y ── Add ── Addmm ── Gelu ── Addmm ── x
                  ╞══ W2, b2       ╞══ W1, b1

    ──    nodes of autograd on the way to an input; they run first, and compute only gradients on that way
    ╞══   a fork to parameters; the gradients that reach it are kept, and start those of W, b later

This is the work of schedules with split backwards. PyTorch's searches the graph in each backward of inputs, so that is
part of their time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipesim.base.errors import RefusedError
from pipesim.recorders.autograd_nodes import Node, nexts, post_order, roots

if TYPE_CHECKING:
    import torch


@dataclass(slots=True, eq=False)
class _Fork:
    """A node from which gradients go to inputs and to parameters."""

    node: Node
    parameters: "list[torch.Tensor]"
    gradients: "list[torch.Tensor | None]" = field(default_factory=list)


def split_backward(
    outputs: "list[torch.Tensor]",
    gradients: "list[torch.Tensor | None]",
    inputs: "list[torch.Tensor]",
    weights: "list[torch.nn.Parameter]",
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Two functions, to be called in this order: gradients of the inputs, gradients of the parameters."""
    import torch

    forks = _forks(outputs, inputs, weights)

    def for_inputs() -> None:
        torch.autograd.backward(outputs, gradients, inputs=inputs, retain_graph=True)

    def for_weights() -> None:
        for fork in forks:
            arrived = [(i, gradient) for i, gradient in enumerate(fork.gradients) if gradient is not None]
            if arrived:
                edges = [torch.autograd.graph.GradientEdge(fork.node, i) for i, _ in arrived]
                torch.autograd.backward(edges, [gradient for _, gradient in arrived], inputs=fork.parameters)
        for handle in handles:
            handle.remove()

    handles = [fork.node.register_prehook(_keeper(fork)) for fork in forks]
    return for_inputs, for_weights


def _keeper(fork: _Fork) -> "Callable[[tuple[torch.Tensor | None, ...]], None]":
    def keep(gradients: "tuple[torch.Tensor | None, ...]") -> None:
        if not fork.gradients:  # the node runs again for the parameters
            fork.gradients = list(gradients)

    return keep


def _forks(
    outputs: "list[torch.Tensor]", inputs: "list[torch.Tensor]", weights: "list[torch.nn.Parameter]"
) -> list[_Fork]:
    """The nodes between outputs and inputs with parameters beside that way."""
    from torch.autograd.graph import get_gradient_edge

    ends = {get_gradient_edge(tensor).node for tensor in inputs}
    parameter_of = {get_gradient_edge(weight).node: weight for weight in weights}
    starts = roots(outputs)
    order = post_order(starts)
    leads: set[Node] = set()
    below: dict[Node, set[Node]] = {}  # nodes that lead to no input -> the parameters they lead to
    for node in order:
        following = nexts(node)
        if node in ends or any(n in leads for n in following):
            leads.add(node)
        else:
            own = {node} & parameter_of.keys()
            below[node] = own.union(*(below[n] for n in following))
    forks = {node: set[Node]().union(*(below[n] for n in nexts(node) if n in below)) for node in order if node in leads}
    if any(root in below and below[root] for root in starts):
        raise RefusedError("an output depends on parameters but on no input")
    found = [_Fork(node, [parameter_of[n] for n in order if n in under]) for node, under in forks.items() if under]
    if len({id(p) for fork in found for p in fork.parameters}) < sum(len(fork.parameters) for fork in found):
        raise RefusedError("a parameter is used in several places of one layer")
    return found
