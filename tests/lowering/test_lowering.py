"""From plan and schedule to tasks: who sends how much to whom, in which order, and what is kept in memory."""

import numpy as np
import pytest
from hypothesis import given, settings

from helpers.networks import chain, pipeline, pipeline_trace
from helpers.strategies import even_trace, jobs
from pipesim.base.errors import InputError, PlanError, ScheduleError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ACTIVATION, ALL_REDUCE, BACKWARD, FORWARD, GRADIENT, INPUT, OPTIMIZER, WEIGHT
from pipesim.core.schedule import parse
from pipesim.core.trace import Trace
from pipesim.engines import compiled, event
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower, redraw
from pipesim.lowering.rings import in_ring
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies.loading import load_cluster


def star(count, latency=0.0):
    """Devices on one switch, 1 byte per ns each way."""
    devices = tuple(Device(f"g{i}", "any", memory=1000) for i in range(count))
    return Cluster("star", devices, tuple(Link(f"g{i}", "hub", 1e9, latency) for i in range(count)))


def replicated(replicas="split", microbatches=4, latency=0.0, **options):
    """Two layers; the first on three devices, the second on two. 600 bytes across the cut, 900 of parameters each."""
    trace = even_trace(2, 60e-9, 120e-9, output_bytes=600, parameter_bytes=900)
    costs = costs_of(trace)
    plan = Plan("even", 2, microbatches, (Stage(0, 1, ("g0", "g1", "g2")), Stage(1, 2, ("g3", "g4"))), replicas)
    return lower(Setup(plan, one_f_one_b(plan), costs, star(5, latency), Options(**options)))


# --- transfers -------------------------------------------------------------------------------------------------------


def test_split_replicas_send_all_to_all_their_share_of_the_bytes():
    program = replicated()
    forward = program.kind == ACTIVATION
    assert forward.sum() == 4 * 3 * 2
    assert set(program.size[forward]) == {600 / 6}
    pairs = set(zip(program.source[forward].tolist(), program.target[forward].tolist(), strict=True))
    assert pairs == {(a, b) for a in (0, 1, 2) for b in (3, 4)}
    assert set(program.size[program.kind == GRADIENT]) == {600 / 6}


def test_split_replicas_work_on_their_share_of_the_microbatch():
    program = replicated()
    first, second = program.stage == 0, program.stage == 1
    assert set(program.duration[first & (program.kind == FORWARD)]) == {20}
    assert set(program.duration[second & (program.kind == BACKWARD)]) == {60}


def test_whole_microbatches_go_from_their_replica_to_their_replica():
    program = replicated("whole", microbatches=6)
    forward = program.kind == ACTIVATION
    assert [(m % 3, 3 + m % 2) for m in program.microbatch[forward].tolist()] == list(
        zip(program.source[forward].tolist(), program.target[forward].tolist(), strict=True)
    )
    assert set(program.size[forward]) == {600}
    assert set(program.duration[(program.kind == FORWARD)]) == {60}


@settings(max_examples=200)
@given(jobs(sharings=("fifo",), calm=True))
def test_each_cut_carries_its_bytes_once_each_way_for_every_microbatch(job):
    """What stays on one device is not sent: all of it with one device, 1/k of it when k replicas hold both stages."""
    program, plan = job.program, job.plan
    for n, cut in enumerate(plan.cuts):
        here, there = plan.stages[n].devices, plan.stages[n + 1].devices
        expected = 0.0
        for m in range(plan.microbatches):
            k, k2 = len(here), len(there)
            pairs = (
                [(here[m % k], there[m % k2])] if plan.replicas == "whole" else [(a, b) for a in here for b in there]
            )
            share = 1 if plan.replicas == "whole" else 1 / (k * k2)
            expected += sum(share * job.costs.model.cut_bytes[cut - 1] for a, b in pairs if a != b)
        for kind, sender in ((ACTIVATION, n), (GRADIENT, n + 1)):
            sent = program.size[(program.kind == kind) & (program.stage == sender)].sum()
            assert sent == pytest.approx(expected)


def test_ties_between_transfers_are_settled_by_microbatch_and_gradients_first():
    program = pipeline([1, 1, 1], [1, 1, 1], 3, "gpipe", hop_bytes=[1, 1])
    transfers = np.flatnonzero(~program.is_compute)
    keys = [(program.microbatch[t], program.kind[t] == ACTIVATION, program.source[t]) for t in transfers]
    assert keys == sorted(keys)


