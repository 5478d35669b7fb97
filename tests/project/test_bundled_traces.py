import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pipesim as ps
from helpers.places import ROOT
from pipesim.architectures import ARCHITECTURES
from pipesim.base import lookup
from pipesim.core.costs import costs_of
from pipesim.core.model import model_of
from pipesim.core.trace import Trace
from pipesim.studies.loading import bundled_traces

FOLDER = ROOT / "traces" / "roofline"
NAMES = ("bert-large", "gpt2-xl", "gpt3-6.7b", "resnet-152", "vgg-19")
KINDS = ("v100-16gb", "a100-40gb")


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", ["1", "2"])
def test_making_the_traces_again_gives_the_same_bytes(tmp_path, seed):
    """Traces and README, tables included, whatever the seed of Python's hashes."""
    command = [sys.executable, str(FOLDER / "make.py"), "--output", str(tmp_path / "made")]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
    bundled = {name: data for name, data in contents(FOLDER).items() if Path(name).suffix in {".toml", ".csv", ".md"}}
    assert contents(tmp_path / "made") == bundled
    assert set(bundled) == {"README.md"} | {f"{name}/{file}" for name in NAMES for file in ("trace.toml", "layers.csv")}


def test_traces_of_transformers_state_the_tokens_of_a_sample():
    tokens = {"bert-large": 512, "gpt2-xl": 1024, "gpt3-6.7b": 2048, "gpt-small-cpu": 128}
    found = {name: ps.load_trace(name).sequence for name in bundled_traces()}
    assert found == {**dict.fromkeys(found, 0), **tokens}


def test_only_models_with_a_name_are_bundled():
    assert set(NAMES) <= set(ARCHITECTURES)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_trace_is_that_of_the_architecture_of_its_name(name):
    trace = Trace.load(FOLDER / name)
    assert (trace.model, trace.source, trace.device_kinds) == (name, "roofline", KINDS)
    assert "calculated from data sheets" in trace.machine
    assert trace.command == "python traces/roofline/make.py"
    build = lookup.resolve(name, ARCHITECTURES, "architecture")
    assert model_of(trace) == build(microbatch=trace.microbatch_size)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_trace_scales_to_other_microbatches_as_the_architecture_does(name):
    trace = Trace.load(FOLDER / name)
    size = 2 * trace.microbatch_size
    build = lookup.resolve(name, ARCHITECTURES, "architecture")
    assert model_of(trace, size) == build(microbatch=size)
    once, twice = costs_of(trace), costs_of(trace, size)
    for kind in KINDS:
        np.testing.assert_array_equal(twice.forward(kind), 2 * once.forward(kind))


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_trace_has_times_for_every_layer_and_the_newer_device_is_faster(name):
    costs = costs_of(Trace.load(FOLDER / name))
    old, new = (costs.forward(kind) + costs.backward(kind) for kind in KINDS)
    assert (new > 0).all()
    assert (new < old).all()
    assert (costs.forward(KINDS[0]) > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_bundled_trace_beats_the_half_of_its_peak(name):
    """All FLOPs at 62.5 and 156 TFLOP/s are a lower bound; no network here takes three times as long."""
    costs = costs_of(Trace.load(FOLDER / name))
    for kind, rate in zip(KINDS, (62.5e12, 156e12), strict=True):
        ideal = costs.model.forward_flops / rate
        assert ideal <= costs.forward(kind).sum() < 3 * ideal
        assert costs.backward(kind).sum() < 2 * costs.forward(kind).sum() * 1.01


def test_the_readme_says_what_the_traces_hold():
    """Each model's line states its layers, millions of parameters and forward milliseconds on both kinds."""
    lines = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    for name in NAMES:
        costs = costs_of(Trace.load(FOLDER / name))
        cells = [cell.strip() for cell in next(line for line in lines if line.startswith(f"| {name} ")).split("|")]
        assert cells[2] == str(len(costs.model))
        assert float(cells[3].replace(",", "")) == pytest.approx(costs.model.parameter_bytes.sum() / 2e6, abs=0.06)
        assert [float(cells[6]), float(cells[8])] == pytest.approx(
            [costs.forward(kind).sum() * 1e3 for kind in KINDS], abs=0.006
        )
