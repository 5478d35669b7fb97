"""A program's columns fit together, and its file holds all of them."""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from helpers import strategies
from helpers.small_programs import CLUSTER, PLAN, SCHEDULE, pair
from pipesim.base.arrays import Ragged
from pipesim.base.errors import FormatError, InputError
from pipesim.core import program as programs
from pipesim.core.cluster import Link
from pipesim.core.costs import costs_of
from pipesim.core.program import ACTIVATION, BACKWARD, FORWARD, Bucket, Program, check
from pipesim.core.scenario import STEADY, Degraded, Scenario, Slow, Speeds
from pipesim.lowering import Setup, lower


def changed(**columns):
    return dataclasses.replace(pair(), **columns)


def with_row(name, row, value):
    column = getattr(pair(), name).copy()
    column[row] = value
    return changed(**{name: column})


# --- files -----------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(program=strategies.programs)
def test_a_saved_program_loads_exactly_as_it_was(tmp_path_factory, program):
    """Every column of it, with its type; infinite limits; slow devices and degraded links."""
    path = tmp_path_factory.mktemp("program") / "p.json"
    program.save(path)
    again = Program.load(path)
    assert again.same_as(program)
    for field in dataclasses.fields(Program):
        mine, theirs = getattr(program, field.name), getattr(again, field.name)
        assert type(mine) is type(theirs), field.name
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype, field.name


def test_programs_that_differ_in_one_number_are_not_the_same():
    assert pair().same_as(pair())
    assert not pair().same_as(with_row("size", 4, 1.0))
    assert not pair().same_as(changed(needs=Ragged.of([[]] * 6)))
    assert not pair().same_as(pair(Scenario((Slow("a", 2.0),))))


def test_a_newer_program_and_another_file_are_refused(tmp_path):
    path = tmp_path / "p.json"
    pair().save(path)
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"version": 2}))
    with pytest.raises(FormatError, match=r"p\.json: pipesim\.program version 2 is newer"):
        Program.load(path)
    path.write_text(json.dumps(data | {"format": "pipesim.plan"}))
    with pytest.raises(FormatError, match=r"format = 'pipesim\.plan' found"):
        Program.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "text"},
        {"kind": [0.5] * 6},
        {"kind": [True] * 6},
        {"kind": [99] * 6},
        {"lane": [-2] * 6},
        {"source": [7] * 6},
        {"size": [-1.0] * 6},
        {"capacity": [0.0, 1.0]},
        {"capacity": []},
        {"needs": {"starts": [0, 10**12], "values": []}},
        {"needs": {"starts": [0, 5, 2, 3, 4, 5, 6], "values": [0] * 6}},
        {"order": {"starts": [0, 4], "values": [0, 1, 2, 3]}},
        {"route": [[0]]},
        {"sharing": "generous"},
        {"transfers": 3},
        {"devices": ["a", 2]},
        {"memory": [1]},
        {"microbatches": 0},
        {"flops": "many"},
        {"lane_speeds": {"0": [[0], [0.0]]}},
        {"lane_speeds": {"9": [[0], [1.0]]}},
        {"media_speeds": {"0": [[5], [1.0]]}},
        {"media_speeds": {"x": [[0], [1.0]]}},
    ],
)
def test_a_file_whose_columns_do_not_fit_is_refused(tmp_path, change):
    path = tmp_path / "p.json"
    pair().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"p\.json: .*" + next(iter(change))):
        Program.load(path)


def test_a_file_without_one_of_the_columns_is_refused_by_its_name(tmp_path):
    path = tmp_path / "p.json"
    pair().save(path)
    data = json.loads(path.read_text())
    for name in data.keys() - {"format", "version", "buckets"}:
        path.write_text(json.dumps({key: value for key, value in data.items() if key != name}))
        with pytest.raises(InputError, match=name):
            Program.load(path)
    path.write_text(json.dumps({key: value for key, value in data.items() if key != "buckets"}))
    assert Program.load(path).same_as(pair())  # files from before there were any


def test_buckets_come_back_from_a_file(tmp_path):
    program = replace(pair(), buckets={0: Bucket(2000.0, float(pair().capacity[0]) / 3)})
    program.save(tmp_path / "p.json")
    assert Program.load(tmp_path / "p.json").same_as(program)


