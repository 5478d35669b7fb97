"""Sums over layers, against one layer after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters, traces
from pipesim.analysis.bounds.layer_sums import BACKWARD, BOTH, FORWARD, WORK, both_ways, kinds_of, layer_sums
from pipesim.core.costs import costs_of


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 9), st.sampled_from(["split", "whole"]))
def test_every_prefix_has_the_sum_of_its_layers(trace, cluster, microbatches, replicas):
    costs = costs_of(trace)
    sums, layers = layer_sums(costs, cluster, microbatches, replicas), len(costs.model)
    for k in range(1, len(cluster.devices) + 1):
        share = 1 / k if replicas == "split" else 1.0
        both = np.min([both_ways(costs, kind, share) for kind in kinds_of(cluster)], axis=0)
        forward = np.min([costs.forward(kind, share) for kind in kinds_of(cluster)], axis=0)
        turns = microbatches if replicas == "split" else -(-microbatches // k)
        assert sums.most[k] == turns
        for l in range(layers + 1):  # noqa: E741 - the letter of the formulas
            assert sums.seconds[k, l, FORWARD] == pytest.approx(forward[:l].sum())
            assert sums.seconds[k, l, WORK] == pytest.approx(turns * both[:l].sum())
            assert sums.seconds[k, l, BOTH] <= both[:l].sum() * (1 + 1e-12)
            parts = sums.seconds[k, l, FORWARD] + sums.seconds[k, l, BACKWARD]
            assert sums.seconds[k, l, BOTH] == pytest.approx(parts)


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 9))
def test_whole_microbatches_add_up_over_their_replicas(trace, cluster, microbatches):
    sums = layer_sums(costs_of(trace), cluster, microbatches, "whole")
    for k in range(1, len(cluster.devices) + 1):
        many, most = sums.with_most[k], sums.most[k]
        assert 1 <= many <= k
        assert many * most + (k - many) * (most - 1) == microbatches


@settings(max_examples=30)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 9), st.data())
def test_some_of_the_prefixes_are_those_of_all(trace, cluster, microbatches, data):
    sums = layer_sums(costs_of(trace), cluster, microbatches, "split")
    layers = np.array(sorted(data.draw(st.sets(st.integers(0, len(sums.cut) - 1), min_size=1))))
    few = sums.at(layers)
    assert np.array_equal(few.work, sums.work[:, layers])
    assert np.array_equal(few.both, sums.both[:, layers])
    assert np.array_equal(few.rest, sums.rest[:, layers])
    assert np.array_equal(few.cut, sums.cut[layers])
    assert np.array_equal(few.area, sums.area[layers])
    assert few.late is sums.late