def test_a_skip_over_a_stage_is_relayed_and_counts_at_both_cuts():
    base = pipeline_trace([1, 1, 1], [1, 1, 1], [100, 40])
    skip = Trace("skip", "test", 1, base.layers | {"inputs": np.array(["", "", "0;1"], object)})
    plan = Plan("skip", 3, 1, tuple(Stage(n, n + 1, (f"g{n}",)) for n in range(3)))
    program = lower(Setup(plan, gpipe(plan), costs_of(skip), chain(3)))
    assert program.size[program.kind == ACTIVATION].tolist() == [100, 140]


def test_a_channel_passes_a_microbatch_as_one_block_at_the_slowest_pairs_pace():
    program = replicated(sharing="channel", latency=5e-9)
    assert program.media == ("stage0<->stage1",)
    forward = program.kind == ACTIVATION
    assert forward.sum() == 4
    assert set(program.duration[forward]) == {10 + 100}, "two hops of 5 ns, 600 / 6 bytes at 1 byte per ns"
    assert set(program.size[forward]) == {600}


def test_a_channel_is_half_duplex():
    """With one microbatch in each direction the wire is never used twice at once; a full-duplex link would be."""
    order = parse("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2")
    full, channel = (
        run(pipeline([1, 1], [1, 1], 3, order, hop_bytes=[10], sharing=sharing)) for sharing in ("fifo", "channel")
    )
    assert full.makespan < channel.makespan


def test_stages_on_one_device_hand_over_without_a_transfer():
    costs = costs_of(even_trace(4))
    plan = Plan("even", 4, 2, tuple(Stage(n, n + 1, (f"g{n % 2}",)) for n in range(4)))
    program = lower(Setup(plan, gpipe(plan), costs, star(2)))
    assert set(program.stage[program.kind == ACTIVATION].tolist()) == {0, 1, 2}
    one = Plan("even", 4, 2, tuple(Stage(n, n + 1, ("g0",)) for n in range(4)))
    assert not (~lower(Setup(one, gpipe(one), costs, star(1))).is_compute).any()


