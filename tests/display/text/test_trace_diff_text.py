"""Differences of two traces as text."""

from dataclasses import replace

import numpy as np

from helpers.small_traces import sampled_trace
from helpers.strategies import even_trace
from pipesim.analysis.trace_diff import diff
from pipesim.display import text


def recorded(seed, *means):
    rng = np.random.default_rng(seed)
    return sampled_trace(*(rng.normal(mean, 0.02 * mean, 12) for mean in means))


def test_the_layer_that_takes_longer_has_its_rows():
    shown = text.difference(diff(recorded(1, 1, 2, 3), recorded(2, 1, 2, 4.5)))
    assert "slower" in next(line for line in shown.splitlines() if line.startswith("2 "))
    assert "1 of 3 layers" in shown


def test_equal_traces_have_only_their_totals():
    trace = even_trace(4)
    lines = text.difference(diff(trace, trace)).splitlines()
    assert sum("all layers" in line for line in lines) == 2
    assert "0 of 4 layers" in lines[1]


def test_changed_sizes_and_removed_layers_are_listed_up_to_a_number():
    trace = even_trace(6)
    layers = dict(trace.layers)
    larger = replace(trace, layers=layers | {"output_bytes": layers["output_bytes"] * 2})
    shown = text.difference(diff(trace, larger), 2)
    assert shown.splitlines()[-1] == "... and 4 more such changes (--all)"
