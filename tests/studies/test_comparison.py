"""Planners and schedulers side by side: a row for each pair, and the best of them."""

import json
from dataclasses import replace
from functools import partial

import pytest

from helpers.strategies import even_trace
from pipesim.analysis import metrics
from pipesim.base import serialisation
from pipesim.base.errors import UnknownNameError
from pipesim.core.cluster import Cluster
from pipesim.core.members import SchedulerInfo
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.planners.balanced import balanced
from pipesim.planners.uniform import uniform
from pipesim.schedulers.zb_v import zb_v
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


def test_files_functions_plans_and_schedules_are_compared_as_names_are(tmp_path):
    trace = even_trace(8)
    plan = results.make_plan(trace, FLAT, "balanced", 8)
    serialisation.save(plan, tmp_path / "plan.json")
    made = results.make_setup(trace, FLAT, "balanced", "zb_v", 8)
    made.schedule.save(tmp_path / "mine.csv")
    planners = ["balanced", balanced, partial(uniform, stages=4), plan, str(tmp_path / "plan.json")]
    schedulers = ["zb_v", str(tmp_path / "mine.csv"), made.schedule]
    rows = list(comparison.compare(trace, FLAT, planners, schedulers, 8))
    assert [row.planner for row in rows[::3]] == [
        "balanced",
        "balanced",
        "uniform(stages=4)",
        plan.planner,
        planners[4],
    ]
    assert [row.scheduler for row in rows[:3]] == ["zb_v", schedulers[1], "Schedule"]
    assert not any(row.error for row in rows)
    assert len({row.timeline.makespan for row in rows}) == 1, "a table of two chunks is given a plan of two chunks"
    json.dumps([row.as_data() for row in rows])


def test_a_function_may_declare_where_its_stages_are_as_built_in_schedulers_do():
    @SchedulerInfo(layout="wave", chunks=2)
    def mine(plan, costs, cluster):
        assert [len(stages) for stages in plan.chunks] == [2] * 4
        return zb_v(plan, costs, cluster)

    rows = list(comparison.compare(even_trace(8), FLAT, ["balanced"], [mine, "zb_v"], 8))
    assert rows[0].timeline.makespan == rows[1].timeline.makespan


def test_a_comparison_simulates_each_row_once_and_only_when_it_is_asked_for():
    found = comparison.compare(even_trace(4), FLAT, ["balanced", "uniform(stages=9)"], ["gpipe", "one_f_one_b"])
    assert repr(found).endswith("0 rows simulated, 0 of them failed")
    first = next(found)
    assert repr(found).endswith("1 rows simulated, 0 of them failed")
    assert [row is first for row in found] == [True, False, False, False]
    assert found[0] is first
    assert len(found) == 4
    assert next(found) is found[1]
    assert found.best is comparison.best(found.rows)
    frame = found.frame()
    assert frame["iteration_time_s"].tolist()[:2] == [row.result.iteration_time for row in found.rows[:2]]
    assert frame["error"].notna().tolist() == [False, False, True, True]


def test_a_comparison_is_drawn_as_bars(tmp_path):
    comparison.compare(even_trace(4), FLAT, ["balanced"], ["gpipe"]).plot(tmp_path / "bars.svg")
    assert (tmp_path / "bars.svg").stat().st_size > 1000
