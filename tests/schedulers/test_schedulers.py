"""Every scheduler before the one judge, and each against its drawing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.contracts import check_scheduler
from helpers.splits import straight
from helpers.strategies import any_jobs, for_drawn
from pipesim.base import lookup
from pipesim.base.errors import ScheduleError
from pipesim.core.legality import check
from pipesim.core.members import SchedulerInfo, infos
from pipesim.core.plan import Plan, Stage
from pipesim.schedulers import SCHEDULERS
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.one_f_one_b import one_f_one_b, warm_up_depths

DECLARED = infos(SCHEDULERS, "scheduler", SchedulerInfo)
SEARCHES = [name for name, info in DECLARED.items() if info.is_search]


@pytest.mark.parametrize("name", sorted(set(SCHEDULERS) - set(SEARCHES)))
def test_every_scheduler_orders_every_plan_or_says_why_not(name):
    scheduler = lookup.function_named(SCHEDULERS[name], {}, "scheduler")
    for_drawn(any_jobs, 100, lambda job: check_scheduler(scheduler, job.plan, job.costs, job.cluster))


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_orders_every_plan_or_says_why_not(name):
    scheduler = lookup.function_named(SCHEDULERS[name], {}, "scheduler")
    for_drawn(any_jobs, 12, lambda job: check_scheduler(scheduler, job.plan, job.costs, job.cluster))


def test_gpipe_does_all_forwards_then_all_backwards():
    assert str(gpipe(straight(2, 3))) == "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2"


def test_gpipe_orders_chunks_forward_and_backward():
    plan = Plan("m", 4, 2, tuple(Stage(n, n + 1, (f"g{n % 2}",)) for n in range(4)))
    assert str(gpipe(plan)).split("\n")[0] == "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1"


def test_1f1b_is_what_its_docstring_draws():
    rows = str(one_f_one_b(straight(4, 6))).split("\n")
    assert rows[0].replace("0F", "F").replace("0B", "B") == "F0,F1,F2,F3,B0,F4,B1,F5,B2,B3,B4,B5"
    assert rows[3].replace("3F", "F").replace("3B", "B") == "F0,B0,F1,B1,F2,B2,F3,B3,F4,B4,F5,B5"


@given(st.integers(1, 6), st.integers(1, 10))
def test_1f1b_never_holds_more_than_its_depth(stages, microbatches):
    for n, row in enumerate(one_f_one_b(straight(stages, microbatches)).rows):
        flying = [sum(1 if cell.kind == 0 else -1 for cell in row[: i + 1]) for i in range(len(row))]
        assert max(flying) == min(stages - n, microbatches)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 12))
def test_1f1b_with_whole_microbatches_on_uneven_replicas_is_always_possible(replication, microbatches):
    plan = straight(len(replication), microbatches, replication, "whole")
    check(one_f_one_b(plan), plan)


def test_equal_pipelines_side_by_side_warm_up_like_one():
    assert warm_up_depths(straight(4, 8, [3, 3, 3, 3], "whole")) == [4, 3, 2, 1]


def test_1f1b_refuses_several_stages_on_a_device():
    plan = Plan("m", 2, 2, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g0",))))
    with pytest.raises(ScheduleError, match="device 'g0' holds several stages"):
        one_f_one_b(plan)
