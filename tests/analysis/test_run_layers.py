"""Layers of recorded stages: what they take is known where the run was made from such layers."""

import numpy as np
import pytest

from helpers import recorded_runs
from helpers.small_traces import trace_of
from pipesim.analysis.run_layers import equal_layers, layers_of_trace
from pipesim.analysis.run_variance import ComputingTimes
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import BACKWARD, FORWARD, RunLayout

MS = 1e6


def times(*forwards):
    """One step of a run of stages with forwards of so many ms, and backwards of twice that."""
    layout = RunLayout(len(forwards))
    return ComputingTimes.of(recorded_runs.pipelined(layout, 2, 1, forwards=list(forwards)))


def test_the_first_and_the_last_layer_have_what_is_beyond_the_blocks():
    layers = equal_layers(times(12, 30, 20, 17), (1, 3, 2, 1))
    assert layers.ns[FORWARD] == pytest.approx(MS * np.array([12, 10, 10, 10, 10, 10, 17]))
    assert layers.ns[BACKWARD] == pytest.approx(2 * layers.ns[FORWARD])
    assert layers.assumption == (
        "layers are alike: 30 ms each, forward and backward; the first stage takes 6 ms and the last 21 ms beyond its "
        "layers"
    )


def test_of_two_stages_the_block_is_that_of_the_faster_one():
    assert equal_layers(times(20, 27), (2, 2)).ns[FORWARD] == pytest.approx(MS * np.array([10, 10, 10, 17]))
    assert equal_layers(times(27, 20), (2, 2)).ns[FORWARD] == pytest.approx(MS * np.array([17, 10, 10, 10]))


def test_the_ratio_of_the_recorded_cut_is_one_and_of_another_that_of_its_layers():
    layers = equal_layers(times(20, 20, 24), (2, 2, 2))
    assert (layers.ratio((2, 2, 2)) == 1).all()
    assert layers.ratio((3, 2, 1))[FORWARD] == pytest.approx([1.5, 1, 14 / 24])


def test_layers_of_a_trace_take_together_what_the_run_took():
    trace = trace_of(forward_s=[1.0, 2.0], backward_s=[3.0, 1.0])
    layers = layers_of_trace(times(12, 18), (1, 1), trace)
    assert layers.ns[FORWARD] == pytest.approx(MS * np.array([10, 20]))
    assert layers.ns[BACKWARD] == pytest.approx(MS * np.array([45, 15]))
    assert (layers.ns[2:] == 0).all()  # the run has no parts of backwards


def test_costs_have_the_layers_in_seconds_and_halves_of_backwards_as_parts():
    costs = equal_layers(times(10, 10), (1, 1)).costs()
    assert costs.forward("a100") == pytest.approx([0.01, 0.01])
    assert costs.seconds("backward_weight", "a100") == pytest.approx([0.01, 0.01])
    assert costs.seconds("backward_input", "a100") == pytest.approx([0.01, 0.01])


def test_a_trace_of_several_kinds_of_devices_is_refused():
    trace = trace_of(
        layer=[0, 1, 0, 1], name=["a", "b"] * 2, device_kind=["x", "x", "y", "y"], forward_s=[1.0] * 4,
        backward_s=[1.0] * 4, output_bytes=[1] * 4,
    )  # fmt: skip
    with pytest.raises(InputError, match="has times for x, y; times for one kind of device were expected"):
        layers_of_trace(times(10, 10), (1, 1), trace)
