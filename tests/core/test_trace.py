"""A trace holds what was recorded, as recorded; one that exists is complete and agrees with itself."""

import numpy as np
import pytest
from hypothesis import given, settings

from helpers import strategies
from helpers.small_traces import trace_of
from pipesim.base.errors import FormatError, InputError
from pipesim.core.trace import Trace

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


@pytest.mark.parametrize("size", [0, -1, 2**63])
def test_a_microbatch_has_at_least_one_sample(size):
    with pytest.raises(InputError, match=f"microbatch_size = {size} found"):
        Trace("m", "by hand", size, trace_of().layers)


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
