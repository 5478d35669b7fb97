"""Metis' JSON profiles."""

import json

import numpy as np
import pytest

from helpers.profiles import metis_profile
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.model import model_of
from pipesim.importers.detect import importer_for
from pipesim.importers.metis import metis


@pytest.fixture
def save(tmp_path):
    def write(name, data):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(data))
        return path

    return write


def test_a_profile_is_guessed_and_its_times_are_split_between_forward_and_backward(save):
    path = save("DeviceType.A100_tp1_bs4", metis_profile())
    assert importer_for(path) == "metis"
    trace = metis(path)
    assert (trace.model, trace.source, trace.microbatch_size, trace.device_kinds) == ("toy", "metis", 4, ("A100",))
    assert trace.layers["forward_s"] == pytest.approx([1e-3, 10e-3, 2e-3])
    assert trace.layers["backward_s"] == pytest.approx([2e-3, 20e-3, 4e-3])
    assert trace.layers["parameter_bytes"].tolist() == [100, 200, 50]


@pytest.mark.parametrize("factor", [0, 1.0, 3])
def test_forward_and_backward_add_up_to_what_was_timed_whatever_the_factor(save, factor):
    trace = metis(save("DeviceType.A100_tp1_bs4", metis_profile()), backward_factor=factor)
    assert trace.layers["forward_s"] + trace.layers["backward_s"] == pytest.approx([3e-3, 30e-3, 6e-3])
    assert trace.layers["backward_s"] == pytest.approx(factor * trace.layers["forward_s"])


def test_several_files_are_several_microbatch_sizes_and_costs_interpolate_between_them(save):
    paths = [
        save(f"DeviceType.A100_tp1_bs{n}", metis_profile(times=np.array([3.0, 30.0, 6.0]) * t))
        for n, t in ((4, 3), (1, 1))
    ]
    trace = metis(paths)
    assert trace.microbatch_size == 1
    assert sorted(set(trace.layers["microbatch_size"].tolist())) == [1, 4]
    costs = costs_of(trace, 4)
    assert costs.forward("A100") == pytest.approx([3e-3, 30e-3, 6e-3])
    assert costs.forward("A100", 0.25) == pytest.approx([1e-3, 10e-3, 2e-3])
    assert costs.forward("A100", 0.625) == pytest.approx([2e-3, 20e-3, 4e-3])


def test_files_of_several_devices_are_several_device_kinds(save):
    paths = [
        save(f"DeviceType.{kind}_tp1_bs2", metis_profile(times=(t, t, t))) for kind, t in (("V100", 6.0), ("A100", 3.0))
    ]
    costs = costs_of(metis(paths))
    assert set(costs.kinds) == {"A100", "V100"}
    assert costs.forward("V100")[0] == pytest.approx(2 * costs.forward("A100")[0])


def test_one_tensor_parallel_degree_is_chosen_of_several(save):
    paths = [save(f"DeviceType.A100_tp{tp}_bs2", metis_profile(times=(6.0 / tp,) * 3)) for tp in (1, 2)]
    with pytest.raises(
        InputError, match=r"tensor-parallel degree 2, .*_tp1_bs2\.json with 1; one degree was expected.*tp=\.\.\."
    ):
        metis(paths)
    assert metis(paths, tp=2).layers["forward_s"] == pytest.approx([1e-3] * 3)
    with pytest.raises(InputError, match="tp = 4 found; the files have 1, 2"):
        metis(paths, tp=4)


def test_outputs_are_those_of_the_profile_or_given_for_one_sample(save):
    bare = save("DeviceType.A100_tp1_bs4", metis_profile())
    assert not metis(bare).layers["output_bytes"].any()
    assert model_of(metis(bare, output_bytes="1KiB")).cut_bytes.tolist() == [4096, 4096, 0]
    full = save("DeviceType.A100_tp1_bs8", metis_profile(activation_parameters_bytes=[7, 8, 9]))
    assert metis(full).layers["output_bytes"].tolist() == [7, 8, 9]
    assert metis(full, output_bytes=2).layers["output_bytes"].tolist() == [16] * 3


def test_a_file_of_another_name_is_told_its_batch_and_device(save):
    path = save("gpt", metis_profile())
    with pytest.raises(InputError, match="the file name has no batch size"):
        metis(path)
    trace = metis(path, samples=8, device_kind="h100")
    assert (trace.microbatch_size, trace.device_kinds) == (8, ("h100",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"execution_time": {}}, "layer_compute_total_ms: None found; a list of one number per layer"),
        ({"execution_time": {"layer_compute_total_ms": [1.0, -1.0, 2.0]}}, r"layer_compute_total_ms\[1\]: -1\.0 found"),
        ({"execution_time": {"layer_compute_total_ms": [1.0, True, 2.0]}}, r"layer_compute_total_ms\[1\]: True found"),
        ({"execution_time": {"layer_compute_total_ms": [1.0, 2.0]}}, "parameters_per_layer_bytes: 3 numbers found; 2"),
        ({"model": {"model_name": "toy"}}, "model.parameters.parameters_per_layer_bytes: None found"),
        ({"model": 3}, "parameters_per_layer_bytes: None found"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(save, change, message):
    with pytest.raises(InputError, match=r"A100_tp1_bs4\.json: .*" + message):
        metis(save("DeviceType.A100_tp1_bs4", metis_profile() | change))


def test_files_that_do_not_belong_together_are_refused(save, tmp_path):
    first = save("DeviceType.A100_tp1_bs1", metis_profile())
    other = metis_profile(times=(1.0, 2.0), parameters=(1, 2))
    with pytest.raises(InputError, match=r"bs2\.json: number of layers: 2 found; .*bs1\.json has 3"):
        metis([first, save("DeviceType.A100_tp1_bs2", other)])
    (tmp_path / "again").mkdir()
    twin = save("again/DeviceType.A100_tp1_bs1", metis_profile())
    with pytest.raises(InputError, match="has the device kind and the batch size of"):
        metis([first, twin])
    with pytest.raises(InputError, match=r"parameter_bytes: .* rows of one layer must agree"):
        metis([first, save("DeviceType.A100_tp1_bs4", metis_profile(parameters=(9, 9, 9)))])


@pytest.mark.parametrize("factor", [-1, float("nan"), float("inf"), True])
def test_a_backward_factor_is_a_finite_number(save, factor):
    with pytest.raises(InputError, match=r"backward_factor = .* found"):
        metis(save("DeviceType.A100_tp1_bs1", metis_profile()), backward_factor=factor)


def test_the_width_that_a_files_name_states_is_that_of_its_times(save):
    trace = metis(save("DeviceType.A100_tp4_bs2", metis_profile()))
    assert [widths.tensor for widths in trace.widths] == [4]
    assert trace.notes == ("backwards are assumed to take 2 times their forwards: the profile has only the sum",)
