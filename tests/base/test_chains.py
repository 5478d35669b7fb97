"""Chains on chains: the same cuts as by the table of all pairs of cuts, without that table."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.base.chains import chains_on_chains


def by_table(work):
    """The recurrence as it is written, with a layers x layers table for each stage: the first of equal cuts wins."""
    stages, layers = work.shape
    before = np.concatenate([np.zeros((stages, 1)), np.cumsum(work, axis=1)], axis=1)
    best = np.where(np.arange(layers + 1) >= 1, before[0], np.inf)
    starts = [np.zeros(layers + 1, np.int64)]
    begins_earlier = np.arange(layers + 1)[:, None] < np.arange(layers + 1)
    for stage in range(1, stages):
        seconds = before[stage][None, :] - before[stage][:, None]
        slowest = np.where(begins_earlier, np.maximum(best[:, None], seconds), np.inf)
        starts.append(np.argmin(slowest, axis=0))
        best = slowest.min(axis=0)
    bounds = [layers]
    for stage in range(stages - 1, -1, -1):
        bounds.append(int(starts[stage][bounds[-1]]))
    return bounds[::-1], float(best[layers])


SECONDS = {
    "few values, so that cuts tie": st.integers(0, 3).map(float),
    "roundings": st.sampled_from([0.0, 0.1, 0.2, 0.3]),
    "layers that suit one stage alone": st.sampled_from([0.0, 1e-3, 1.0, 1e9]),
    "any": st.floats(0, 10),
}


@pytest.mark.parametrize("name", SECONDS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_cuts_and_bottleneck_are_those_of_the_table_bit_for_bit(name, data):
    layers = data.draw(st.integers(1, 20))
    stages = data.draw(st.integers(1, layers))
    rows = st.lists(SECONDS[name], min_size=layers, max_size=layers)
    work = np.array(data.draw(st.lists(rows, min_size=stages, max_size=stages)))
    assert chains_on_chains(work) == by_table(work)


def test_cuts_of_many_layers_are_those_of_the_table():
    rng = np.random.default_rng(0)
    for layers, stages in ((63, 8), (64, 8), (65, 64), (300, 7)):
        work = rng.random((stages, layers))
        assert chains_on_chains(work) == by_table(work)


def test_a_hundred_thousand_layers_take_megabytes():
    """The table of them took 74.5 GiB, under the default planner."""
    work = [np.random.default_rng(0).random(100_000)] * 8
    tracemalloc.start()
    bounds, slowest = chains_on_chains(work)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6
    assert len(bounds) == 9
    assert slowest == pytest.approx(work[0].sum() / 8, rel=1e-3)
