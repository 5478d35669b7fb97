"""Recorded steps as programs: what waits for what, launch gaps, and that a replay is the record again."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.recorded_runs import pipelined, run_of
from pipesim.core.recorded_run import FORWARD, OPTIMIZER, SEND_ACTIVATION, SEND_GRADIENT, RunLayout
from pipesim.engines import compiled, event
from pipesim.lowering.recorded_steps import asynchronous, recorded_step

MS = 1_000_000


def blocking(*, late=0):
    """Two ranks and two microbatches: sends and receives hold up their ranks, and rank 1 begins `late` ms late."""
    return run_of([
        (0, "forward", 0, 0, -1, 0, 10 * MS),
        (0, "send_activation", 0, 0, 0, 10 * MS, (12 + late) * MS),
        (0, "forward", 0, 1, -1, (12 + late) * MS, (22 + late) * MS),
        (0, "send_activation", 0, 1, 1, (22 + late) * MS, (34 + late) * MS),
        (1, "receive_activation", 1, 0, 0, late * MS, (12 + late) * MS),
        (1, "forward", 1, 0, -1, (12 + late) * MS, (30 + late) * MS),
        (1, "receive_activation", 1, 1, 1, (32 + late) * MS, (34 + late) * MS),
        (1, "forward", 1, 1, -1, (35 + late) * MS, (50 + late) * MS),
    ])  # fmt: skip


@pytest.mark.parametrize("run", [
    blocking(), blocking(late=20), pipelined(RunLayout(3, 2), 5, 1), pipelined(RunLayout(2, vpp=2), 4, 1),
])  # fmt: skip
def test_with_its_launch_gaps_a_step_is_simulated_as_it_was_recorded(run):
    step = recorded_step(run, 0)
    for engine in (event, compiled):
        timeline = engine.run(step.program)
        timeline.verify()
        assert np.array_equal(timeline.end[: len(run)], run.end)
        assert np.array_equal(step.starts(timeline.start), run.start)


def test_launch_gaps_are_what_neither_lane_nor_dependency_explains():
    """Rank 1 posts its second receive 2 ms after its forward, and computes 1 ms after it has it."""
    step = recorded_step(blocking(), 0)
    found = {step.run.label(row): gap // MS for row, gap in enumerate(step.gap.tolist()) if gap}
    assert found == {"1v1 on rank 1 in step 1": 2, "1F1 on rank 1 in step 1": 1}
    simulated = event.run(step.without_gaps())
    simulated.verify()
    assert simulated.makespan == 47 * MS


def test_a_send_waits_for_its_receive_and_holds_up_its_rank():
    """Twice the forward of rank 1 makes the second forward of rank 0 no later, and its second send later."""
    run = blocking()
    step = recorded_step(run, 0)
    slow = step.program.duration.copy()
    row = int(np.flatnonzero((run.rank == 1) & (run.kind == FORWARD))[0])
    slow[row] += 18 * MS
    timeline = event.run(step.program.with_durations(slow))
    later = (timeline.end[: len(run)] - run.end) // MS
    assert later.tolist() == [0, 0, 0, 18, 0, 18, 18, 18]


def test_a_buffered_send_does_not_wait_for_its_receive():
    rows = [
        (0, "forward", 0, 0, -1, 0, 10), (0, "send_activation", 0, 0, 0, 10, 12), (0, "forward", 0, 1, -1, 12, 22),
        (1, "optimizer", -1, -1, -1, 0, 500_000), (1, "receive_activation", 1, 0, 0, 500_000, 500_003),
    ]  # fmt: skip
    step = recorded_step(run_of(rows), 0)
    longer = step.program.duration.copy()
    longer[int(np.flatnonzero(step.run.kind == OPTIMIZER)[0])] *= 2
    timeline = event.run(step.program.with_durations(longer))
    assert timeline.end[:3].tolist() == [10, 12, 22]
    assert timeline.end[4] == 1_000_003


def test_what_a_run_does_while_it_computes_is_asynchronous():
    overlapping = pipelined(RunLayout(3), 5, 2)
    names = {int(kind) for kind in overlapping.kind[asynchronous(overlapping)]}
    assert names == {SEND_ACTIVATION}  # sends of gradients meet receives, not computations, in this run
    assert not asynchronous(blocking()).any()
    assert not asynchronous(run_of([(0, "forward", 0, 0, -1, 0, 10)])).any()


def test_computations_wait_for_an_asynchronous_receive_of_their_input():
    """The receive is posted before the forward of microbatch 0, and ends after it."""
    rows = [
        (0, "forward", 0, 0, -1, 0, 10 * MS), (0, "send_activation", 0, 0, 0, 10 * MS, 11 * MS),
        (0, "forward", 0, 1, -1, 10 * MS, 25 * MS), (0, "send_activation", 0, 1, 1, 25 * MS, 27 * MS),
        (1, "receive_activation", 1, 0, 0, 0, 11 * MS), (1, "receive_activation", 1, 1, 1, 0, 27 * MS),
        (1, "forward", 1, 0, -1, 11 * MS, 20 * MS), (1, "forward", 1, 1, -1, 27 * MS, 36 * MS),
    ]  # fmt: skip
    step = recorded_step(run_of(rows), 0)
    durations = step.program.duration.copy()
    durations[int(np.flatnonzero((step.run.rank == 0) & (step.run.microbatch == 1))[0])] += 5 * MS
    ends = event.run(step.program.with_durations(durations)).end[: len(step.run)]
    assert (ends - step.run.end).max() == 5 * MS
    assert (ends - step.run.end)[-1] == 5 * MS


def test_where_no_messages_were_recorded_computations_wait_for_those_whose_output_they_read():
    run = pipelined(RunLayout(3), 4, 1)
    computed = run.select(run.is_computation)
    step = recorded_step(computed, 0)
    timeline = event.run(step.program)
    assert np.array_equal(timeline.end[: len(computed)], computed.end)
    first = step.program.duration.copy()
    first[0] += 7 * MS
    assert event.run(step.program.with_durations(first)).makespan == int(computed.end.max()) + 7 * MS


def test_a_collective_begins_when_its_last_member_has_come():
    rows = [(0, "forward", 0, 0, -1, 0, 10), (0, "collective", -1, -1, 0, 10, 35),
            (1, "forward", 0, 0, -1, 0, 30), (1, "collective", -1, -1, 0, 30, 35)]  # fmt: skip
    run = replace(run_of(rows, layout=RunLayout(1, 2)), replica=np.array([0, 1]), position=np.zeros(2, np.int64))
    step = recorded_step(run, 0)
    shorter = step.program.duration.copy()
    shorter[2] -= 15
    assert event.run(step.program.with_durations(shorter)).makespan == 20


def test_every_step_is_a_program_of_its_own():
    run = pipelined(RunLayout(2, 2), 3, 3)
    lengths = [event.run(recorded_step(run, at, asynchronous(run)).program).makespan for at in range(3)]
    assert lengths == run.step_ns.tolist()


def test_receives_that_are_posted_ahead_let_their_senders_go_on():
    """The receive of gradients that rank 0 posts after its forward is posted ahead of it, after the forward before."""
    rows = [
        (0, "forward", 0, 0, -1, 0, 10 * MS), (0, "send_activation", 0, 0, 0, 10 * MS, 12 * MS),
        (0, "forward", 0, 1, -1, 12 * MS, 22 * MS), (0, "forward", 0, 2, -1, 22 * MS, 50 * MS),
        (0, "receive_gradient", 0, 0, 1, 50 * MS, 52 * MS), (0, "backward", 0, 0, -1, 52 * MS, 60 * MS),
        (1, "receive_activation", 1, 0, 0, 0, 12 * MS), (1, "forward", 1, 0, -1, 12 * MS, 15 * MS),
        (1, "backward", 1, 0, -1, 15 * MS, 20 * MS), (1, "send_gradient", 1, 0, 1, 20 * MS, 52 * MS),
        (1, "optimizer", -1, -1, -1, 52 * MS, 60 * MS),
    ]  # fmt: skip
    run = run_of(rows)
    as_recorded, ahead = recorded_step(run, 0), recorded_step(run, 0, posted_ahead=True)
    send = int(np.flatnonzero(run.kind == SEND_GRADIENT)[0])
    ends = [event.run(step.without_gaps()).end[send] // MS for step in (as_recorded, ahead)]
    assert ends == [52, 22]  # at 20 ms the forward before the last ends, not held up by a send; a message takes 2 ms


@pytest.mark.parametrize("run", [pipelined(RunLayout(3, 2), 5, 1), pipelined(RunLayout(2, vpp=2), 4, 1)])
def test_steps_with_receives_posted_ahead_take_no_longer_and_are_the_record_with_their_gaps(run):
    ahead = recorded_step(run, 0, posted_ahead=True)
    assert event.run(ahead.without_gaps()).makespan <= event.run(recorded_step(run, 0).without_gaps()).makespan
    timeline = event.run(ahead.program)
    timeline.verify()
    assert np.array_equal(timeline.end[: len(run)], run.end)
