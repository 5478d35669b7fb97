"""Changes of a recorded run: none where there is nothing to gain, and what theory says where it knows."""

import dataclasses

import numpy as np
import pytest

from helpers import recorded_runs
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import RunLayout
from pipesim.studies.run_whatif import changes


def found(run, **options):
    return {(one.what, one.name): one for one in changes(run, **options)}


@pytest.fixture(scope="module")
def run():
    return recorded_runs.pipelined(RunLayout(2, 2), microbatches=4, steps=3)


def test_the_schedule_that_was_run_changes_nothing_and_gpipe_waits_no_less(run):
    rows = found(run, schedules=[("one_f_one_b", None), ("gpipe", None), ("zb_h1", None)])
    assert rows["schedule", "one_f_one_b"].gain_s == pytest.approx(0, abs=1e-9)
    assert rows["schedule", "zb_h1"].gain_s > 0
    assert rows["schedule", "gpipe"].gain_s <= rows["schedule", "zb_h1"].gain_s


def test_chunks_fill_and_drain_faster(run):
    rows = found(run, schedules=[("interleaved", 2)])
    assert rows["schedule", "interleaved, 2 chunks"].gain_s > 0


def test_a_slow_rank_is_what_helps_most():
    run = recorded_runs.pipelined(RunLayout(1, 4), microbatches=3, steps=2)
    slow = run.is_computation & (run.replica[run.rank] == 2)
    extra = np.where(slow, run.end - run.start, 0)
    later = np.where(run.is_computation, 0, int(extra.sum()))
    before = np.zeros(len(run), np.int64)  # what the slow rank's earlier computations took more
    for step in range(2):
        rows = np.flatnonzero(slow & (run.step == step))
        before[rows] = np.cumsum(extra[rows]) - extra[rows]
    run = dataclasses.replace(run, start=run.start + before + later, end=run.end + before + later + extra)
    rows = found(run)
    ranks = {name: row for (what, name), row in rows.items() if what == "rank"}
    assert max(ranks, key=lambda name: ranks[name].gain_s) == f"{run.ranks[2]} at the mean of its stage"
    assert rows["microbatches", "all alike, on all replicas"].gain_s > 0


def test_faster_messages_save_no_more_than_they_take(run):
    rows = found(run, by=1.0)
    assert 0 <= rows["messages", "100 % faster"].gain < 0.5
    assert rows["collectives", "100 % faster"].gain_s > 0
    assert rows["launch gaps", "none"].gain_s >= 0
    with pytest.raises(InputError, match="by = 0"):
        changes(run, by=0)
