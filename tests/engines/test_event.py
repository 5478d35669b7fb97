"""The SimPy engine against closed forms, against its own rules, and against itself in another order."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import pipeline
from helpers.strategies import even_jobs, jobs
from pipesim.analysis import metrics
from pipesim.base.arrays import Ragged
from pipesim.base.errors import DeadlockError
from pipesim.core.scenario import Speeds
from pipesim.core.schedule import parse
from pipesim.engines.event import run
from pipesim.lowering import Setup, lower

MANY = settings(max_examples=40)
times = st.integers(1, 50)


@st.composite
def pipelines(draw):
    """Seconds of each stage forward and backward, of each hop, and the number of microbatches."""
    stages = draw(st.integers(1, 5))
    forward, backward, hop = (draw(st.lists(times, min_size=n, max_size=n)) for n in (stages, stages, stages - 1))
    return forward, backward, hop, draw(st.integers(1, 7))


# --- closed forms ----------------------------------------------------------------------------------------------------


@MANY
@given(pipelines())
def test_gpipe_with_latency_only_links_has_its_closed_form(drawn):
    f, b, c, m = drawn
    timeline = run(pipeline(f, b, m, "gpipe", latency=c, sharing="none"))
    assert timeline.makespan == sum(f) + sum(b) + (m - 1) * (max(f) + max(b)) + 2 * sum(c)


@MANY
@given(pipelines())
def test_gpipe_on_full_duplex_fifo_links_has_its_closed_form(drawn):
    f, b, c, m = drawn
    timeline = run(pipeline(f, b, m, "gpipe", hop_bytes=c, sharing="fifo"))
    slowest = max([*f, *c]) + max([*b, *c])
    assert timeline.makespan == sum(f) + sum(b) + (m - 1) * slowest + 2 * sum(c)


@MANY
@given(st.integers(1, 8), st.integers(1, 12), times, times)
def test_uniform_1f1b_without_communication_has_its_closed_form(p, m, f, b):
    timeline = run(pipeline([f] * p, [b] * p, m, "one_f_one_b", sharing="none"))
    assert timeline.makespan == (m + p - 1) * (f + b)
    assert metrics.in_flight(timeline).tolist() == [min(p - s, m) for s in range(p)]


@MANY
@given(pipelines())
def test_no_1f1b_beats_the_stage_with_the_most_work_and_what_surrounds_it(drawn):
    f, b, c, m = drawn
    timeline = run(pipeline(f, b, m, "one_f_one_b", hop_bytes=c))
    both = [x + y for x, y in zip(f, b, strict=True)]
    assert timeline.makespan >= max(m * both[s] + sum(both[:s]) for s in range(len(f)))


def test_1f1b_with_measured_times_ends_when_it_should():
    """Milliseconds of a published zero-bubble experiment: forward, whole backward, hop."""
    ms = 1_000_000
    f, b, hop = round(18.522 * ms), round((18.086 + 9.337) * ms), round(0.601 * ms)
    timeline = run(pipeline([f] * 8, [b] * 8, 24, "one_f_one_b", latency=[hop] * 7))
    assert timeline.makespan / ms == pytest.approx(1456.75, abs=1e-2)


# --- the rules -------------------------------------------------------------------------------------------------------


@given(jobs())
def test_every_timeline_obeys_the_rules(job):
    run(job.program).verify()


@given(jobs(transfers=("rendezvous", "blocking")))
def test_every_timeline_in_which_both_ends_must_meet_obeys_the_rules_or_nobody_can_go_on(job):
    """A drawn order may be one in which everybody waits to send before anybody receives."""
    try:
        timeline = run(job.program)
    except DeadlockError:
        return
    timeline.verify()


@settings(max_examples=25)
@given(jobs(sharings=("fair",)), st.integers(0, 40), st.integers(1, 9))
def test_links_that_are_degraded_at_any_moment_obey_the_rules(job, moment, tenths):
    """Windows that begin while flows are under way, on every medium."""
    program = job.program
    span = max(run(program).makespan, 1)
    speeds = Speeds((0, 1 + span * moment // 40), (1.0, tenths / 10))
    slow = replace(program, media_speeds=dict.fromkeys(range(len(program.media)), speeds))
    run(slow).verify()


@given(even_jobs())
def test_every_timeline_of_equal_stages_on_shared_links_obeys_the_rules(job):
    run(job.program).verify()


@settings(max_examples=32)
@given(st.one_of(jobs(calm=True), even_jobs()), st.randoms(use_true_random=False))
def test_the_order_in_which_processes_are_created_does_not_matter(job, rng):
    program = job.program
    expected = run(program)
    lanes = list(range(len(program.devices)))
    shuffled = rng.sample(lanes, len(lanes))
    for order in (lanes[::-1], shuffled):
        timeline = run(program, order)
        assert timeline.same_as(expected)
        if expected.rates is not None:
            assert np.array_equal(timeline.rates.rate, expected.rates.rate)


@given(even_jobs(), st.randoms(use_true_random=False))
def test_the_order_in_which_dependencies_are_listed_does_not_matter(job, rng):
    """Who is told first that a task has ended is an accident of data layout, and must not show."""
    program = job.program
    rows = [rng.sample(list(row), len(row)) for row in program.needs]
    assert run(replace(program, needs=Ragged.of(rows))).same_as(run(program))


@settings(max_examples=32)
@given(jobs(sharings=("none", "fifo", "channel"), calm=True))
def test_twice_the_seconds_and_bytes_give_exactly_twice_the_timeline(job):
    program = job.program
    doubled = run(replace(program, duration=2 * program.duration, delay=2 * program.delay, size=2 * program.size))
    once = run(program)
    assert np.array_equal(doubled.end, 2 * once.end)
    assert np.array_equal(doubled.start, 2 * once.start)


@given(jobs(sharings=("none",), calm=True), st.data())
def test_without_contention_a_longer_task_makes_nothing_end_earlier(job, data):
    program = job.program
    task = data.draw(st.integers(0, len(program) - 1))
    longer = program.duration.copy()
    longer[task] += data.draw(st.integers(1, 10_000_000))
    assert (run(program.with_durations(longer)).end >= run(program).end).all()


@given(jobs(calm=True))
def test_no_transfer_is_faster_than_it_is_alone(job):
    timeline = run(job.program)
    program = timeline.program
    assert (timeline.end - timeline.start >= program.duration - 1)[~program.is_compute].all()


# --- how transfers begin ---------------------------------------------------------------------------------------------


def test_an_eager_transfer_starts_when_its_tensor_exists():
    """Stage 1 is still busy with microbatch 0 while microbatch 1 is on its way."""
    timeline = run(pipeline([10, 30], [1, 1], 2, "gpipe", hop_bytes=[5], sharing="fifo"))
    assert _span(timeline, "0>1") == (20, 25)


def test_a_rendezvous_starts_when_the_receiver_has_come_to_it():
    """The receive of microbatch 1 is posted when stage 1 has finished microbatch 0, at 10 + 5 + 30."""
    timeline = run(pipeline([10, 30], [1, 1], 2, "gpipe", hop_bytes=[5], sharing="fifo", transfers="rendezvous"))
    assert _span(timeline, "0>1") == (45, 50)
    assert _span(timeline, "0F1") == (10, 20), "the sender goes on meanwhile"


def test_a_blocking_transfer_holds_both_ends():
    """Stage 0 computes microbatch 1 only when microbatch 0 has gone, and microbatch 2 when 1 has gone."""
    timeline = run(pipeline([10, 30], [1, 1], 3, "gpipe", hop_bytes=[5], sharing="fifo", transfers="blocking"))
    assert _span(timeline, "0>0") == (10, 15)
    assert _span(timeline, "0F1") == (15, 25)
    assert _span(timeline, "0>1") == (45, 50)
    assert _span(timeline, "0F2") == (50, 60)


@pytest.mark.parametrize("transfers", ["rendezvous", "blocking"])
@given(drawn=pipelines(), scheduler=st.sampled_from(["gpipe", "one_f_one_b"]))
def test_known_schedules_come_to_an_end_whoever_must_meet(transfers, drawn, scheduler):
    f, b, c, m = drawn
    timeline = run(pipeline(f, b, m, scheduler, hop_bytes=c, transfers=transfers))
    timeline.verify()
    eager = run(pipeline(f, b, m, scheduler, hop_bytes=c, sharing="none"))
    assert timeline.makespan >= eager.makespan


@given(drawn=pipelines(), scheduler=st.sampled_from(["gpipe", "one_f_one_b"]), step=st.sampled_from([0.0, 1e-9]))
def test_no_lane_computes_while_it_takes_part_in_a_blocking_transfer(drawn, scheduler, step):
    """Not even the optimizer's step, on a device whose last gradient is still on its way."""
    f, b, c, m = drawn
    timeline = run(
        pipeline(f, b, m, scheduler, hop_bytes=c, transfers="blocking", parameters=10, optimizer_s_per_byte=step)
    )
    program = timeline.program
    for task in np.flatnonzero(~program.is_compute):
        for lane in (program.source[task], program.target[task]):
            mine = program.lane == lane
            assert ((timeline.end[mine] <= timeline.start[task]) | (timeline.start[mine] >= timeline.end[task])).all()


