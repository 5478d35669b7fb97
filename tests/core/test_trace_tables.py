"""What the rows of a trace's tables must be like."""

import numpy as np
import pytest

from helpers.small_traces import rows_of, trace_of
from pipesim.base.errors import InputError
from pipesim.core.trace import Trace
from pipesim.core.trace_tables import parse_inputs


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"layer": [0, 2]}, "layer 1 is missing; layers were expected to be numbered 0 to 2"),
        ({"layer": [1, 2]}, "layer 0 is missing"),
        ({"layer": [0, 0], "name": ["a", "a"], "output_bytes": [1, 1]}, "layer 0: duplicate sample 0"),
        ({"forward_s": [1.0, -1.0]}, "row 1: forward_s: -1.0 found"),
        ({"forward_s": [1.0, 3e6]}, r"layer 1: forward_s: 3000000\.0 found; seconds, at most 1e\+06"),
        ({"backward_s": [1.0, float("nan")]}, "layer 1: backward_s, or both backward_input_s and backward_weight_s"),
        ({"backward_input_s": [1.0, 1.0]}, "layer 0: backward_s, or both"),
        ({"inputs": ["", "1"]}, r"layer 1: inputs: layer 1 found; only layers before it, 0 to 0, can be inputs"),
        ({"inputs": ["0", ""]}, r"layer 0: inputs: layer 0 found; only layers before it"),
        ({"inputs": ["", "a"]}, "layer 1: inputs: 'a' found; layers such as '3;7'"),
        ({"microbatch_size": [4, 8]}, "has no row for device kind 'any', microbatch size"),
        ({"device_kind": ["x", "y"]}, "layer 1 has no row for device kind 'x', microbatch size 4"),
        ({"colour": ["red", "blue"]}, "unknown column 'colour'"),
        ({name: [] for name in ("layer", "name", "forward_s", "backward_s", "output_bytes")}, "has no layers"),
    ],
)
def test_a_trace_that_contradicts_itself_is_refused(columns, message):
    with pytest.raises(InputError, match=message):
        trace_of(**columns)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("name", ["a", "b"], "layer 0: name: 'b' in one row and 'a' in another; rows of one layer must agree"),
        ("parameter_bytes", [1, 2], "layer 0: parameter_bytes: 2 in one row and 1 in another"),
        ("output_bytes", [1, 2], "layer 0: output_bytes: 2 in one row and 1 in another"),
        ("forward_flops", [1.0, 2.0], "layer 0: forward_flops: 2.0 in one row and 1.0 in another"),
    ],
)
def test_the_samples_of_a_layer_must_agree_on_what_the_layer_is(name, values, message):
    columns = {"layer": [0, 0], "name": ["a", "a"], "sample": [0, 1], "output_bytes": [1, 1]} | {name: values}
    with pytest.raises(InputError, match=message):
        trace_of(**columns)


def test_output_bytes_may_differ_between_microbatch_sizes():
    trace = trace_of(layer=[0, 0], name=["a", "a"], microbatch_size=[4, 8], output_bytes=[10, 20])
    assert trace.layer_count == 1


def test_every_device_kind_must_have_every_layer():
    rows = [(0, "x", 1, 0, 1.0), (1, "x", 1, 0, 1.0), (0, "y", 1, 0, 1.0)]
    with pytest.raises(InputError, match="layer 1 has no row for device kind 'y', microbatch size 1"):
        rows_of(*rows)
    assert rows_of(*rows, (1, "y", 1, 0, 1.0)).device_kinds == ("x", "y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), ("  ", None), ("-", ()), ("3;7", (3, 7)), (" 3 ; 7 ", (3, 7)), ("0", (0,))],
)
def test_inputs_are_the_layer_before_or_none_or_those_listed(text, expected):
    assert parse_inputs(text, 8) == expected


def test_samples_that_have_something_in_common_are_there_for_every_layer(tmp_path):
    columns = rows_of(*((layer, "any", 4, sample, 1.0) for layer in (0, 1) for sample in (0, 1))).layers
    trace = Trace("m", "by hand", 4, columns, samples="microbatch")
    trace.save(tmp_path / "t")
    assert Trace.load(tmp_path / "t").samples == "microbatch"
    assert Trace.load(tmp_path / "t").same_as(trace)
    with pytest.raises(InputError, match="sample 1: 1 rows found; one for each of the 2 layers was expected"):
        Trace("m", "by hand", 4, columns | {"sample": np.array([0, 1, 0, 2])}, samples="step")
    with pytest.raises(InputError, match="samples = 'batch' found; 'microbatch' or 'step' was expected"):
        Trace("m", "by hand", 4, columns, samples="batch")
