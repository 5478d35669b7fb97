import sys
from types import SimpleNamespace

import pytest

from pipesim.recorders import machine_info

CPU, GPU = SimpleNamespace(type="cpu"), SimpleNamespace(type="cuda")


@pytest.fixture(autouse=True)
def _torch(monkeypatch):
    cuda = SimpleNamespace(
        get_device_name=lambda _: "NVIDIA A100-SXM4-80GB",
        get_device_properties=lambda _: SimpleNamespace(total_memory=2**36),
    )
    version = SimpleNamespace(cuda="12.6")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, version=version, __version__="2.13.0"))


def test_kinds_of_devices_are_names_that_clusters_can_have():
    assert machine_info.device_kind(CPU) == "cpu"
    assert machine_info.device_kind(GPU) == "nvidia-a100-sxm4-80gb"


def test_memory_that_processes_share_is_unknown():
    assert (machine_info.memory(CPU), machine_info.memory(GPU)) == (0, 2**36)


def test_a_machine_is_described_by_hardware_and_versions_and_not_by_its_name():
    found = machine_info.machine(CPU, 2)
    assert "cores, 2 threads used; torch 2.13.0, Python 3." in found
    assert machine_info.machine(GPU, 1).startswith("NVIDIA A100-SXM4-80GB, CUDA 12.6; ")
    assert machine_info.platform.node() not in found
