"""Two schedules side by side."""

from pipesim.analysis.schedule_diff import differences
from pipesim.core.schedule import parse


def test_equal_schedules_have_no_first_difference():
    table = parse("0F0,0B0\n1F0,1B0")
    assert [(one.first, one.moved) for one in differences(table, table)] == [(None, 0), (None, 0)]


def test_the_first_difference_of_each_rank_and_what_moved_are_found():
    here = parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1")
    there = parse("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1")
    same, changed = differences(here, there)
    assert same.first is None
    assert (changed.first, changed.here, changed.there, changed.moved) == (1, "1B0", "1F1", 2)
    assert changed.only_here == changed.only_there == ()


def test_actions_and_ranks_that_one_schedule_alone_has_are_named():
    one, other = differences(parse("0F0,0B0"), parse("0F0,0I0,0W0\n1F0,1B0"))
    assert (one.first, one.here, one.there) == (1, "0B0", "0I0")
    assert (one.only_here, one.only_there) == (("0B0",), ("0I0", "0W0"))
    assert (other.first, other.here, other.there) == (0, "", "1F0")
