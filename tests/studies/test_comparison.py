"""Planners and schedulers side by side: a row for each pair, and the best of them."""

from dataclasses import replace

import pytest

from helpers.strategies import even_trace
from pipesim.analysis import metrics
from pipesim.base.errors import UnknownNameError
from pipesim.core.cluster import Cluster
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.studies import comparison, loading, results

FLAT = 'flat(4, bandwidth="1GB/s")'


def test_a_comparison_has_a_row_for_each_pair_and_a_failure_stops_nothing():
    rows = list(comparison.compare(even_trace(4), FLAT, ["uniform(stages=9)", "balanced"], ["gpipe", "one_f_one_b"]))
    assert [(row.planner, row.scheduler) for row in rows] == [
        (planner, scheduler) for planner in ("uniform(stages=9)", "balanced") for scheduler in ("gpipe", "one_f_one_b")
    ]
    assert [bool(row.error) for row in rows] == [True, True, False, False]
    done = [row for row in rows if row.timeline]
    assert comparison.best(rows).timeline.makespan == min(row.timeline.makespan for row in done)


def test_a_name_that_nobody_has_stops_a_comparison_at_once():
    with pytest.raises(UnknownNameError, match="unknown planner 'ballanced'; did you mean 'balanced'"):
        next(comparison.compare(even_trace(4), FLAT, ["ballanced"]))


def test_the_star_of_a_planner_is_on_the_fastest_schedule_that_fits_or_on_none():
    """The first keeps all microbatches, which is too much here; on the tiny devices nothing fits."""
    trace = "bert-large"
    rooms = [lower(results.make_setup(trace, FLAT, "uniform", name, 8)) for name in ("gpipe", "one_f_one_b")]
    most, least = (int(metrics.peak_memory(by_name.run(program)).max()) for program in rooms)
    cluster = loading.load_cluster(FLAT)
    small = replace(cluster, devices=tuple(replace(device, memory=(most + least) // 2) for device in cluster.devices))
    rows = list(comparison.compare(trace, small, ["uniform"], ["gpipe", "one_f_one_b", "zb_2p"], 8))
    assert [row.as_data()["fits_memory"] for row in rows][:2] == [False, True]
    (star,) = [row for row, starred in zip(rows, comparison.starred(rows), strict=True) if starred]
    assert star.as_data()["fits_memory"]
    tiny = replace(cluster, devices=tuple(replace(device, memory=1) for device in cluster.devices))
    assert not any(comparison.starred(list(comparison.compare(trace, tiny, ["uniform"], ["gpipe"], 8))))


def test_what_fits_in_memory_is_better_than_what_is_fast():
    small = Cluster("small", tuple(loading.load_cluster(FLAT).devices[:1]))
    assert small.devices[0].memory > 0
    rows = list(comparison.compare(even_trace(4, parameter_bytes=10**10), small, ["uniform"], ["gpipe"]))
    assert not rows[0].as_data()["fits_memory"]
    assert comparison.best(rows) is rows[0], "if none fits the fastest is named all the same"


def test_each_schedule_of_a_comparison_is_sent_as_its_framework_sends_it():
    """All were sent as 1F1B is, so that interleaved ones waited for each other for ever."""
    fields = {"pipeline": 4, "framework": "megatron"}
    rows = list(comparison.compare(even_trace(8), FLAT, (), ["1F1B", "interleaved(chunks=2)"], **fields))
    assert [(row.planner, row.error) for row in rows] == [("megatron", "")] * 2
    assert [row.result.setup.options.transfers for row in rows] == ["blocking", "eager"]
