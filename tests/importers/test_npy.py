"""Vectors of forward seconds."""

import numpy as np
import pytest

from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.model import model_of
from pipesim.importers.detect import importer_for
from pipesim.importers.npy import npy


@pytest.fixture
def save(tmp_path):
    def write(values, name="gpt2_A100_1"):
        path = tmp_path / f"{name}.npy"
        np.save(path, np.asarray(values), allow_pickle=True)
        return path

    return write


def test_a_vector_is_guessed_and_is_one_forward_per_layer_with_the_backward_as_stated(save):
    path = save([0.5, 0.25, 0.125])
    assert importer_for(path) == "npy"
    trace = npy(path, backward_factor=3, samples=4)
    assert (trace.model, trace.source, trace.microbatch_size) == ("gpt2_A100_1", "npy", 4)
    assert trace.layers["forward_s"].tolist() == [0.5, 0.25, 0.125]
    assert trace.layers["backward_s"].tolist() == [1.5, 0.75, 0.375]
    assert npy(path).layers["backward_s"].tolist() == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", ">f8"])
def test_numbers_of_any_type_and_order_are_read_in_the_unit_that_is_told(save, kind):
    trace = npy(save(np.array([2, 4], kind)), time_unit="ms")
    assert trace.layers["forward_s"] == pytest.approx([2e-3, 4e-3])


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_an_array_are_samples(save, order):
    trace = npy(save(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]], order=order)))
    assert (trace.layer_count, trace.layers["sample"].tolist()) == (2, [0, 0, 1, 1, 2, 2])
    assert costs_of(trace).forward("any").tolist() == [3.0, 4.0]


def test_several_files_are_samples_or_devices(save):
    paths = [save([1.0, 2.0], "a"), save([3.0, 6.0], "b")]
    assert costs_of(npy(paths)).forward("any").tolist() == [2.0, 4.0]
    costs = costs_of(npy(paths, device_kind=["a100", "a10"]))
    assert costs.forward("a10").tolist() == [3.0, 6.0]
    with pytest.raises(InputError, match=r"device_kind = .* a name, or 2, one for each file"):
        npy(paths, device_kind=["a100"])
    with pytest.raises(InputError, match=r"c\.npy: 3 layers found; .*a\.npy has 2"):
        npy([paths[0], save([1.0, 2.0, 3.0], "c")])


def test_bytes_are_given_for_all_layers_or_for_each(save):
    trace = npy(save([1.0, 2.0]), output_bytes="1KiB", parameter_bytes=[5, 6])
    assert model_of(trace).cut_bytes.tolist() == [1024, 0]
    assert trace.layers["parameter_bytes"].tolist() == [5, 6]
    with pytest.raises(InputError, match=r"output_bytes = .* or 2, one for each layer"):
        npy(save([1.0, 2.0]), output_bytes=[1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, -1.0], r"\[1\]: -1\.0 found; a finite time, not negative"),
        ([[1.0, 2.0], [float("nan"), 1.0]], r"\[1, 0\]: nan found"),
        ([float("inf")], r"\[0\]: inf found"),
        ([1e308, 1.0], "row 0: backward_s: inf found"),
        ([], r"has the shape \(0,\)"),
        (3.0, r"has the shape \(\)"),
        (np.zeros((2, 2, 2)), r"has the shape \(2, 2, 2\)"),
        (["a"], "descr: '<U1' found; numbers"),
        ([True], r"descr: '\|b1' found"),
        ([1j], "descr: '<c16' found"),
        ([{"a": 1}], r"descr: '\|O' found; numbers"),
        (np.zeros(10_001), r"has the shape \(10001,\); at most 10,000 layers"),
    ],
)
def test_what_is_no_vector_of_times_is_refused(save, values, message):
    with pytest.raises(InputError, match=r"gpt2_A100_1\.npy: " + message):
        npy(save(values))


def test_a_header_that_promises_more_than_the_file_has_takes_no_memory(save):
    """NumPy's own reader would make room for all of it first."""
    path = save([1.0, 2.0])
    path.write_bytes(path.read_bytes().replace(b"(2,), }       ", b"(9999,), }    "))
    with pytest.raises(InputError, match="16 bytes of numbers found; 79992 were expected"):
        npy(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x09\x00" + bytes(99),
        b"\x93NUMPY\x01\x00\x02\x00{}\n",
    ],
)
def test_a_broken_header_is_refused(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.npy: (is|has a|header: )"):
        npy(tmp_path / "x.npy")


@pytest.mark.parametrize(
    "options", [{"samples": 0}, {"backward_factor": -1}, {"time_unit": ""}, {"time_unit": "weeks"}]
)
def test_options_that_mean_nothing_are_refused(save, options):
    with pytest.raises(InputError, match=r"found|unknown unit"):
        npy(save([1.0]), **options)
