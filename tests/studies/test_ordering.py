"""Schedules come from names, functions, values and files."""

import pytest

from helpers.strategies import even_trace
from pipesim.base.errors import ScheduleError
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


def short(plan, costs, cluster):  # noqa: ARG001 - as schedulers are called
    return Schedule.of([[(0, 0, 0), (0, 1, 0)]])


def test_a_schedule_that_is_not_of_the_plan_is_refused_by_the_name_of_what_made_it(tmp_path):
    """In a comparison of several nobody knew whose schedule was wrong."""
    (tmp_path / "one.csv").write_text("0F0,0B0\n")
    for scheduler, name in (
        (f"{__name__}:short", f"scheduler '{__name__}:short'"),
        (str(tmp_path / "one.csv"), "one.csv'"),
    ):
        with pytest.raises(ScheduleError, match=rf"{name}: 1 ranks found; 2 were expected"):
            results.simulate(
                "bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", scheduler=scheduler, microbatches=1
            )
