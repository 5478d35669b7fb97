import pytest

from pipesim.architectures.operations import PRECISIONS
from pipesim.base import lookup
from pipesim.base.errors import UnknownNameError
from pipesim.core.devices import DEVICE_KINDS, GIB, device_kind
from pipesim.topologies import TOPOLOGIES


def test_every_kind_says_all_that_its_data_sheet_does():
    for name, kind in DEVICE_KINDS.items():
        assert kind.name == name
        assert name.endswith(f"-{kind.memory / GIB:.0f}gb")
        assert kind.sheet
        assert {"fp32", "fp16"} <= set(kind.peak)
        assert set(kind.peak) <= {*PRECISIONS, "fp8"}


def test_numbers_are_in_the_units_they_are_said_to_be():
    """A device computes more than it moves, and moves more within itself than to others."""
    for kind in DEVICE_KINDS.values():
        assert min(kind.peak.values()) > kind.memory_bandwidth > kind.interconnect > 1e9


def test_matrix_units_are_not_slower_where_values_are_smaller():
    order = ("fp32", "tf32", "bf16", "fp8")
    for kind in DEVICE_KINDS.values():
        peaks = [kind.peak[precision] for precision in order if precision in kind.peak]
        assert peaks == sorted(peaks)
        assert kind.peak.get("bf16", kind.peak["fp16"]) == kind.peak["fp16"]


@pytest.mark.parametrize(
    ("name", "tflops", "gb_per_s"),
    [
        ("v100-32gb", {"fp32": 15.7, "fp16": 125}, 900),
        ("a100-80gb", {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312}, 2039),
        ("h100-80gb", {"fp32": 67, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}, 3350),
        ("h200-141gb", {"fp32": 67, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}, 4800),
        ("mi300x-192gb", {"fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9}, 5300),
        ("rtx4090-24gb", {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2, "fp8": 330.3}, 1008),
    ],
)
def test_peaks_are_the_dense_ones_of_the_data_sheet(name, tflops, gb_per_s):
    kind = DEVICE_KINDS[name]
    assert {precision: peak / 1e12 for precision, peak in kind.peak.items()} == pytest.approx(tflops, rel=1e-12)
    assert kind.memory_bandwidth == gb_per_s * 1e9


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("a100-80", "a100-80gb"),
        ("v100-16", "v100-16gb"),
        ("h100", "h100-80gb"),
        ("a10", "a10-24gb"),
        ("l4", "l4-24gb"),
        ("rtx4090", "rtx4090-24gb"),
        ("mi250", "mi250-128gb"),
    ],
)
def test_a_kind_is_found_by_a_shorter_name_that_no_other_has(short, full):
    assert device_kind(short) is DEVICE_KINDS[full]
    assert {
        device.kind for device in lookup.call(f"flat(2, '1GB/s', device='{short}')", TOPOLOGIES, "cluster").devices
    } == {full}


@pytest.mark.parametrize(("name", "meant"), [("a100", "a100-"), ("v100", "v100-"), ("h10", "h100-80gb"), ("", "known")])
def test_a_name_that_could_be_several_kinds_or_none_is_refused(name, meant):
    with pytest.raises(UnknownNameError, match=f"unknown device kind '{name}'; .*{meant}"):
        device_kind(name)
