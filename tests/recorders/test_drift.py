"""Drift: how much longer layers take than in an earlier trace of the same layers."""

from dataclasses import replace

import pytest

import pipesim as ps
from pipesim.recorders.drift import drift_of


@pytest.fixture(scope="module")
def trace():
    return ps.load_trace("gpt-small-cpu")


def scaled(trace, factor):
    times = {name: trace.layers[name] * factor for name in ("forward_s", "backward_s")}
    return replace(trace, layers=trace.layers | times)


@pytest.mark.parametrize(("factor", "is_large"), [(1.0, False), (1.04, False), (1.06, True), (0.94, True)])
def test_drift_is_that_of_all_layers(trace, factor, is_large):
    found = drift_of(trace, scaled(trace, factor))
    assert found.change == pytest.approx(factor - 1)
    assert found.is_large == is_large
    assert f"{factor - 1:+.1%}" in str(found)


def test_other_layers_have_no_drift(trace):
    assert drift_of(trace, ps.load_trace("vgg-small-cpu")) is None