def test_who_waits_for_whom_is_said_when_nothing_can_go_on():
    """Each stage wants to send before it receives, and blocks."""
    order = parse("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1B0,1F2,1B1,1B2")
    program = pipeline([1, 1], [1, 1], 3, order, hop_bytes=[1], sharing="none")
    first, last = program.order[0][0], program.order[0][-1]
    rows = [list(row) for row in program.needs]
    rows[first] = [int(last)]
    with pytest.raises(DeadlockError, match=r"tasks can never start(.|\n)*0F0 on g0 waits for 0B2 on g0"):
        run(replace(program, needs=Ragged.of(rows)))


# --- links -----------------------------------------------------------------------------------------------------------


def test_a_half_duplex_link_carries_one_direction_at_a_time():
    """Stage 1 sends its gradient at 6 while activations 1 and 2 are on the wire: they take turns."""
    order = parse("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2")
    full, half = (
        run(pipeline([1, 1], [1, 1], 3, order, hop_bytes=[10], sharing="fifo", duplex=duplex))
        for duplex in ("full", "half")
    )
    assert _span(full, "1<0") == (13, 23)
    # Activations 1 and 2 have asked for the wire at 2 and 3, before the gradient, at 13.
    assert [_span(half, name) for name in ("0>0", "0>1", "0>2", "1<0")] == [(1, 11), (11, 21), (21, 31), (31, 41)]


def test_watching_a_run_changes_nothing_and_sees_all_tasks_end():
    program = pipeline([3, 2, 4], [5, 1, 2], 40, "one_f_one_b", hop_bytes=[3, 4])
    seen = []
    assert run(program, watch=seen.append).same_as(run(program))
    assert seen[-1] == len(program)


@settings(max_examples=25)
@given(jobs())
def test_the_same_program_gives_the_same_timeline_again(job):
    assert run(job.program).same_as(run(lower(Setup(*job[:-1], scenario=job.scenario))))


def test_devices_shuffled_by_a_fixed_seed_agree_on_a_large_homogeneous_pipeline():
    program = pipeline([1000] * 8, [2000] * 8, 64, "one_f_one_b", hop_bytes=[700] * 7, duplex="half")
    lanes = random.Random(7).sample(range(8), 8)
    assert run(program, lanes).same_as(run(program))


def _span(timeline, name):
    task = next(t for t in range(len(timeline.program)) if timeline.program.label(t).split()[0] == name)
    return int(timeline.start[task]), int(timeline.end[task])
