from dataclasses import replace

import numpy as np
import pytest

from helpers.recorded_runs import pipelined
from pipesim.analysis import run_summary
from pipesim.core.recorded_run import BACKWARD, FORWARD, SEND_GRADIENT, RunLayout


@pytest.fixture(scope="module")
def run():
    return pipelined(RunLayout(3, 2), microbatches=4, steps=3)


def test_a_whole_run_misses_nothing(run):
    found = run_summary.summary(run)
    assert (found["pp"], found["dp"], found["ranks"], found["microbatches"], found["step_count"]) == (3, 2, 6, 4, 3)
    missing = found["missing"]
    assert not any(missing[name] for name in ("ranks", "forwards", "backwards", "unmatched_messages"))
    assert missing["incomplete_steps"] == []
    assert missing["has_messages"]
    assert missing["has_optimizer"]
    assert found["step_s"]["least"] <= found["step_s"]["median"] <= found["step_s"]["most"]
    assert found["kinds"]["forward"] == 3 * 2 * 4 * 3


def test_what_is_lost_is_counted_with_its_steps(run):
    lost = np.zeros(len(run), bool)
    lost[np.flatnonzero((run.step == 1) & (run.kind == FORWARD))[0]] = True
    lost[np.flatnonzero((run.step == 2) & (run.kind == BACKWARD))[:2]] = True
    lost[np.flatnonzero(run.kind == SEND_GRADIENT)[0]] = True
    found = run_summary.missing(run.select(~lost))
    assert (found["forwards"], found["backwards"]) == (1, 2)
    assert found["incomplete_steps"] == [2, 3]


def test_computed_seconds_are_those_of_forwards_and_backwards(run):
    rows = (run.step == 1) & (run.rank == 4) & run.is_computation
    assert run_summary.computed(run)[1, 4] == pytest.approx((run.end - run.start)[rows].sum() / 1e9)


def test_a_slow_rank_is_found_although_other_stages_take_longer(run):
    slow = run.is_computation & (run.rank == 0)
    longer = replace(run, end=run.end + np.where(slow, (run.end - run.start) // 2, 0))
    factors = run_summary.slowdowns(longer)
    assert factors[:, 0].min() > 1.1
    assert factors[:, 1:].max() < 1.2
    assert run_summary.summary(longer)["slowest_ranks"][0]["rank"] == 0


def test_a_rank_that_is_alone_at_its_place_is_not_called_slow():
    assert run_summary.summary(pipelined(RunLayout(3), 4, 2))["slowest_ranks"] == []


def test_stages_have_the_median_times_of_a_microbatch():
    found = run_summary.summary(pipelined(RunLayout(2), 4, 1))["stages"]
    assert [(row["stage"], row["forward_s"], row["backward_s"]) for row in found] == [
        (0, 0.01, 0.02),
        (1, 0.011, 0.022),
    ]


def test_clocks_are_described_with_doubt_and_drift(run):
    assert run_summary.clock(run) == {"kind": "shared", "doubt_s": 0, "drift": None, "early": 0, "worst_early_s": 0}
    drifting = replace(run, clock=replace(run.clock, kind="aligned", drift=np.array([0, -2e-6, 1e-6, 0, 0, np.nan])))
    assert run_summary.clock(drifting)["drift"] == 2e-6
