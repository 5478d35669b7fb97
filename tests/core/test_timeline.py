"""A timeline is checked from scratch: what is right passes, each planted corruption is found and named."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.networks import network, pipeline
from pipesim.base.errors import CorruptTimelineError
from pipesim.core.timeline import Timeline
from pipesim.engines import compiled
from pipesim.engines.event import run


@pytest.fixture(params=["none", "fifo", "fair"])
def timeline(request):
    """Three stages, four microbatches, links that matter."""
    return run(pipeline([30, 20, 40], [50, 60, 30], 4, "one_f_one_b", hop_bytes=[45, 35], sharing=request.param))


def with_start(timeline, task, start):
    moved = timeline.start.copy()
    moved[task] = start
    return replace(timeline, start=moved)


def shifted(timeline, task, by):
    start, end = timeline.start.copy(), timeline.end.copy()
    start[task] += by
    end[task] += by
    return replace(timeline, start=start, end=end)


def test_what_the_engine_made_passes(timeline):
    timeline.verify()


def test_a_task_that_never_ran_is_found(timeline):
    with pytest.raises(CorruptTimelineError, match=r"task 3 .*never ran"):
        with_start(timeline, 3, -1).verify()


def test_a_task_that_starts_before_its_input_is_found(timeline):
    task = int(np.argmax(timeline.program.microbatch * (timeline.program.stage == 1) * timeline.program.is_compute))
    early = int(timeline.ready[task]) - int(timeline.start[task]) - 1
    with pytest.raises(CorruptTimelineError, match="starts before what it needs has ended"):
        shifted(timeline, task, early).verify()


def test_two_tasks_on_one_lane_at_once_are_found(timeline):
    """The second forward of stage 0 needs nothing but its lane."""
    task = int(timeline.program.order[0][1])
    with pytest.raises(
        CorruptTimelineError, match=r"a start at 30 ns was expected, when its lane's previous task has ended"
    ):
        shifted(timeline, task, -5).verify()


def test_a_lane_that_idles_without_cause_is_found(timeline):
    task = int(timeline.program.order[0][-1])
    with pytest.raises(CorruptTimelineError, match="was expected, when its lane's previous task has ended"):
        shifted(timeline, task, 7).verify()


def test_a_task_that_takes_too_little_time_is_found(timeline):
    task = int(timeline.program.order[0][-1])
    ended = timeline.end.copy()
    ended[task] -= 1
    with pytest.raises(CorruptTimelineError, match=r"an end at .* was expected"):
        replace(timeline, end=ended).verify()


def test_two_transfers_on_a_link_at_once_are_found():
    program = network([1.0], [(0, 100, [0]), (0, 100, [0])], "fifo")
    both = replace(run(program), start=np.array([0, 0, 0, 0]), end=np.array([0, 0, 100, 100]))
    with pytest.raises(
        CorruptTimelineError, match=r"a start at 100 ns was expected, when all links of its route are free"
    ):
        both.verify()


def test_transfers_without_length_that_pass_at_once_have_not_overtaken_each_other():
    """The one that has waited longer has the larger number; both pass when the link is free."""
    timeline = run(network([1.0], [(10, 0, [0]), (5, 0, [0]), (0, 100, [0])], "fifo"))
    assert timeline.start[3:].tolist() == [100, 100, 0]
    timeline.verify()


def test_a_transfer_that_overtakes_another_is_found():
    program = network([1.0], [(0, 100, [0]), (10, 100, [0])], "fifo")
    swapped = replace(run(program), start=np.array([0, 0, 110, 10]), end=np.array([0, 10, 210, 110]))
    with pytest.raises(CorruptTimelineError, match="overtakes task 2 on link0"):
        swapped.verify()


def test_bytes_moved_count_each_transfer_on_each_link_of_its_route():
    timeline = run(network([1.0, 1.0], [(0, 100, [0, 1]), (0, 40, [1])], "fair"))
    assert timeline.moved.tolist() == [100, 140]


def test_a_frame_has_a_row_for_each_task(timeline):
    frame = timeline.frame()
    assert len(frame) == len(timeline.program)
    assert (frame["end_ns"] - frame["start_ns"]).tolist() == (timeline.end - timeline.start).tolist()
    assert set(frame["kind"]) == {"forward", "backward", "activation", "gradient"}


@pytest.mark.parametrize("engine", [run, compiled.run])
def test_where_the_environment_asks_for_it_every_engine_s_timeline_is_verified(engine, monkeypatch):
    def refuse(timeline):
        raise CorruptTimelineError(f"made by {timeline.engine}")

    monkeypatch.setattr(Timeline, "verify", refuse)
    program = network([1.0], [(0, 100, [0])], "fair")
    with pytest.raises(CorruptTimelineError, match="made by"):
        engine(program)
    monkeypatch.setenv("PIPESIM_VERIFY", "0")
    assert engine(program).makespan == 100
