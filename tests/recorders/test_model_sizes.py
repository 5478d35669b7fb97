from types import SimpleNamespace

from pipesim.recorders import model_sizes


class FakeParameter:
    """A parameter without PyTorch."""

    def __init__(self, elements):
        self.elements = elements

    def numel(self):
        return self.elements

    def element_size(self):
        return 4


def layer(*parameters):
    return SimpleNamespace(parameters=lambda: parameters)


def test_a_tied_parameter_counts_in_the_first_layer_that_has_it():
    tied, own = FakeParameter(10), FakeParameter(3)
    subject = SimpleNamespace(layers=(layer(tied), layer(own, own), layer(tied)))
    assert model_sizes._parameters(subject) == [40, 12, 0]
