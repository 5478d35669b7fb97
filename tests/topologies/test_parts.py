from pathlib import Path

import numpy as np
import pytest

from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.devices import DEVICE_KINDS
from pipesim.topologies import parts


def test_devices_have_the_memory_and_the_peak_of_their_kind():
    kind = DEVICE_KINDS["a100-80gb"]
    (device,) = parts.devices([("gpu0", "node0")], "a100-80", None)
    assert (device.kind, device.memory, device.flops) == ("a100-80gb", kind.memory, kind.peak["fp16"])
    (small,) = parts.devices([("gpu0", "node0")], "a100-80gb", "1 GiB")
    assert (small.memory, small.flops) == (2**30, kind.peak["fp16"])


def test_an_unknown_kind_needs_a_memory_and_has_no_peak():
    (device,) = parts.devices([("gpu0", "node0")], "abacus", 1000)
    assert (device.kind, device.memory, device.flops) == ("abacus", 1000, None)
    with pytest.raises(UnknownNameError, match=r"device: unknown device kind 'abacus'.*needs its memory"):
        parts.devices([("gpu0", "node0")], "abacus", None)


def test_values_are_read_with_their_units():
    assert parts.count("n", np.int64(3)) == 3
    assert parts.number("share", 1, 0, 1) == 1.0
    assert parts.bandwidth("inter", "100 Gb/s") == 12.5e9
    assert parts.latency("latency", "2us") == 2e-6
    assert parts.memory_of("16 GiB") == 2**34
    assert parts.path("file", "topo.txt") == Path("topo.txt")


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: parts.count("n", 3.0), "n = 3.0 found; a whole number from 1 to 131072"),
        (lambda: parts.number("density", 1.5, 0, 1), "density: 1.5 found; a number from 0 to 1"),
        (lambda: parts.bandwidth("inter", 0), "inter: 0 found; more than 0 bytes/s"),
        (lambda: parts.latency("latency", "-1us"), "latency: "),
        (lambda: parts.memory_of(2.0**61), "memory: .* found; at most 1024 PiB"),
        (lambda: parts.path("file", "x" * 2000), "file: .* found; the path of a file"),
        (lambda: parts.size("2 x 99999", devices=199998), "2 x 99999: 199998 devices found; at most 131072"),
        (lambda: parts.size("n", devices=2, links=10**7), "n: 10000000 links found; at most 1048576"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_argument(check, message):
    with pytest.raises(InputError, match=message):
        check()
