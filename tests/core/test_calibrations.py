import pytest

from pipesim import load_cluster
from pipesim.architectures.device_curves import DeviceCurve, curve_of
from pipesim.architectures.gpt import gpt
from pipesim.architectures.roofline import roofline
from pipesim.base import serialisation
from pipesim.base.errors import InputError, PipesimError, UnknownNameError
from pipesim.core.calibrations import Calibration, Calibrations, calibrations_of, is_calibrated
from pipesim.core.devices import device_kind

OWN = Calibration("mine", "a100-80gb", "bf16", 0.6, 0.5, 0.7, 1e-5, 0.04, "product fitted on 3 measurements")


@pytest.fixture
def kind(tmp_path):
    serialisation.save(Calibrations((OWN,)), tmp_path / "own.toml")
    return f"{tmp_path / 'own.toml'}:mine"


def test_a_kind_of_a_file_has_the_data_sheet_of_its_base_and_constants_of_its_own(kind):
    assert is_calibrated(kind)
    assert calibrations_of(kind) == (OWN,)
    own, base = device_kind(kind), device_kind("a100-80gb")
    assert (own.name, own.memory, own.peak, own.interconnect) == (kind, base.memory, base.peak, base.interconnect)
    assert own.sheet.endswith(", calibrated")
    assert curve_of(kind, "bf16") == DeviceCurve(0.6, 0.5, 0.7, 1e-5, 0.04, "calibrated", OWN.source)
    assert curve_of(kind, "fp16") == curve_of("a100-80gb", "fp16")


def test_it_can_be_named_wherever_a_kind_of_device_is(kind, run, tmp_path):
    """In Python, in expressions of clusters, and on the command line; the trace states that it was calibrated."""
    trace = roofline(gpt(2, 64, 4, precision="bf16"), [kind], efficiency="device")
    assert trace.device_kinds == (kind,)
    assert "with calibrated constants e = 0.6 (products)" in trace.machine
    assert load_cluster(f"servers(1, 2, '300 GB/s', '25 GB/s', device={kind!r})").devices[0].kind == kind
    folder = str(tmp_path / "trace")
    code, out, err = run("trace", "gpt(2, 64, 4)", "--device", kind, "--precision", "bf16", "-o", folder)
    assert (code, err) == (0, "")
    assert "calibrated" in out
    code, out, _ = run("simulate", folder, f"flat(2, '10 GB/s', device={kind!r})", "-m", "4")
    assert code == 0


def test_a_name_that_the_file_does_not_have_is_refused_with_those_it_has(kind):
    with pytest.raises(UnknownNameError, match=r"own.toml: no device 'mien'; did you mean 'mine'"):
        device_kind(kind.replace(":mine", ":mien"))


def test_a_file_that_is_missing_is_refused_by_its_name(tmp_path):
    with pytest.raises(PipesimError, match=r"none\.toml"):
        device_kind(f"{tmp_path}/none.toml:mine")


def test_a_precision_that_is_given_twice_is_refused():
    with pytest.raises(InputError, match="'mine' has bf16 more than once"):
        Calibrations((OWN, OWN))
    with pytest.raises(InputError, match="at least one was expected"):
        Calibrations(())
