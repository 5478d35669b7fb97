"""The traces that were recorded and come with pipesim: whole, quiet, and of the models that their page names."""

import numpy as np
import pytest

from helpers.places import ROOT
from pipesim.architectures import ARCHITECTURES
from pipesim.base import lookup
from pipesim.core.costs import costs_of
from pipesim.core.model import model_of
from pipesim.core.trace import Trace
from pipesim.recorders.noise import noise

FOLDER = ROOT / "traces" / "recorded-cpu"
NAMES = ("gpt-small-cpu", "vgg-small-cpu")
GPT = 'gpt(8, 256, 8, vocabulary=8192, sequence=128, microbatch=4, precision="fp32")'


def load(name):
    if not (FOLDER / name).exists():
        pytest.skip(f"{name} is not recorded yet; traces/recorded-cpu/README.md explains how")
    return Trace.load(FOLDER / name)


@pytest.fixture(params=NAMES)
def trace(request):
    return load(request.param)


def test_a_recorded_trace_has_all_that_the_recorder_measures(trace):
    """Three sizes of microbatch, two passes of eight each, every sample of every layer."""
    assert trace.source == "recorded"
    assert trace.device_kinds == ("cpu",)
    sizes = np.unique(trace.layers["microbatch_size"])
    assert len(sizes) == 3
    assert len(trace.layers["layer"]) == 3 * 16 * trace.layer_count
    for name in ("forward_s", "backward_s", "forward_flops"):
        assert not np.isnan(trace.layers[name]).any()
    for name in ("backward_first_s", "backward_input_s", "backward_weight_s", "recompute_s"):
        assert np.isnan(trace.layers[name]).mean() < 0.1, "most of it could be measured"
    assert {step.name for step in trace.optimizers} == {"sgd", "sgd_momentum", "adamw"}


def test_a_recorded_trace_says_how_it_was_made_and_its_page_says_the_same(trace):
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert trace.command.startswith("pipesim record models:")
    assert trace.command in page
    assert trace.machine in page
    assert "/" not in trace.command.partition(" -o ")[2], "no path of the machine"


def test_the_page_says_what_was_measured(trace):
    """Seconds of a microbatch and the noise of its layers, as the trace has them."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    for size in np.unique(trace.layers["microbatch_size"]).tolist():
        cells = next(
            [cell.strip() for cell in line.split("|")[1:-1]]
            for line in page
            if line.startswith(f"| {trace.model} | {size} |")
        )
        layers = [one for one in noise(trace) if one.microbatch_size == size]
        forward, backward = sum(one.forward_s for one in layers), sum(one.backward_s for one in layers)
        scatter = sum(one.forward_mad_s + one.backward_mad_s for one in layers) / (forward + backward)
        assert [float(cell) for cell in cells[2:5]] == pytest.approx(
            [1e3 * forward, 1e3 * backward, 100 * scatter], abs=0.006
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_trace_is_small(name):
    load(name)
    assert sum(path.stat().st_size for path in (FOLDER / name).iterdir()) < 200_000


def test_samples_of_a_recorded_trace_scatter_little(trace):
    layers = noise(trace)
    whole = sum(one.forward_s + one.backward_s for one in layers)
    assert sum(one.forward_mad_s + one.backward_mad_s for one in layers) < 0.05 * whole


def test_the_parts_of_a_backward_add_up_to_about_the_whole(trace):
    costs = costs_of(trace)
    parts = costs.seconds("backward_input", "cpu") + costs.seconds("backward_weight", "cpu")
    assert parts.sum() == pytest.approx(costs.backward("cpu").sum(), rel=0.25)
    assert costs.seconds("recompute", "cpu").sum() == pytest.approx(costs.forward("cpu").sum(), rel=0.25)


def test_the_recorded_gpt_has_the_layers_parameters_and_products_of_the_architecture():
    """FLOPs are those of matrix products; norms, sums and look-ups, which the architecture counts too, are few."""
    recorded, described = (
        model_of(load("gpt-small-cpu")),
        lookup.call(GPT, ARCHITECTURES, "architecture"),
    )
    assert [layer.name for layer in recorded.layers] == [layer.name for layer in described.layers]
    assert recorded.parameter_bytes.tolist() == described.parameter_bytes.tolist()
    assert recorded.forward_flops == pytest.approx(described.forward_flops, rel=0.01)
    assert [layer.output_bytes for layer in recorded.layers[:-1]] == [
        layer.output_bytes for layer in described.layers[:-1]
    ]