def test_a_recorded_table_sets_delay_pace_and_limit():
    """10 ns for nothing, 110 for 50 bytes, 160 for 100: a message of 75 bytes takes 135."""
    link = Link("g0", "g1", 1e9, table=((0.0, 10e-9), (50.0, 110e-9), (100.0, 160e-9)))
    cluster = Cluster("table", (Device("g0", "any"), Device("g1", "any")), (link,))
    costs = costs_of(pipeline_trace([1, 1], [1, 1], [75]))
    plan = Plan("by hand", 2, 1, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    for sharing in ("none", "fifo", "fair"):
        timeline = run(lower(Setup(plan, gpipe(plan), costs, cluster, Options(sharing))))
        timeline.verify()
        transfer = timeline.program.kind == ACTIVATION
        assert (timeline.end - timeline.start)[transfer].tolist() == [135]


@pytest.mark.parametrize(("sharing", "ends"), [("none", [30, 30]), ("fifo", [30, 60]), ("fair", [50, 50])])
@pytest.mark.parametrize("engine", [event.run, compiled.run], ids=["event", "compiled"])
def test_a_burst_that_is_faster_alone_than_the_link_takes_turns_with_others_all_the_same(sharing, ends, engine):
    """A half-duplex link of 1 byte/ns takes 100 bytes in 10 + 20 ns alone, out of a buffer; two at once meet on it.

    Recorders used to write the rate of such a burst as what the link has, so that nothing ever met on it.
    """
    link = Link("g0", "g1", 1e9, duplex="half", table=((0.0, 10e-9), (100.0, 30e-9), (1100.0, 1030e-9)))
    cluster = Cluster("burst", (Device("g0", "any"), Device("g1", "any")), (link,))
    costs = costs_of(pipeline_trace([1, 1], [1, 1], [100]))
    plan = Plan("by hand", 2, 2, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    program = lower(Setup(plan, gpipe(plan), costs, cluster, Options(sharing)))
    transfers = np.flatnonzero(program.kind == ACTIVATION)
    timeline = engine(program.with_durations(np.where(program.is_compute, 0, program.duration)))
    timeline.verify()
    assert timeline.end[transfers].tolist() == ends
    assert timeline.moved.sum() == 4 * 100, "the bytes that pass are those of the messages"
    assert timeline.used.sum() == pytest.approx(4 * 20), "each uses the whole link for 20 ns"


# --- all-reduce, optimizer -------------------------------------------------------------------------------------------


def test_a_ring_enters_each_node_once_whatever_the_order_of_the_replicas():
    cluster = load_cluster('servers(2, 3, intra="25GB/s", inter="1GB/s")')
    names = [device.name for device in cluster.devices]
    mixed = [names[i] for i in (4, 0, 5, 2, 1, 3)]
    assert in_ring(mixed, cluster) == [names[i] for i in (4, 5, 3, 0, 2, 1)]
    assert in_ring(names, cluster) == names


def test_an_all_reduce_is_a_ring_with_2_k_minus_1_k_ths_of_the_bytes_and_2_k_minus_1_latencies():
    program = replicated(latency=5e-9)
    ring = (program.kind == ALL_REDUCE) & (program.stage == 0)
    assert program.size[ring].tolist() == [2 * 2 / 3 * 900] * 3
    assert program.delay[ring].tolist() == [2 * 2 * 10] * 3
    edges = list(zip(program.source[ring].tolist(), program.target[ring].tolist(), strict=True))
    assert edges == [(0, 1), (1, 2), (2, 0)]


def test_an_all_reduce_begins_when_the_last_backward_of_all_replicas_has_ended():
    timeline = run(replicated(sharing="none"))
    program = timeline.program
    for stage in (0, 1):
        ring = (program.kind == ALL_REDUCE) & (program.stage == stage)
        last = timeline.end[program.is_compute & (program.stage == stage)].max()
        assert set(timeline.start[ring]) == {last}


def test_a_stage_on_one_device_reduces_nothing():
    program = pipeline([1, 1], [1, 1], 2, "gpipe", hop_bytes=[1])
    assert not (program.kind == ALL_REDUCE).any()


def test_the_optimizer_steps_when_gradients_are_complete():
    timeline = run(replicated(sharing="none", optimizer_s_per_byte=1e-9))
    program = timeline.program
    steps = np.flatnonzero(program.kind == OPTIMIZER)
    assert program.duration[steps].tolist() == [900] * 5
    for step in steps:
        ring = (program.kind == ALL_REDUCE) & (program.stage == program.stage[step])
        assert timeline.start[step] == timeline.end[ring].max()


def test_whole_replicas_that_no_microbatch_reaches_still_reduce():
    timeline = run(replicated("whole", microbatches=1))
    timeline.verify()
    assert (timeline.program.kind == ALL_REDUCE).sum() == 5


# --- seconds and memory ----------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("precision", "state", "expected"), [("fp32", None, 4), ("fp16", None, 8), ("fp32", 0.0, 2)])
def test_static_memory_is_parameters_gradients_and_optimizer_state(precision, state, expected):
    base = even_trace(2, parameter_bytes=900)
    costs = costs_of(Trace("even", "test", 1, base.layers, precision=precision))
    plan = Plan("even", 2, 1, (Stage(0, 2, ("g0",)),))
    program = lower(Setup(plan, gpipe(plan), costs, star(1), Options(optimizer_state=state)))
    assert program.static_memory.tolist() == [expected * 1800]


@settings(max_examples=100)
@given(jobs())
def test_memory_that_is_taken_is_given_back(job):
    program = job.program
    change = np.bincount(
        program.lane[program.is_compute], (program.memory_start + program.memory_end)[program.is_compute]
    )
    assert not change.any()


# --- draws -----------------------------------------------------------------------------------------------------------


def test_a_draw_takes_only_recorded_samples_and_depends_on_the_seed_alone():
    layers = pipeline_trace([1], [1]).layers
    repeated = {name: np.repeat(values, 3) for name, values in layers.items()} | {
        "sample": np.arange(3),
        "forward_s": np.array([10e-9, 20e-9, 70e-9]),
    }
    costs = costs_of(Trace("m", "test", 1, repeated))
    plan = Plan("m", 1, 50, (Stage(0, 1, ("g0",)),))
    cluster = chain(1)
    program = lower(Setup(plan, gpipe(plan), costs, cluster))
    assert set(program.duration[program.kind == FORWARD]) == {20}, "the median"
    drawn = redraw(program, Setup(plan, gpipe(plan), costs, cluster), rng=np.random.default_rng(1))
    assert set(drawn.duration[drawn.kind == FORWARD]) == {10, 20, 70}
    again = redraw(program, Setup(plan, gpipe(plan), costs, cluster), rng=np.random.default_rng(1))
    assert np.array_equal(drawn.duration, again.duration)


def test_jitter_keeps_the_mean_and_has_the_stated_variation():
    costs = costs_of(pipeline_trace([1_000_000], [1_000_000]))
    plan = Plan("by hand", 1, 20_000, (Stage(0, 1, ("g0",)),))
    program = lower(Setup(plan, gpipe(plan), costs, chain(1)))
    drawn = redraw(program, Setup(plan, gpipe(plan), costs, chain(1)), rng=np.random.default_rng(0), jitter=0.2)
    drawn = drawn.duration / 1e6
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.std() == pytest.approx(0.2, abs=0.01)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_schedule_for_another_plan_is_refused():
    with pytest.raises(ScheduleError, match="2 ranks found; 1 were expected"):
        pipeline([1], [1], 1, parse("0F0,0B0\n1F0,1B0"))


def test_a_plan_for_another_model_is_refused():
    plan = Plan("m", 3, 1, (Stage(0, 3, ("g0",)),))
    with pytest.raises(PlanError, match=r"the plan is for 3 layers .* 'even' has 2"):
        lower(Setup(plan, gpipe(plan), costs_of(even_trace(2)), star(1)))


def test_devices_that_cannot_reach_each_other_are_refused():
    apart = Cluster("apart", (Device("g0", "any"), Device("g1", "any")))
    plan = Plan("even", 2, 1, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    with pytest.raises(InputError, match=r"no route from 'g[01]' to 'g[01]'"):
        lower(Setup(plan, gpipe(plan), costs_of(even_trace(2)), apart))


@pytest.mark.parametrize("bad", [{"sharing": "unfair"}, {"transfers": "lazy"}, {"optimizer_s_per_byte": -1.0}])
def test_unknown_options_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        Options(**bad)


# --- pairs -----------------------------------------------------------------------------------------------------------


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


# --- recomputation ---------------------------------------------------------------------------------------------------


def recomputing(text, recompute):
    """One stage of two layers: the first keeps much for its time, the second little; both read 10 bytes."""
    layers = pipeline_trace([10, 40], [30, 30], hop_bytes=[10]).layers | {"stash_bytes": np.array([100, 60])}
    costs = costs_of(Trace("m", "test", 1, layers))
    plan = Plan("m", 2, 1, (Stage(0, 2, ("g0",)),))
    return run(lower(Setup(plan, parse(text), costs, chain(1), Options(recompute=recompute, optimizer_state=0.0))))


@pytest.mark.parametrize(
    ("recompute", "seconds", "stash", "restored"),
    [("none", 60, 160, 0), ("full", 110, 0 + 10, 100), ("selective", 70, 0 + 60, 100)],
)
def test_recomputation_moves_seconds_into_the_backward_and_bytes_out_of_the_stash(recompute, seconds, stash, restored):
    """The first layer reads nothing that is recorded, so it keeps nothing; `selective` takes it alone."""
    program = recomputing("0F0,0B0", recompute).program
    assert program.duration.tolist() == [50, seconds]
    assert program.memory_start.tolist() == [stash, restored]
    assert program.memory_end.tolist() == [0, -stash - restored]


def test_what_the_weights_gradient_needs_stays_restored_until_then():
    program = recomputing("0F0,0I0,0W0", "full").program
    assert program.duration.sum() == 50 + 60 + 50
    assert program.memory_start.tolist() == [10, 150, 0]
    assert program.memory_end.tolist() == [0, -80, -80]


@pytest.mark.parametrize("forward", [1000, 3000, 4000, 7000])
def test_of_equal_layers_none_is_better_than_the_whole_so_none_is_recomputed(forward):
    """In floating point it depended on the last bit: of 4 us each all were recomputed, of 3 us none."""
    layers = pipeline_trace([forward] * 3, [forward] * 3, [1000] * 2).layers | {"stash_bytes": np.array([5000] * 3)}
    layers["inputs"] = np.array(["-"] * 3, object)
    layers["output_bytes"] = np.array([1000] * 3)
    plan = Plan("m", 3, 1, (Stage(0, 3, ("g0",)),))
    costs = costs_of(Trace("m", "test", 1, layers))
    program = lower(Setup(plan, parse("0F0,0B0"), costs, chain(1), Options(recompute="selective")))
    assert program.duration[:2].tolist() == [3 * forward, 3 * forward]


def test_a_message_on_a_channel_that_takes_no_time_leaves_a_finite_capacity():
    """One byte at 10^16 bytes/s takes 0 ns: its channel's rate was a division by zero."""
    link = Link("g0", "g1", 1e16)
    cluster = Cluster("fast", (Device("g0", "any"), Device("g1", "any")), (link,))
    plan = Plan("by hand", 2, 1, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    costs = costs_of(pipeline_trace([1, 1], [1, 1], [1]))
    program = lower(Setup(plan, gpipe(plan), costs, cluster, Options("channel")))
    assert np.isfinite(program.capacity).all()
    assert run(program).makespan == 4


@pytest.mark.parametrize("options", [{"pair_overlap": 1.5}, {"pair_factor": -1.0}, {"recompute": "some"}])
def test_options_about_pairs_and_recomputation_are_checked(options):
    with pytest.raises(InputError, match="was expected"):
        Options(**options)
