"""A timeline is checked from scratch: what is right passes, each planted corruption is found and named."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.networks import network, pipeline, pipeline_trace
from helpers.small_programs import star
from helpers.strategies import at_widths
from pipesim.base.errors import CorruptTimelineError
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import (
    ACTIVATION,
    ALL_GATHER,
    ALL_REDUCE,
    BACKWARD,
    FORWARD,
    GRADIENT,
    OPTIMIZER,
)
from pipesim.core.timeline import Timeline
from pipesim.engines import compiled
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.reductions import BUCKET
from pipesim.schedulers.interleaved import interleaved
from pipesim.schedulers.one_f_one_b import one_f_one_b


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


# --- data parallelism, and sends that hold devices -------------------------------------------------------------------

LARGE = int(3 * BUCKET * 2)  # bytes of three buckets


def replicated_pipeline(*, width=1, chunks=1, **options):
    """Two groups of two replicas, each a team, with as many stages on each; everything they exchange takes time."""
    layers, width_of = 2 * chunks, (width, 2 * width if width > 1 else 1)
    names = iter(f"g{i}" for i in range(2 * sum(width_of)))
    teams = [[tuple(next(names) for _ in range(wide)) for _ in range(2)] for wide in width_of]
    plan = Plan(
        "two", layers, 4, tuple(Stage(n, n + 1, tuple(team[0] for team in teams[n % 2])) for n in range(layers)),
        teams=tuple(team for row in teams for team in row if len(team) > 1),
    )  # fmt: skip
    ms = 1_000_000
    trace = pipeline_trace([100 * ms] * layers, [200 * ms] * layers, [40 * ms] * (layers - 1), LARGE)
    trace = replace(
        trace, layers=trace.layers | {"kind": np.array(["embedding", *["x"] * (layers - 2), "tied_head"], object)}
    )
    costs = costs_of(at_widths(trace, plan), widths=plan.widths(0))
    made = Options("none", optimizer_s_per_byte=1e-9, **options)
    order = one_f_one_b(plan) if chunks == 1 else interleaved(plan)
    return run(lower(Setup(plan, order, costs, star(len(plan.gpus), 1e-3), made)))


F, B, STEP, ACT, GRAD, RED, GATHER = FORWARD, BACKWARD, OPTIMIZER, ACTIVATION, GRADIENT, ALL_REDUCE, ALL_GATHER


@pytest.mark.parametrize(
    ("options", "kind", "needed"),
    [
        ({}, RED, B),  # gradients are summed when they are complete
        ({}, STEP, RED),
        ({"sharding": "zero1"}, GATHER, STEP),  # a gather of parameters that are not stepped yet
        ({"sharding": "zero2"}, RED, B),
        ({"sharding": "zero2"}, STEP, RED),
        ({"sharding": "zero3"}, F, GATHER),
        ({"sharding": "zero3"}, B, GATHER),
        ({"sharding": "zero3"}, GATHER, F),  # one action ahead
        ({"sharding": "zero1", "sharding_size": 1}, RED, B),
        ({"gradient_overlap": True}, RED, RED),  # one bucket after the other
        ({"gradient_overlap": True, "sharding": "zero1"}, F, GATHER),
        ({"gradient_overlap": True, "sharding": "zero1"}, B, GATHER),
        ({"gradient_norm": True}, STEP, RED),
        ({"tied_all_reduce": True}, STEP, RED),
        ({"width": 2, "scatter_sends": True}, F, ACT),
        ({"width": 2, "scatter_sends": True}, B, GRAD),
        ({"width": 2}, F, ACT),
        ({"transfers": "blocking"}, B, ACT),  # the sender goes on when its message has gone
        ({"transfers": "paired", "chunks": 2}, ACT, B),  # what the forward of a pair makes goes after its backward
        ({"transfers": "paired", "chunks": 2}, F, GRAD),  # what the backward of a pair needs comes before both
        ({"transfers": "sequential"}, ACT, GRAD),  # one message after the other
    ],
)
def test_every_rule_of_training_is_a_need_and_what_breaks_it_is_found(options, kind, needed):
    """Of each such pair of tasks, the later is moved to a nanosecond before the end of what it waits for."""
    timeline = replicated_pipeline(**options)
    program = timeline.program
    waiting, awaited = program.needs.row_of_value(), program.needs.values
    pairs = np.flatnonzero((program.kind[waiting] == kind) & (program.kind[awaited] == needed))
    assert len(pairs), "no task waits so"
    timeline.verify()
    for pair in pairs.tolist():
        task, before = int(waiting[pair]), int(awaited[pair])
        early = shifted(timeline, task, int(timeline.end[before]) - 1 - int(timeline.start[task]))
        with pytest.raises(CorruptTimelineError):
            early.verify()


def test_a_part_of_a_scattered_tensor_that_is_late_or_missing_is_found():
    timeline = replicated_pipeline(width=2, scatter_sends=True)
    program = timeline.program
    between = program.source != program.target
    first = np.flatnonzero((program.kind == ACTIVATION) & (program.microbatch == 0) & between)
    assert len(first) == 2 * 2 * 4, "each of two replicas to each of two, from 2 GPUs to 4"
    for task in first.tolist():
        with pytest.raises(CorruptTimelineError, match="never ran"):
            with_start(timeline, task, -1).verify()
        late = 1 + int(timeline.start[program.needs.row_of_value()[program.needs.values == task]].max())
        with pytest.raises(CorruptTimelineError):
            shifted(timeline, task, late - int(timeline.end[task])).verify()
