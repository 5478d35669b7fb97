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
        ("h100-nvl-94gb", {"fp32": 60, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5}, 3900),
        ("gh200-96gb", {"fp32": 67, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}, 4000),
        ("h20-96gb", {"fp32": 44, "tf32": 74, "bf16": 148, "fp16": 148, "fp8": 296}, 4000),
        ("gb200-186gb", {"fp32": 80, "tf32": 1250, "bf16": 2500, "fp16": 2500, "fp8": 5000}, 8000),
        ("b300-270gb", {"fp32": 75, "tf32": 1125, "bf16": 2250, "fp16": 2250, "fp8": 4500}, 7700),
        ("mi355x-288gb", {"fp32": 157.3, "bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2}, 8000),
        ("l40s-48gb", {"fp32": 91.6, "tf32": 183, "bf16": 362.05, "fp16": 362.05, "fp8": 733}, 864),
        ("titan-v-12gb", {"fp32": 13.8, "fp16": 110}, 652.8),
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
        ("h100-nvl", "h100-nvl-94gb"),
        ("a10", "a10-24gb"),
        ("a800", "a800-80gb"),
        ("h20", "h20-96gb"),
        ("gh200", "gh200-96gb"),
        ("gb200", "gb200-186gb"),
        ("b300", "b300-270gb"),
        ("l40s", "l40s-48gb"),
        ("mi325x", "mi325x-256gb"),
        ("mi355x", "mi355x-288gb"),
        ("rtx2080ti", "rtx2080ti-11gb"),
        ("titan-rtx", "titan-rtx-24gb"),
        ("titan-v", "titan-v-12gb"),
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


def test_only_the_memory_is_left_out_of_a_name():
    """H100 is that of HGX machines, not H100 NVL, whose name only begins with the same letters."""
    assert device_kind("h100").name == "h100-80gb"
    with pytest.raises(UnknownNameError):
        device_kind("titan")


def test_the_export_version_of_a_device_differs_in_its_links_only():
    a100, a800 = DEVICE_KINDS["a100-80gb"], DEVICE_KINDS["a800-80gb"]
    assert (a800.peak, a800.memory, a800.memory_bandwidth) == (a100.peak, a100.memory, a100.memory_bandwidth)
    assert a800.interconnect == a100.interconnect * 2 / 3
