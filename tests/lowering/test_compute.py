"""Forwards, backwards, pairs of both, optimizer steps: their seconds and memory, recorded or drawn."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from helpers.networks import chain, pipeline_trace
from helpers.small_programs import replicated
from helpers.strategies import jobs
from pipesim.analysis import metrics
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import BACKWARD, FORWARD, INPUT, WEIGHT
from pipesim.core.schedule import parse
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower, redraw
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.one_f_one_b import one_f_one_b


def test_split_replicas_work_on_their_share_of_the_microbatch():
    program = replicated()
    first, second = program.stage == 0, program.stage == 1
    assert set(program.duration[first & (program.kind == FORWARD)]) == {20}
    assert set(program.duration[second & (program.kind == BACKWARD)]) == {60}


def test_the_first_backward_of_a_stage_takes_its_own_time():
    trace = pipeline_trace([5], [9])
    layers = trace.layers | {"backward_first_s": np.array([4e-9])}
    plan = Plan("by hand", 1, 3, (Stage(0, 1, ("g0",)),))
    program = lower(Setup(plan, one_f_one_b(plan), costs_of(Trace("by hand", "test", 1, layers)), chain(1)))
    assert program.duration[program.kind == BACKWARD].tolist() == [4, 9, 9]


def test_times_of_each_kind_of_device_are_its_own():
    layers = {
        "layer": np.array([0, 0]),
        "name": np.array(["a", "a"], object),
        "device_kind": np.array(["slow", "fast"], object),
        "forward_s": np.array([20e-9, 10e-9]),
        "backward_s": np.array([40e-9, 20e-9]),
        "output_bytes": np.array([0, 0]),
    }
    cluster = Cluster("two kinds", (Device("g0", "fast"), Device("g1", "slow")), (Link("g0", "g1", 1e9),))
    plan = Plan("m", 1, 1, (Stage(0, 1, ("g0", "g1")),))
    program = lower(Setup(plan, gpipe(plan), costs_of(Trace("m", "test", 1, layers)), cluster))
    assert program.duration[program.kind == FORWARD].tolist() == [5, 10]


def test_a_stash_is_held_from_forward_to_backward_and_split_backwards_release_it_in_two_parts():
    trace = pipeline_trace([1], [2])
    costs = costs_of(Trace("m", "test", 1, trace.layers | {"stash_bytes": np.array([101])}))
    plan = Plan("m", 1, 2, (Stage(0, 1, ("g0",)),))
    whole = lower(Setup(plan, parse("0F0,0F1,0B0,0B1"), costs, chain(1)))
    split = lower(Setup(plan, parse("0F0,0I0,0F1,0I1,0W1,0W0"), costs, chain(1)))
    assert whole.memory_start.tolist() == [101, 101, 0, 0]
    assert whole.memory_end.tolist() == [0, 0, -101, -101]
    by_kind = {kind: split.memory_end[split.kind == kind].tolist() for kind in (INPUT, WEIGHT)}
    assert by_kind == {INPUT: [-50, -50], WEIGHT: [-51, -51]}


@settings(max_examples=40)
@given(jobs())
def test_memory_that_is_taken_is_given_back(job):
    program = job.program
    change = np.bincount(
        program.lane[program.is_compute], (program.memory_start + program.memory_end)[program.is_compute]
    )
    assert not change.any()


PAIR = Plan("by hand", 2, 2, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
PAIRED = parse("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1")


def paired_program(hop=0, **options):
    """Two stages with F = 10, B = 30; the first does its second forward and its first backward as one."""
    costs = costs_of(pipeline_trace([10, 10], [30, 30]))
    return lower(Setup(PAIR, PAIRED, costs, chain(2, [hop]), Options(**options)))


@pytest.mark.parametrize(
    ("options", "together"),
    [({}, 40), ({"pair_overlap": 1.0}, 30), ({"pair_overlap": 0.5}, 35), ({"pair_factor": 0.6}, 24)],
)
def test_a_pair_takes_the_stated_time(options, together):
    """The longer and what of the shorter does not hide in it, or a factor on the sum."""
    timeline = run(paired_program(**options))
    timeline.verify()
    first, second = 1, 2  # tasks are the schedule's actions
    assert timeline.start[first] == timeline.end[3 + 1 + 1] == 50, "it waits for the backward of the other stage"
    assert timeline.end[second] - timeline.start[first] == together
    assert timeline.start[second] == timeline.end[first]


def test_what_either_gives_is_there_when_both_have_ended():
    timeline = run(paired_program(pair_overlap=1.0))
    forward_of_the_other = 4 + 2
    assert timeline.program.label(forward_of_the_other).startswith("1F1")
    assert timeline.start[forward_of_the_other] == timeline.end[2] == 80


@pytest.mark.parametrize("transfers", ["eager", "rendezvous", "blocking"])
@pytest.mark.parametrize("sharing", ["none", "fifo", "fair", "channel"])
def test_pairs_replay_under_every_rule(sharing, transfers):
    timeline = run(paired_program(hop=5, sharing=sharing, transfers=transfers))
    timeline.verify()


def test_pairs_keep_their_time_when_times_are_drawn_anew():
    costs = costs_of(pipeline_trace([10, 10], [30, 30]))
    plan, options = PAIR, Options(pair_factor=0.5)
    program = lower(Setup(plan, PAIRED, costs, chain(2), options))
    drawn = redraw(program, Setup(plan, PAIRED, costs, chain(2), options), rng=np.random.default_rng(0))
    assert np.array_equal(drawn.duration, program.duration)


SPLIT = parse("0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1I0,1F1,1I1,1W0,1W1")


def split_setup(**options):
    """Two stages with F = 10, B = 30 in two parts of 12 and 20 that take a little more than it, and a stash of 100."""
    layers = pipeline_trace([10, 10], [30, 30]).layers
    parts = {
        "backward_input_s": np.full(2, 12e-9),
        "backward_weight_s": np.full(2, 20e-9),
        "stash_bytes": np.array([100, 100]),
    }
    costs = costs_of(Trace("m", "test", 1, layers | parts))
    return Setup(PAIR, SPLIT, costs, chain(2), Options(**options))


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, ([12, 12], [20, 20])),
        ({"whole_first_stage": True}, ([0, 0], [30, 30])),
        ({"whole_first_stage": True, "recompute": "full"}, ([0, 0], [40, 40])),
    ],
)
def test_a_whole_first_stage_does_its_backward_at_the_gradient_of_weights(options, first):
    program = lower(split_setup(**options))
    found = {
        (stage, kind): program.duration[(program.stage == stage) & (program.kind == kind)].tolist()
        for stage in (0, 1) for kind in (INPUT, WEIGHT)
    }  # fmt: skip
    again = 10 if "recompute" in options else 0
    assert (found[0, INPUT], found[0, WEIGHT]) == first
    assert (found[1, INPUT], found[1, WEIGHT]) == ([12 + again] * 2, [20] * 2)
    run(program).verify()


def test_a_whole_first_stage_keeps_all_of_a_stash_until_the_gradient_of_weights():
    program = lower(split_setup(whole_first_stage=True))
    ends = {
        (stage, kind): program.memory_end[(program.stage == stage) & (program.kind == kind)].tolist()
        for stage in (0, 1) for kind in (INPUT, WEIGHT)
    }  # fmt: skip
    assert ends == {(0, INPUT): [0, 0], (0, WEIGHT): [-100] * 2, (1, INPUT): [-50] * 2, (1, WEIGHT): [-50] * 2}


def test_a_whole_first_stage_is_drawn_as_it_is_lowered():
    setup = split_setup(whole_first_stage=True)
    program = lower(setup)
    assert np.array_equal(redraw(program, setup, rng=np.random.default_rng(0)).duration, program.duration)


def test_a_whole_first_stage_makes_no_difference_to_whole_backwards():
    costs = costs_of(pipeline_trace([10, 10], [30, 30]))
    setups = [Setup(PAIR, PAIRED, costs, chain(2, [5]), Options(whole_first_stage=whole)) for whole in (False, True)]
    first, second = map(lower, setups)
    assert np.array_equal(first.duration, second.duration)
    assert np.array_equal(first.memory_end, second.memory_end)


def test_a_whole_first_stage_is_one_with_whole_backwards_in_place_of_gradients_of_weights():
    """Where nothing is between both parts: a first part waits for the gradient of the output though it does nothing."""
    other = "\n1F0,1I0,1F1,1I1,1W0,1W1"
    orders = "0F0,0F1,0I0,0W0,0I1,0W1", "0F0,0F1,0B0,0B1"
    setup = split_setup(whole_first_stage=True)
    found, same = (run(lower(replace(setup, schedule=parse(order + other)))) for order in orders)
    assert found.end.max() == same.end.max()
    assert metrics.peak_memory(found).tolist() == metrics.peak_memory(same).tolist()
