"""Schedules come from names, functions, values and files."""

from helpers.strategies import even_trace
from pipesim.core.schedule import Schedule
from pipesim.schedulers.gpipe import gpipe
from pipesim.studies import results

FLAT = 'flat(4, bandwidth="1GB/s")'


def test_a_schedule_comes_from_a_name_a_function_a_value_or_a_file(tmp_path):
    case = results.make_setup(even_trace(4), FLAT, "balanced", "gpipe", 4)
    case.schedule.save(tmp_path / "s.csv")
    case.schedule.save(tmp_path / "s.json")
    for scheduler in (gpipe, gpipe(case.plan), str(tmp_path / "s.csv"), str(tmp_path / "s.json")):
        assert results.make_setup(even_trace(4), FLAT, case.plan, scheduler).schedule == case.schedule
    assert isinstance(case.schedule, Schedule)
