"""Layouts are read and written in the words of frameworks."""

import doctest
import importlib

import pytest

import pipesim as ps
from pipesim.base.errors import InputError
from pipesim.studies import framework_layouts

FLAT = 'flat(4, bandwidth="1GB/s")'


def simulation(**fields):
    return ps.Simulation(**{"trace": "bert-large", "cluster": FLAT, "microbatches": 8} | fields)


def test_plan_files_and_files_of_frameworks_are_read(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text("--num-layers 24 --pipeline-model-parallel-size 4", encoding="utf-8")
    assert ps.layout.read(path, model="bert-large").blocks == (6, 6, 6, 6)
    assert framework_layouts.framework_of(str(path)) == "megatron"
    with pytest.raises(InputError, match=r"run\.sh: .*24 found; 48"):
        ps.layout.read(path, model="gpt2-xl")


def test_a_file_that_is_not_there_is_refused_by_name():
    with pytest.raises(InputError, match=r"missing\.sh: no such file"):
        ps.layout.read("missing.sh")


@pytest.mark.parametrize(
    "module",
    ["studies.framework_layouts", *(f"frameworks.{name}" for name in (
        "training_layout", "layout_text", "megatron_arguments", "bridge_overrides", "torchtitan_config"))],
)  # fmt: skip
def test_what_examples_show_is_what_happens(module):
    found = doctest.testmod(importlib.import_module(f"pipesim.{module}"), extraglobs={"ps": ps})
    assert found.attempted
    assert not found.failed
