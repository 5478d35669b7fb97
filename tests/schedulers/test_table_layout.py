"""Schedules from tables: where their stages are."""

import pytest

from pipesim.base.errors import ScheduleError
from pipesim.core import legality
from pipesim.core.schedule import parse
from pipesim.schedulers.layouts import has_layout
from pipesim.schedulers.table_layout import layout_of, plan_of_table, ranks_of_stages
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

LAYOUTS = {
    "gpipe": ("straight", 1),
    "interleaved": ("loop", 2),
    "zb_v": ("wave", 2),
    "hanayo(waves=2)": ("wave", 4),
    "dualpipe": ("both", 1),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_of_a_table_is_that_of_the_scheduler_that_made_it(name):
    made = equal_stages.setup(name, 4, 8, Times())
    assert layout_of(made.schedule) == LAYOUTS[name]
    plan, schedule = plan_of_table(made.schedule)
    assert has_layout(plan, LAYOUTS[name][0])
    assert schedule == made.schedule
    legality.check(schedule, plan)


def test_rows_of_a_table_in_another_order_keep_their_ranks():
    plan, schedule = plan_of_table(parse("1F0,1B0\n0F0,0B0"))
    assert plan.devices == ("rank1", "rank0")
    assert str(schedule) == "0F0,0B0\n1F0,1B0"
    assert layout_of(parse("1F0,1B0\n0F0,0B0")) is None


def test_the_ranks_of_a_stage_are_in_the_order_of_its_microbatches():
    assert ranks_of_stages(parse("0F1,0B1\n0F0,0B0")) == [(1, 0)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (",", "a table without actions"),
        ("1F0,1B0", "stage 0: no forward found"),
        ("0F0,0B0\n,", "rank 1: no forward found"),
    ],
)
def test_a_table_without_a_pipeline_is_refused(table, message):
    with pytest.raises(ScheduleError, match=message):
        plan_of_table(parse(table))