@pytest.mark.parametrize("bucket", [(0.0, 0.1), (10.0, 0.0), (10.0, 1e9), (float("inf"), 0.1)])
def test_a_bucket_that_never_empties_or_never_fills_is_refused(bucket):
    with pytest.raises(InputError, match=r"buckets\[0\]: "):
        check(replace(pair(), buckets={0: Bucket(*bucket)}))
    with pytest.raises(InputError, match="buckets: 99 found"):
        check(replace(pair(), buckets={99: Bucket(1.0, 0.1)}))


# --- checks ----------------------------------------------------------------------------------------------------------


@given(strategies.programs)
def test_what_is_lowered_passes_the_check(program):
    programs.check(program)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: changed(stage=np.zeros(2, np.int64)), r"stage: 2 rows found; 6 were expected"),
        (lambda: changed(needs=Ragged.of([[]])), r"needs: 1 rows found; 6 were expected"),
        (lambda: changed(needs=Ragged.of([[]] * 5 + [[6]])), "needs: .*6"),
        (lambda: changed(needs=Ragged.of([[]] * 5 + [[-1]])), "needs"),
        (lambda: changed(route=Ragged.of([[]] * 5 + [[2]])), "route: .*2"),
        (lambda: with_row("delay", 4, -1), "d"),
        (lambda: with_row("duration", 4, -1), "duration"),
        (lambda: changed(order=Ragged.of([[0, 1], [2]])), "order: every task on a lane must stand in .* once"),
        (lambda: changed(order=Ragged.of([[0, 1], [2, 2]])), "order: every task"),
        (lambda: changed(order=Ragged.of([[0, 2], [1, 3]])), "order: a task is in the order of another lane"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        programs.check(make())


# --- questions -------------------------------------------------------------------------------------------------------


def test_tasks_are_called_as_people_write_them():
    program = pair()
    assert [program.label(task) for task in range(len(program))] == [
        "0F0 on a",
        "0B0 on a",
        "1F0 on b",
        "1B0 on b",
        "1<0 from b to a",
        "0>0 from a to b",
    ]
    assert [program.kind[task] for task in (0, 1, 5)] == [FORWARD, BACKWARD, ACTIVATION]
    assert program.is_compute.tolist() == [True] * 4 + [False] * 2


def test_other_durations_leave_the_rest_of_the_program_as_it_was():
    program = pair()
    other = program.with_durations(program.duration * 2)
    assert other.duration.tolist() == (program.duration * 2).tolist()
    assert other.with_durations(program.duration).same_as(program)


def test_a_task_on_a_slow_device_is_over_later():
    program = pair(Scenario((Slow("a", 2.0, 0.5e-3),)))
    assert program.duration[0] == 1_000_000
    assert program.finish(0, 0) == 1_500_000  # half of it at full, half at half speed
    assert program.finish(2, 0) == 1_000_000  # b is not slow


def test_a_transfer_over_a_degraded_link_is_over_later_and_its_delay_is_not():
    program = pair(Scenario((), (Degraded("a", "b", 0.25),)))
    transfer = 5
    assert program.finish(transfer, 0) == 4 * program.duration[transfer]
    delayed = dataclasses.replace(program, delay=program.delay + 100, duration=program.duration + 100)
    assert delayed.finish(transfer, 0) == 4 * program.duration[transfer] + 100
    assert pair().route_speeds(transfer) is STEADY
    assert program.route_speeds(transfer) == Speeds((0,), (0.25,))


def test_a_degraded_link_that_is_not_the_bottleneck_slows_nothing_down():
    links = (Link("a", "hub", 4e9), Link("hub", "b", 1e9))
    cluster = dataclasses.replace(CLUSTER, links=links)
    costs = costs_of(strategies.even_trace(2))
    halved = lower(Setup(PLAN, SCHEDULE, costs, cluster, scenario=Scenario((), (Degraded("a", "hub", 0.5),))))
    assert halved.route_speeds(5) == Speeds((0,), (1.0,))
    eighth = lower(Setup(PLAN, SCHEDULE, costs, cluster, scenario=Scenario((), (Degraded("a", "hub", 0.125, 1e-6),))))
    assert eighth.route_speeds(5) == Speeds((0, 1000), (1.0, 0.5))


def test_a_medium_has_its_whole_bandwidth_until_it_is_degraded():
    program = pair(Scenario((), (Degraded("a", "b", 0.25, 1e-6, 2e-6),)))
    medium = program.media.index("a->b")
    assert [program.media_speed(medium, time) for time in (0, 999, 1000, 1999, 2000)] == [1.0, 1.0, 0.25, 0.25, 1.0]
