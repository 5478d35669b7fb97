"""Numbers from a timeline, against the same numbers counted nanosecond by nanosecond."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings

import pipesim as ps
from helpers.networks import chain, network, pipeline, pipeline_trace
from helpers.strategies import even_jobs, jobs
from pipesim.analysis import metrics
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ALL_REDUCE, BACKWARD, FORWARD, KINDS, WEIGHT
from pipesim.engines.event import run
from pipesim.lowering import Setup, lower
from pipesim.schedulers.one_f_one_b import one_f_one_b


@pytest.fixture(scope="module")
def uniform():
    """1F1B on 4 stages with 8 microbatches, forward 1 and backward 2, nothing to send: 33 ns."""
    return run(pipeline([1] * 4, [2] * 4, 8, "one_f_one_b", sharing="none"))


def test_the_three_bubbles_by_hand(uniform):
    """Each device works 24 of 33 ns; the first works from 0 to 33, the last from 3 to 27."""
    assert metrics.iteration_time(uniform) == 33e-9
    assert metrics.busy(uniform).tolist() == [24] * 4
    assert metrics.longest_stage(uniform) == 33
    bubble = metrics.bubble(uniform)
    assert bubble == {
        "idle_share": pytest.approx(1 - 24 / 33),
        "longest_stage": pytest.approx(1 - 24 / 33),
        "actual_over_ideal": pytest.approx(33 / 24 - 1),
    }


def test_the_longest_stage_need_not_last_the_whole_iteration():
    """The first forward and the last backward are of different stages when the first stage is short."""
    timeline = run(pipeline([1, 5], [1, 5], 1, "gpipe", latency=[10]))
    assert metrics.longest_stage(timeline) == 1 + 10 + 10 + 10 + 1
    alone = run(pipeline([5], [5], 2, "gpipe"))
    assert metrics.bubble(alone) == {"idle_share": 0, "longest_stage": 0, "actual_over_ideal": 0}


def test_stages_have_the_microbatches_in_flight_of_1f1b(uniform):
    assert metrics.in_flight(uniform).tolist() == [4, 3, 2, 1]


@settings(max_examples=25)
@given(jobs())
def test_peak_memory_is_the_most_that_is_held_at_any_moment(job):
    """Counted over all moments: what has started minus what has been released, ends before starts."""
    timeline = run(job.program)
    program = timeline.program
    for device in range(len(program.devices)):
        mine = np.flatnonzero(program.lane == device)
        events = sorted(
            [(timeline.end[t], 0, t, program.memory_end[t]) for t in mine]
            + [(timeline.start[t], 1, t, program.memory_start[t]) for t in mine]
        )
        if any(timeline.start[t] == timeline.end[t] for t in mine):
            continue  # what starts and ends at one moment has no order on the clock
        held = peak = int(program.static_memory[device])
        for *_, change in events:
            held += int(change)
            peak = max(peak, held)
        assert metrics.peak_memory(timeline)[device] == peak


@settings(max_examples=25)
@given(jobs())
def test_in_flight_counts_forwards_without_backward(job):
    timeline = run(job.program)
    program = timeline.program
    for device, lane in enumerate(program.order):
        flying = most = 0
        for task in lane.tolist():
            flying += int(program.kind[task] == FORWARD) - int(program.kind[task] in {BACKWARD, WEIGHT})
            most = max(most, flying)
        assert metrics.in_flight(timeline)[device] == most


# --- links -----------------------------------------------------------------------------------------------------------


def test_a_link_is_busy_while_anything_is_under_way():
    """0 to 100 and 50 to 150 overlap on link 1; link 0 rests from 100 on."""
    timeline = run(network([1.0, 10.0, 1.0], [(0, 100, [0, 1]), (50, 100, [1, 2]), (400, 10, [1])], "none"))
    assert metrics.link_busy(timeline).tolist() == [100, 150 + 1, 100]


@settings(max_examples=25)
@given(even_jobs())
def test_no_link_is_busy_longer_than_the_iteration_or_carries_more_than_it_can(job):
    timeline = run(job.program)
    assert (metrics.link_busy(timeline) <= timeline.makespan).all()
    if timeline.program.sharing in {"fifo", "fair"}:
        assert (timeline.used <= timeline.program.capacity * (metrics.link_busy(timeline) + 1e-6)).all()


# --- what is waited for ----------------------------------------------------------------------------------------------


def test_communication_is_exposed_while_a_device_waits_for_it():
    """Stage 1 waits 7 for the first input; the gradient of 7 comes back to an idle stage 0."""
    timeline = run(pipeline([10, 10], [10, 10], 1, "gpipe", hop_bytes=[7]))
    assert metrics.exposed_communication(timeline).tolist() == [7, 7]


def test_communication_behind_computation_is_not_exposed():
    """Of two microbatches only the first input is waited for: the second arrives while stage 1 is busy."""
    timeline = run(pipeline([10, 20], [10, 20], 2, "gpipe", hop_bytes=[7], sharing="fifo"))
    assert metrics.exposed_communication(timeline)[1] == 7


@settings(max_examples=25)
@given(jobs())
def test_nothing_is_exposed_without_idle_time(job):
    timeline = run(job.program)
    idle = timeline.makespan - metrics.busy(timeline)
    assert (metrics.exposed_communication(timeline) <= idle).all()
    assert (metrics.exposed_all_reduce(timeline) <= idle).all()


@settings(max_examples=25)
@given(even_jobs())
def test_exposed_all_reduce_is_reducing_while_idle(job):
    """Against a count over the pieces of time between any two starts or ends."""
    timeline = run(job.program)
    program = timeline.program
    moments = np.unique(np.concatenate([timeline.start, timeline.end]))
    for device, lane in enumerate(program.order):
        rings = np.flatnonzero((program.kind == ALL_REDUCE) & np.isin(program.stage, program.stage[lane]))
        exposed = 0
        for a, b in itertools.pairwise(moments):
            reducing = any(timeline.start[t] <= a and b <= timeline.end[t] for t in rings)
            working = any(timeline.start[t] <= a and b <= timeline.end[t] for t in lane)
            exposed += int(b - a) if reducing and not working else 0
        assert metrics.exposed_all_reduce(timeline)[device] == exposed


def test_a_replica_without_a_microbatch_is_exposed_to_its_ring():
    """One whole microbatch on two replicas: the second has nothing to do but to reduce."""
    costs = costs_of(pipeline_trace([10], [10], parameters=100))
    plan = Plan("by hand", 1, 1, (Stage(0, 1, ("g0", "g1")),), "whole")
    timeline = run(lower(Setup(plan, one_f_one_b(plan), costs, chain(2))))
    assert metrics.exposed_all_reduce(timeline).tolist() == [100, 100], "2 (k-1) messages of 50 bytes at 1 byte per ns"


def test_the_path_of_the_last_microbatch_by_hand():
    """10 forward, 7 on the wire, 10 forward and 10 backward, 7 on the wire, 10 backward."""
    path = metrics.last_microbatch_path(run(pipeline([10, 10], [10, 10], 1, "gpipe", hop_bytes=[7])))
    assert {name: spent for name, spent in path.spent.items() if spent} == {
        "forward": 20,
        "backward": 20,
        "transfer": 14,
    }


def test_the_path_of_the_last_microbatch_separates_waiting_for_a_lane_from_waiting_for_a_link():
    """The second flow of 100 waits 60 behind the first, which had the link from 40 on."""
    path = metrics.last_microbatch_path(run(network([1.0], [(0, 100, [0]), (40, 100, [0])], "fifo")))
    assert path.spent["waiting_for_link"] == 60
    queued = metrics.last_microbatch_path(run(pipeline([10], [10], 3, "gpipe")))
    assert queued.spent["waiting_for_lane"] == 60 - 20


@settings(max_examples=48)
@given(jobs())
def test_the_parts_of_the_path_of_the_last_microbatch_add_up_to_the_iteration(job):
    timeline = run(job.program)
    path = metrics.last_microbatch_path(timeline)
    assert sum(path.spent.values()) == timeline.makespan
    assert all(spent >= 0 for spent in path.spent.values())
    for before, after in itertools.pairwise(path.tasks):
        assert before in timeline.program.needs[after]
        assert timeline.end[before] == timeline.ready[after]


# --- all together ----------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(jobs())
def test_a_summary_is_plain_json(job):
    summary = metrics.summary(run(job.program))
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert set(summary["bubble"]) == {"idle_share", "longest_stage", "actual_over_ideal"}
    assert set(summary["peak_memory_bytes"]) == set(summary["devices"]) == set(job.plan.devices)


def test_throughput_and_utilisation_follow_from_their_parts(uniform):
    assert metrics.throughput(uniform) == pytest.approx(8 / 33e-9)
    assert metrics.flops_utilisation(uniform) is None, "FLOPs are not known"


def test_statistics_are_those_of_the_sample_and_the_interval_holds_the_mean():
    seconds = np.arange(1.0, 102.0)
    found = metrics.statistics(seconds, np.random.default_rng(0))
    assert (found["mean_s"], found["p50_s"], found["p95_s"], found["p99_s"]) == (51, 51, 96, 100)
    assert found["ci95_low_s"] < 51 < found["ci95_high_s"]
    half = (found["ci95_high_s"] - found["ci95_low_s"]) / 2
    assert half == pytest.approx(1.96 * seconds.std() / np.sqrt(len(seconds)), rel=0.1)


def test_intervals_of_percentiles_hold_them_as_often_as_stated():
    """p95 of the exponential distribution is ln 20: in 300 samples its interval misses it about 15 times."""
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(300):
        found = metrics.statistics(rng.exponential(1.0, 400), rng, resamples=1)
        missed += not found["p95_low_s"] < np.log(20) < found["p95_high_s"]
    assert 4 <= missed <= 28
    few = metrics.statistics(np.arange(20.0), rng)
    assert few["p99_high_s"] is None
    assert few["p50_low_s"] is not None


def test_bytes_that_leave_a_node_are_counted_once_where_they_leave_it():
    """Two stages in two nodes: an activation goes out of one, a gradient out of the other; inside a node, nothing."""
    two = 'servers(2, 2, intra="25GB/s", inter="10Gb/s")'
    across = ps.simulate("bert-large", two, "megatron", pipeline=2, data=2, global_batch=16)
    program = across.timeline.program
    sent = program.size[np.isin(program.kind, [KINDS.index("activation"), KINDS.index("gradient")])].sum()
    assert metrics.bytes_out_of_nodes(across.timeline, across.setup.cluster) == pytest.approx(sent)
    inside = ps.simulate("bert-large", two, "megatron", pipeline=1, data=2, global_batch=16)
    assert metrics.bytes_out_of_nodes(inside.timeline, inside.setup.cluster) == 0
