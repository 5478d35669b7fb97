import numpy as np
import pytest

from pipesim.architectures import described
from pipesim.architectures.gpt import gpt
from pipesim.architectures.roofline import roofline
from pipesim.base.errors import InputError

SMALL = "gpt(2, 24, 4, vocabulary=100, sequence=16)"


def test_an_expression_with_sizes_is_the_model_of_the_function():
    assert described.model_called(SMALL, {"microbatch": 3}) == gpt(2, 24, 4, vocabulary=100, sequence=16, microbatch=3)


def test_a_trace_of_several_microbatch_sizes_has_the_rows_of_each():
    trace = described.trace_called(SMALL, ["v100-16gb"], {}, microbatches=(4, 2))
    assert trace.microbatch_size == 4
    for size in (4, 2):
        alone = roofline(
            gpt(2, 24, 4, vocabulary=100, sequence=16, microbatch=size), ["v100-16gb"], efficiency="device"
        )
        rows = trace.layers["microbatch_size"] == size
        assert np.array_equal(trace.layers["forward_s"][rows], alone.layers["forward_s"])


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        ("gpt", {}, r"'gpt': missing a required argument: 'layers'; write gpt\(layers, hidden, heads\)"),
        ("vgg-16", {"sequence": 8}, "'vgg-16' has no sequence; it has image, microbatch, precision"),
    ],
)
def test_missing_and_unknown_sizes_are_refused_with_those_that_exist(text, sizes, message):
    with pytest.raises(InputError, match=message):
        described.model_called(text, sizes)


def test_a_microbatch_size_is_given_once():
    with pytest.raises(InputError, match=r"microbatches = \[2, 2\] found; each size once"):
        described.trace_called(SMALL, ["v100-16gb"], {}, microbatches=(2, 2))


def test_every_architecture_is_listed_with_its_required_sizes_and_a_sentence():
    found = {names[0]: (sizes, about) for names, sizes, about in described.listed()}
    assert found["llama"][0] == "layers, hidden, heads, inner=..."
    assert found["vgg-16"] == ("", "13 convolutions and 3 linear layers, 1000 classes.")
    assert all(about for _, about in found.values())
