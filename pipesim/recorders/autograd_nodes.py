"""Autograd's graph: its nodes, and which of them are leaves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Node = Any  # of autograd's graph


def roots(outputs: "Sequence[torch.Tensor]") -> list[Node]:
    """The nodes from which the backward of these tensors starts."""
    from torch.autograd.graph import get_gradient_edge

    return [get_gradient_edge(output).node for output in outputs]


def nexts(node: Node) -> list[Node]:
    """The nodes that receive gradients from this one."""
    return [following for following, _ in node.next_functions if following is not None]


def is_leaf(node: Node) -> bool:
    """Whether it accumulates the gradient of a leaf tensor: a parameter, or the input after a cut."""
    return hasattr(node, "variable")


def post_order(starts: list[Node]) -> list[Node]:
    """All nodes reachable from these, each after its successors; without recursion, since graphs are deep."""
    order: dict[Node, None] = {}
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(start, False) for start in reversed(starts)]
    while stack:
        node, done = stack.pop()
        if done:
            order[node] = None
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(following, False) for following in nexts(node) if following not in seen]
    return list(order)
