"""A trace holds what was recorded, as recorded; one that exists is complete and agrees with itself."""

import numpy as np
import pytest
from hypothesis import given, settings

from helpers import strategies
from helpers.small_traces import rows_of, trace_of
from pipesim.base.errors import FormatError, InputError
from pipesim.core.trace import Trace, parse_inputs

SUFFIXES = (".csv", ".parquet")


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=40)
@given(trace=strategies.traces())
def test_a_saved_trace_loads_exactly_as_it_was(tmp_path_factory, suffix, trace):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    folder = tmp_path_factory.mktemp("trace") / "saved"
    trace.save(folder, suffix)
    again = Trace.load(folder)
    assert again.same_as(trace)
    assert trace.same_as(again)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_transfers_are_kept_too(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    transfers = {"source": ["a", "b"], "target": ["b", "a"], "bytes": [1, 2], "seconds": [0.1, 1 / 3]}
    trace = Trace("m", "by hand", 4, trace_of().layers, transfers, "here", "made it", "fp16")
    trace.save(tmp_path / "t", suffix)
    again = Trace.load(tmp_path / "t")
    assert again.same_as(trace)
    assert again.transfers["seconds"].tolist() == [0.1, 1 / 3]
    assert again.transfers["kind"].tolist() == ["p2p", "p2p"]
    assert (again.machine, again.command, again.precision) == ("here", "made it", "fp16")


def test_traces_that_differ_in_one_sample_are_not_the_same():
    assert trace_of().same_as(trace_of())
    assert not trace_of().same_as(trace_of(forward_s=[1.0, 2.0000001]))
    assert not trace_of().same_as(Trace("other", "by hand", 4, trace_of().layers))


def test_saving_in_the_other_form_replaces_the_older_one(tmp_path):
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    trace_of().save(tmp_path / "t", ".csv")
    newer = trace_of(forward_s=[5.0, 6.0])
    newer.save(tmp_path / "t", ".parquet")
    assert Trace.load(tmp_path / "t").same_as(newer)


def test_columns_that_were_never_recorded_are_not_written(tmp_path):
    trace_of().save(tmp_path / "t")
    header = (tmp_path / "t" / "layers.csv").read_text().split("\n")[0]
    assert "backward_input_s" not in header
    assert "backward_s" in header


def test_a_layers_table_written_by_hand_needs_only_what_has_no_default(tmp_path):
    (tmp_path / "trace.toml").write_text(
        'format = "pipesim.trace"\nversion = 1\nmodel = "m"\nsource = "me"\nmicrobatch_size = 8\n'
    )
    (tmp_path / "layers.csv").write_text("layer,name,forward_s,backward_s,output_bytes\n0,a,0.5,1,100\n1,b,0.5,1,0\n")
    trace = Trace.load(tmp_path)
    assert trace.layer_count == 2
    assert trace.device_kinds == ("any",)
    assert trace.layers["microbatch_size"].tolist() == [8, 8]
    assert trace.inputs() == [None, None]


def test_a_folder_without_layers_is_refused_with_what_it_needs(tmp_path):
    trace_of().save(tmp_path / "t")
    (tmp_path / "t" / "layers.csv").unlink()
    with pytest.raises(InputError, match=r"neither layers\.csv nor layers\.parquet"):
        Trace.load(tmp_path / "t")
    with pytest.raises(InputError, match=r"trace\.toml: no such file"):
        Trace.load(tmp_path / "nowhere")


def test_a_newer_trace_is_refused(tmp_path):
    trace_of().save(tmp_path / "t")
    header = tmp_path / "t" / "trace.toml"
    header.write_text(header.read_text().replace("version = 1", "version = 2"))
    with pytest.raises(FormatError, match=r"trace\.toml: pipesim\.trace version 2 is newer"):
        Trace.load(tmp_path / "t")


def test_units_other_than_seconds_and_bytes_are_refused(tmp_path):
    trace_of().save(tmp_path / "t")
    header = tmp_path / "t" / "trace.toml"
    header.write_text(header.read_text().replace("seconds, bytes", "milliseconds, bytes"))
    with pytest.raises(InputError, match="units: 'milliseconds, bytes' found"):
        Trace.load(tmp_path / "t")


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


@pytest.mark.parametrize("size", [0, -1, 2**63])
def test_a_microbatch_has_at_least_one_sample(size):
    with pytest.raises(InputError, match=f"microbatch_size = {size} found"):
        Trace("m", "by hand", size, trace_of().layers)


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


def test_the_inputs_of_each_layer_are_read_from_its_first_row():
    trace = trace_of(
        layer=[1, 0, 2, 0],
        name=["b", "a", "c", "a"],
        sample=[0, 1, 0, 0],
        forward_s=[1.0] * 4,
        backward_s=[1.0] * 4,
        output_bytes=[1] * 4,
        inputs=["-", "", "0", ""],
    )
    assert trace.inputs() == [None, (), (0,)]


def test_a_trace_may_be_built_from_plain_lists_and_has_arrays():
    trace = trace_of()
    assert isinstance(trace.layers["forward_s"], np.ndarray)
    assert trace.layers["stash_bytes"].tolist() == [0, 0]


def test_the_widths_of_a_recording_can_be_stated():
    trace = trace_of()
    assert [widths.by_name for widths in trace.widths] == [{"tensor": 1, "context": 1, "expert": 1}]
    stated = trace.stated_at(tensor=4, expert=2)
    assert [widths.by_name for widths in stated.widths] == [{"tensor": 4, "context": 1, "expert": 2}]
    assert trace.stated_at() is trace


def test_what_was_not_recorded_is_stated_in_sentences():
    lacking = trace_of(backward_s=[0.0, 0.0]).lacking
    assert "no layer has parameter_bytes: all-reduces and parameter memory will be left out" in lacking
    assert "the profile is forward only: backwards take no time" in lacking


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
