import sys
from types import SimpleNamespace

import pytest

from pipesim.base.errors import RefusedError
from pipesim.recorders import split


class FakeNode(SimpleNamespace):
    """A node of autograd's graph."""

    __hash__ = object.__hash__


def node(*following):
    return FakeNode(next_functions=[(one, 0) for one in following])


def tensor(of):
    return SimpleNamespace(node=of)


@pytest.fixture(autouse=True)
def _torch(monkeypatch):
    graph = SimpleNamespace(get_gradient_edge=lambda tensor: tensor)
    modules = {"torch": SimpleNamespace(), "torch.autograd": SimpleNamespace(), "torch.autograd.graph": graph}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def test_the_forks_are_those_of_the_picture_in_the_module():
    """Two products on the way to x, each with a weight beside the way."""
    x, first, second = node(), node(), node()
    inner = node(x, first)
    outer = node(node(inner), second)
    weights = [tensor(first), tensor(second)]
    forks = split._forks([tensor(node(outer))], [tensor(x)], weights)
    assert {id(fork.node): fork.parameters for fork in forks} == {
        id(inner): [weights[0]],
        id(outer): [weights[1]],
    }


def test_a_backward_that_cannot_be_split_is_refused():
    x, weight = node(), node()
    way = node(x)
    with pytest.raises(RefusedError, match="depends on parameters but on no input"):
        split._forks([tensor(way), tensor(node(weight))], [tensor(x)], [tensor(weight)])
    with pytest.raises(RefusedError, match="used in several places of one layer"):
        split._forks([tensor(node(node(x, weight), weight))], [tensor(x)], [tensor(weight)])
