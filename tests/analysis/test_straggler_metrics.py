"""Published straggler metrics: by hand on small runs; on the jobs that they were published with, to 1 in 10,000."""

import csv
import dataclasses

import numpy as np
import pytest

from helpers import recorded_runs
from helpers.places import DATA, needs_data
from pipesim.analysis.straggler_metrics import straggler_metrics
from pipesim.core.recorded_run import RunLayout
from pipesim.engines.compiled import makespans
from pipesim.importers.run_opening import open_run

JOBS = DATA / "measured" / "straggler"
PUBLISHED = {"forward-pp-comm": "forward messages", "backward-pp-comm": "backward messages"}


def metrics_of(run):
    return straggler_metrics(run, makespans)


def test_a_run_without_stragglers_is_not_slowed_down():
    run = recorded_runs.pipelined(RunLayout(1, 2), microbatches=3, steps=1)
    found = metrics_of(run)
    assert found.slowdown == pytest.approx(1)
    assert found.by_replica == {0: pytest.approx(1), 1: pytest.approx(1)}
    assert found.last_stage.part == 0


def test_a_slow_replica_is_the_slowdown_and_the_worst_rank():
    run = recorded_runs.pipelined(RunLayout(1, 4), microbatches=3, steps=2)
    slow = run.is_computation & (run.replica[run.rank] == 2)
    length = (run.end - run.start) * np.where(slow, 2, 1)
    assert slow.any()
    end = run.start + length
    # The collective and what follows begin when the slow rank is done.
    after = ~run.is_computation
    shift = np.where(after, int(length[slow].sum() / 4), 0)
    run = dataclasses.replace(run, start=run.start + shift, end=end + shift)
    order = np.lexsort((run.end, run.start, run.rank, run.step))
    assert np.array_equal(order, np.arange(len(run)))
    found = metrics_of(run)
    assert max(found.by_replica, key=found.by_replica.get) == 2
    assert found.worst_ranks.ranks == (2,)
    assert found.worst_ranks.part > 0.9
    assert found.slowdown > 1.2
    assert next(iter(found.as_data()["by_replica"])) == "2"


@pytest.mark.parametrize("job", ["SE", "ST"])
def test_metrics_of_published_jobs_are_those_published_with_them(job):
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    run = open_run([needs_data(JOBS / f"trace-{job}.parquet")])
    found = metrics_of(run)
    single = {
        "launch_slowdown": found.launch_slowdown,
        "blocking_slowdown": found.slowdown,
        "ms.trem": found.last_stage.removed_s,
        "ms.tadd": found.last_stage.added_s,
        "ms.Ms": found.last_stage.part,
        "ms.rem": found.last_stage.part,
        "ms.tori": found.without_gaps_s,
        "ms.tideal": found.ideal_s,
        "mw.tori": found.without_gaps_s,
        "mw.tideal": found.ideal_s,
        "mw.trem": found.worst_ranks.removed_s,
        "mw.tadd": found.worst_ranks.added_s,
        "mw.rem": found.worst_ranks.part,
        "mw.Mw": found.worst_ranks.part,
    }
    checked = 0
    with (JOBS / "whatif.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["job"] == job]
    for row in rows:
        metric, key, expected = row["metric"], row["key"], float(row["value"])
        if metric.startswith("blocking_decompose_by_"):
            groups = {"dp_rank": found.by_replica, "stage": found.by_stage, "optype": found.by_operation}
            by = groups[metric.removeprefix("blocking_decompose_by_")]
            value = by[PUBLISHED.get(key, key) if by is found.by_operation else int(key)]
        elif metric in single:
            value = single[metric]
        else:  # the added part, which follows from mean steps that are compared
            continue
        assert value == pytest.approx(expected, rel=1e-4), f"{metric} {key}"
        checked += 1
    assert checked == len(rows) - 2
