"""What a stage and a channel add, by their formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import jobs
from pipesim.analysis.bounds.islands import Network, island_model
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import ChannelColumns, by_island
from pipesim.analysis.bounds.transition import (
    AHEAD,
    ANY,
    BACK,
    HERE,
    channel_step,
    crossing,
    enough_from,
    place_step,
    stage_step,
)


def setting(job, replicas):
    """Sums over layers, and moves over two islands or one."""
    label = np.arange(len(job.cluster.devices)) % 2
    model = island_model(Network(job.cluster), label)
    count = job.plan.microbatches
    return layer_sums(job.costs, job.cluster, count, replicas), by_island(model, replicas, count)


@settings(max_examples=25)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.data())
def test_a_stage_takes_what_its_layers_take(job, replicas, data):
    sums, moves = setting(job, replicas)
    p = data.draw(st.integers(0, len(moves.size) - 1))
    layers = len(sums.cut) - 1
    begin = data.draw(st.integers(0, layers - 1))
    end = data.draw(st.integers(begin + 1, layers))
    step, k = stage_step(sums.seconds, sums.parameters, place_step(sums, moves, p), begin, end), moves.size[p]
    assert step.work == sums.work[k, end] - sums.work[k, begin]
    assert step.both == pytest.approx(step.forward + step.backward)
    assert (step.forwards, step.backwards) == (sums.most[k] * step.forward, sums.most[k] * step.backward)
    assert step.ends == max(step.forward + step.backwards, step.forwards + step.backward)
    assert step.weights == sums.parameters[end] - sums.parameters[begin]
    reduce = moves.ring[p] * step.weights + moves.ring_latency[p]
    assert step.reduce == (reduce if step.weights else 0.0)


@settings(max_examples=25)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.floats(0, 1e9))
def test_a_channel_takes_its_seconds_per_byte_and_its_delay(job, replicas, cut):
    _, moves = setting(job, replicas)
    channels = ChannelColumns(*moves.channel.T, *np.moveaxis(moves.loads, 2, 0))
    for m in range(len(moves.place)):
        step = channel_step(moves.channel, m, cut)
        assert step.delay == channels.delay[m]
        for name in ("forward", "backward", "forward_min", "backward_min", "round_trip", "load"):
            assert getattr(step, name) == cut * getattr(channels, name)[m]
        assert step.forward_min <= step.forward
        assert step.backward_min <= step.backward
        for g in range(moves.loads.shape[1]):
            ahead, back, here, both = (crossing(moves.loads, m, g, way, cut) for way in (AHEAD, BACK, HERE, ANY))
            assert (ahead, back) == (cut * channels.forward_load[m, g], cut * channels.backward_load[m, g])
            assert (here, both) == (ahead, ahead + back)


@settings(max_examples=25)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.floats(0, 2))
def test_devices_are_enough_from_the_first_layer_on_whose_work_they_can_do(job, replicas, share):
    sums, _ = setting(job, replicas)
    target = share * float(sums.area[0])
    for v, found in enumerate(enough_from(sums, target).tolist()):
        assert sums.area[found] <= v * target
        assert found == 0 or sums.area[found - 1] > v * target
