"""All-reduces: a ring per replicated stage, and what waits for it."""

import numpy as np

from helpers.networks import pipeline
from helpers.small_programs import replicated
from pipesim.core.program import ALL_REDUCE, OPTIMIZER
from pipesim.engines.event import run
from pipesim.lowering.reductions import in_ring
from pipesim.studies.loading import load_cluster


def test_a_ring_enters_each_node_once_whatever_the_order_of_the_replicas():
    cluster = load_cluster('servers(2, 3, intra="25GB/s", inter="1GB/s")')
    names = [device.name for device in cluster.devices]
    mixed = [names[i] for i in (4, 0, 5, 2, 1, 3)]
    assert in_ring(mixed, cluster) == [names[i] for i in (4, 5, 3, 0, 2, 1)]
    assert in_ring(names, cluster) == names


def test_an_all_reduce_is_a_ring_with_2_k_minus_1_k_ths_of_the_bytes_and_2_k_minus_1_latencies():
    program = replicated(latency=5e-9)
    ring = (program.kind == ALL_REDUCE) & (program.stage == 0)
    assert program.size[ring].tolist() == [2 * 2 / 3 * 900] * 3
    assert program.delay[ring].tolist() == [2 * 2 * 10] * 3
    edges = list(zip(program.source[ring].tolist(), program.target[ring].tolist(), strict=True))
    assert edges == [(0, 1), (1, 2), (2, 0)]


def test_an_all_reduce_begins_when_the_last_backward_of_all_replicas_has_ended():
    timeline = run(replicated(sharing="none"))
    program = timeline.program
    for stage in (0, 1):
        ring = (program.kind == ALL_REDUCE) & (program.stage == stage)
        last = timeline.end[program.is_compute & (program.stage == stage)].max()
        assert set(timeline.start[ring]) == {last}


def test_a_stage_on_one_device_reduces_nothing():
    program = pipeline([1, 1], [1, 1], 2, "gpipe", hop_bytes=[1])
    assert not (program.kind == ALL_REDUCE).any()


def test_the_optimizer_steps_when_gradients_are_complete():
    timeline = run(replicated(sharing="none", optimizer_s_per_byte=1e-9))
    program = timeline.program
    steps = np.flatnonzero(program.kind == OPTIMIZER)
    assert program.duration[steps].tolist() == [900] * 5
    for step in steps:
        ring = (program.kind == ALL_REDUCE) & (program.stage == program.stage[step])
        assert timeline.start[step] == timeline.end[ring].max()


def test_whole_replicas_that_no_microbatch_reaches_still_reduce():
    timeline = run(replicated("whole", microbatches=1))
    timeline.verify()
    assert (timeline.program.kind == ALL_REDUCE).sum() == 5
