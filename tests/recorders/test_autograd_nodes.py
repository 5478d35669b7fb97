from types import SimpleNamespace

from pipesim.recorders.autograd_nodes import is_leaf, nexts, post_order


class FakeNode(SimpleNamespace):
    """A node as autograd has it: `next_functions` are pairs, None where no gradient is needed."""

    __hash__ = object.__hash__


def node(*following, **more):
    return FakeNode(next_functions=[(one, 0) for one in following], **more)


def test_inputs_that_need_no_gradient_have_no_node():
    leaf = node(variable="w")
    assert nexts(node(None, leaf)) == [leaf]
    assert is_leaf(leaf)
    assert not is_leaf(node(leaf))


def test_every_node_comes_once_and_after_those_that_follow_it():
    shared = node()
    left, right = node(shared), node(shared)
    top = node(left, right)
    order = post_order([top])
    assert len(order) == 4
    assert order[0] is shared
    assert order[-1] is top


def test_deep_graphs_need_no_recursion():
    chain = node()
    for _ in range(50_000):
        chain = node(chain)
    assert len(post_order([chain])) == 50_001
