from dataclasses import replace

import numpy as np

from helpers.recorded_runs import pipelined
from pipesim.analysis import run_summary
from pipesim.core.recorded_run import ClockQuality, RunLayout
from pipesim.display import text
from pipesim.studies import run_replay


def test_a_run_is_described_by_its_layout_steps_and_what_is_missing():
    shown = text.recorded_run(run_summary.summary(pipelined(RunLayout(3, 2), 4, 3)))
    assert "PP 3, DP 2, 4 microbatches per replica" in shown
    assert "3, 1 to 3\n" in shown
    assert "one for all ranks" in shown
    assert "bytes of" in shown


def test_what_computations_alone_lack_is_stated():
    run = pipelined(RunLayout(2), 4, 1)
    shown = text.recorded_run(run_summary.summary(run.select(run.is_computation)))
    assert "missing       sends and receives, the optimizer" in shown


def test_clocks_are_stated_with_their_doubt_drift_and_impossible_times():
    run = pipelined(RunLayout(2), 2, 1)
    clock = ClockQuality("aligned", np.array([0, 30_000]), np.array([0.0, 5e-6]), 7, 4_000_000)
    shown = text.recorded_run(run_summary.summary(replace(run, clock=clock)))
    assert "to 30.00 us, drift at most 5.0 us/s; as recorded, 7 inputs are read before they are there" in shown
    assert "4.000 ms at most" in shown
    separate = ClockQuality("separate", np.zeros(2, np.int64), np.full(2, np.nan))
    assert "cannot be compared" in text.recorded_run(run_summary.summary(replace(run, clock=separate)))


def test_a_replay_has_a_row_for_each_step_and_two_for_each_rank():
    data = run_replay.comparison(run_replay.replayed(pipelined(RunLayout(2, 2), 3, 2)))
    shown = text.replayed_run(data)
    assert shown.count("+0.000 %") >= 2
    assert shown.count("simulated  ") >= 4
    assert "rank 3" in shown
    assert "one f one b" in shown


def test_of_many_steps_and_ranks_the_rest_is_counted():
    data = run_replay.comparison(run_replay.replayed(pipelined(RunLayout(2, 13), 2, 14)))
    shown = text.replayed_run(data)
    assert "… 2 more" in shown
    assert shown.count("… 2 more") == 2
