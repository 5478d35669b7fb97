"""The trace of a recorded run has its computing times, joint by microbatch."""

import dataclasses

import numpy as np
import pytest

import pipesim as ps
from helpers import recorded_runs
from pipesim.analysis.run_trace import trace_of_run
from pipesim.core.recorded_run import FORWARD, SEND_ACTIVATION, RunLayout


def test_each_stage_is_a_layer_and_each_microbatch_a_sample(tmp_path):
    run = recorded_runs.pipelined(RunLayout(2, 3), microbatches=4, steps=5)
    trace = trace_of_run(run, "run")
    assert trace.layer_count == 2
    assert trace.samples == "microbatch"
    assert len(trace.layers["layer"]) == 2 * 5 * 3 * 4
    forwards = (run.kind == FORWARD) & (run.stage == 1)
    assert trace.layers["forward_s"][trace.layers["layer"] == 1].sum() == pytest.approx(
        (run.end - run.start)[forwards].sum() / 1e9
    )
    trace.save(tmp_path / "t")
    assert ps.load_trace(tmp_path / "t").same_as(trace)


def test_messages_have_the_bytes_that_were_sent_where_they_are_known():
    run = recorded_runs.pipelined(RunLayout(2, 1), microbatches=2, steps=1)
    assert "transfers take their latency only" in trace_of_run(run, "run").notes[-1]
    sent = np.where(run.kind == SEND_ACTIVATION, 640.0, np.nan)
    known = trace_of_run(dataclasses.replace(run, size=sent), "run")
    assert known.layers["output_bytes"][known.layers["layer"] == 0].tolist() == [640, 640]
    assert len(known.notes) == 1


def test_microbatches_that_lack_a_computation_are_left_out():
    run = recorded_runs.pipelined(RunLayout(2, 1), microbatches=3, steps=2)
    lost = np.arange(len(run)) != np.flatnonzero(run.is_computation)[2]
    assert len(trace_of_run(run.select(lost), "run").layers["layer"]) == 2 * (3 * 2 - 1)


def test_another_schedule_is_simulated_with_its_microbatches():
    run = recorded_runs.pipelined(RunLayout(2, 1), microbatches=3, steps=4)
    result = ps.simulate(
        trace_of_run(run, "run"), 'flat(2, bandwidth="1GB/s")', scheduler="gpipe", microbatches=3, iterations=5
    )
    assert result.as_data()["replay"]["draw"] == "microbatch"
