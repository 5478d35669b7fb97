"""The critical path through devices and links, and slack, against programs that are changed and simulated again."""

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from helpers.networks import network, pipeline
from helpers.strategies import jobs
from pipesim.analysis import critical_path as paths
from pipesim.base import kernels
from pipesim.core.timeline import Timeline
from pipesim.engines.event import run


def test_the_path_goes_through_the_lanes_that_hold_it():
    """Two stages, three microbatches: the path of the second stage's lane has no waiting on it."""
    found = paths.critical_path(run(pipeline([5, 10], [10, 30], 3, "gpipe", sharing="none")))
    labels = [found.timeline.program.label(task) for task in found.tasks if found.timeline.program.lane[task] >= 0]
    assert labels[:4] == ["0F0 on g0", "1F0 on g1", "1F1 on g1", "1F2 on g1"]
    assert found.spent["forward"] == 5 + 3 * 10
    assert found.spent["backward"] == 3 * 30 + 10


def test_a_transfer_that_shares_its_link_is_blamed_on_contention_there():
    found = paths.critical_path(run(network([1.0], [(0, 100, [0]), (0, 100, [0])], "fair")))
    assert (found.spent["transfer"], found.spent["contention"]) == (100, 100)
    assert {part.where for part in found.parts} == {found.timeline.program.media[0]}


def test_a_transfer_that_waits_for_a_link_is_held_by_the_one_before_it():
    timeline = run(network([1.0], [(0, 100, [0]), (40, 100, [0])], "fifo"))
    found = paths.critical_path(timeline)
    assert found.spent == dict.fromkeys(paths.CAUSES, 0) | {"transfer": 200}
    held = paths.holders(timeline)
    assert (held.task[3], held.by[3]) == (2, paths.LINK)


def test_the_slow_part_of_a_computation_is_blamed_on_its_device():
    from pipesim.core.scenario import Speeds

    program = replace(pipeline([10], [20], 1, "gpipe"), lane_speeds={0: Speeds((0,), (0.5,))})
    found = paths.critical_path(run(program))
    assert (found.spent["forward"], found.spent["backward"], found.spent["slow_device"]) == (10, 20, 30)
    assert found.as_data()["held_by"][0] == {"where": "g0", "cause": "slow_device", "seconds": 30e-9}


@settings(max_examples=60)
@given(jobs())
def test_the_parts_follow_each_other_from_the_start_to_the_end_and_nothing_is_unexplained(job):
    timeline = run(job.program)
    found = paths.critical_path(timeline)
    assert sum(found.spent.values()) == timeline.makespan == sum(ns for _, _, ns in found.held)
    assert found.spent["unexplained"] == 0
    now = 0
    for part in found.parts:
        assert part.begin == now < part.end
        now = part.end
    assert now == timeline.makespan
    held = paths.holders(timeline)
    assert (np.where(held.task < 0, 0, timeline.end[held.task]) == timeline.start).all()
    for before, after in itertools.pairwise(found.tasks):
        assert timeline.end[before] <= timeline.start[after]


@settings(max_examples=25)
@given(jobs())
def test_slack_is_what_a_task_may_last_longer_and_one_nanosecond_more_makes_the_iteration_longer(job):
    program = replace(job.program, sharing="none", lane_speeds={}, media_speeds={})
    timeline = run(program)
    slack = paths.slack(timeline)
    assert (slack >= 0).all()
    assert (slack[list(paths.critical_path(timeline).tasks)] == 0).all()
    for task in range(0, len(program), 1 + len(program) // 6):
        for more, longer in ((0, 0), (1, 1)):
            duration = program.duration.copy()
            duration[task] += slack[task] + more
            assert run(program.with_durations(duration)).makespan == timeline.makespan + longer


def test_a_recorded_timeline_with_a_pause_has_an_unexplained_part():
    timeline = run(pipeline([10], [20], 1, "gpipe"))
    later = Timeline(timeline.program, timeline.start + np.array([0, 5]), timeline.end + np.array([0, 5]), "recorded")
    found = paths.critical_path(later)
    assert (found.spent["unexplained"], sum(found.spent.values())) == (5, 35)
    assert paths.slack(later).tolist() == [5, 0]


def test_the_kernel_is_the_same_compiled_and_not(monkeypatch):
    timeline = run(pipeline([10, 10], [10, 30], 3, "gpipe", sharing="none"))
    monkeypatch.setattr(paths, "suited", lambda kernel, **_: kernel)
    plain = paths.slack(timeline)
    monkeypatch.setattr(paths, "suited", lambda kernel, **_: kernels.compiled(kernel))
    assert paths.slack(timeline).tolist() == plain.tolist()
    assert (plain.min(), plain.max()) == (0, 40)


def test_the_slack_of_a_device_is_that_of_its_tasks():
    timeline = run(pipeline([5, 10], [10, 30], 3, "gpipe", sharing="none"))
    data, found = paths.slack_data(timeline), paths.slack(timeline)
    assert [round(one["slack_s"] * 1e9) for one in data["tasks"]] == found.tolist()
    for lane, device in enumerate(timeline.program.devices):
        mine = found[timeline.program.lane == lane]
        assert data["devices"][device] == {
            "least_s": mine.min() / 1e9,
            "median_s": np.median(mine) / 1e9,
            "without": int((mine == 0).sum()),
            "tasks": 6,
        }
