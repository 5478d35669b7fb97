import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from pipesim.recorders import values


@dataclass(frozen=True)
class FakeTensor:
    """A tensor without PyTorch."""

    name: str
    requires_grad: bool = True
    elements: int = 4

    def numel(self):
        return self.elements

    def element_size(self):
        return 2


@pytest.fixture(autouse=True)
def _torch(monkeypatch):
    torch = SimpleNamespace(Tensor=FakeTensor, ones_like=lambda tensor: f"ones like {tensor.name}")
    monkeypatch.setitem(sys.modules, "torch", torch)


A, B, C = FakeTensor("a"), FakeTensor("b", requires_grad=False), FakeTensor("c")
Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - as users write it


def test_tensors_are_found_in_order_in_nested_values():
    assert values.tensors((A, [B, {"x": C, "y": 3}], None)) == [A, B, C]


def test_mapping_keeps_the_structure_and_the_classes():
    value = Pair(A, [OrderedDict(x=B), (C, "text")])
    found = values.mapped(value, lambda tensor: FakeTensor(tensor.name.upper()))
    assert isinstance(found, Pair)
    assert isinstance(found.right[0], OrderedDict)
    assert [tensor.name for tensor in values.tensors(found)] == ["A", "B", "C"]
    assert found.right[1][1] == "text"
    assert values.tensors(value) == [A, B, C], "the value itself is unchanged"


def test_the_backward_starts_from_ones_or_from_a_single_number():
    assert values.start_of_backward((A, B, C)) == ([A, C], ["ones like a", "ones like c"])
    loss = FakeTensor("loss", elements=1)
    assert values.start_of_backward(loss) == ([loss], [None])
    assert values.nbytes(A) == 8
