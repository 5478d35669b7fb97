"""All-reduces: a ring per replicated stage, and what waits for it."""

from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from helpers.networks import pipeline, pipeline_trace
from helpers.small_programs import replicated, star
from helpers.strategies import at_widths, for_drawn, team_jobs
from pipesim.base.errors import DeadlockError, InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ALL_GATHER, ALL_REDUCE, COLLECTIVES, OPTIMIZER
from pipesim.core.schedule import parse
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.reductions import BUCKET, exchange_of, in_ring
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies.loading import load_cluster


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


# --- closed forms ----------------------------------------------------------------------------------------------------

PARAMETERS = 2 * 3 * 4 * 5 * 7 * 1000


def one_stage(copies, *, width=1, context=1, microbatches=None, cluster=None, **options):
    """One stage of one layer on so many replicas, each a team: 60 ns forward, 120 backward, on links of 5 ns."""
    cluster = cluster or star(copies * width, 5e-9)
    names = [device.name for device in cluster.devices]
    teams = tuple(tuple(names[i : i + width]) for i in range(0, copies * width, width))
    plan = Plan(
        "one", 1, microbatches or copies, (Stage(0, 1, tuple(team[0] for team in teams)),), "whole",
        teams=teams if width > 1 else (), context=context,
    )  # fmt: skip
    trace = at_widths(pipeline_trace([60], [120], parameters=PARAMETERS), plan)
    costs = costs_of(trace, widths=plan.widths(0))
    return lower(Setup(plan, one_f_one_b(plan), costs, cluster, Options(**options)))


def lasting(timeline, kind=ALL_REDUCE):
    """From the start of the first to the end of the last of these tasks."""
    tasks = (timeline.program.kind == kind) & (timeline.program.size > 0)
    return int(timeline.end[tasks].max() - timeline.start[tasks].min())


def moved(program):
    """Bytes that all collectives together move over each medium."""
    rows = program.route.row_of_value()
    sizes = np.where(np.isin(program.kind, COLLECTIVES), program.size, 0)[rows]
    return np.bincount(program.route.values, sizes, minlength=len(program.media))


@pytest.mark.parametrize("sharing", ["none", "fair", "fifo", "channel"])
@pytest.mark.parametrize("copies", [2, 3, 4, 7])
def test_a_ring_on_idle_links_takes_its_closed_form(copies, sharing):
    """2 (k-1) messages of a k-th, each over two links of 5 ns and 1 byte per ns; if sharded, two halves."""
    half = (copies - 1) * (10 + PARAMETERS // copies)
    assert lasting(run(one_stage(copies, sharing=sharing))) == 2 * half
    sharded = run(one_stage(copies, sharing=sharing, sharding="zero1"))
    assert lasting(sharded) == lasting(sharded, ALL_GATHER) == half
    assert sharded.makespan == run(one_stage(copies, sharing=sharing)).makespan


def rails(nodes, gpus):
    """Every GPU joined to those of its node by links of its own, 8 bytes per ns, and by a NIC of 1 to its rail."""
    names = [[f"n{n}.g{i}" for i in range(gpus)] for n in range(nodes)]
    inside = [Link(a, b, 8e9, 5e-9) for row in names for n, a in enumerate(row) for b in row[n + 1 :]]
    outside = [Link(name, "core", 1e9, 5e-9) for row in names for name in row]
    devices = tuple(Device(name, "any", name.partition(".")[0]) for row in names for name in row)
    return Cluster("rails", devices, (*inside, *outside))


@pytest.mark.parametrize("gpus", [2, 3])
def test_as_many_rings_as_nics_move_a_part_each_over_links_of_their_own(gpus):
    """Between nodes over two links of 5 ns at 1 byte per ns, where all rings have the same part of the bytes."""
    cluster, count = rails(2, gpus), 2 * gpus
    steps = 2 * (count - 1)
    found = {rings: lasting(run(one_stage(count, cluster=cluster, rings=rings))) for rings in ("one", "all")}
    assert found["one"] == steps * (10 + PARAMETERS // count)
    assert found["all"] == steps * 10 + -(-steps * PARAMETERS // (count * gpus))


def test_rings_of_one_node_are_one():
    assert lasting(run(one_stage(3, rings="all"))) == lasting(run(one_stage(3, rings="one")))


@pytest.mark.parametrize("rings", ["one", "all"])
@pytest.mark.parametrize("copies", [2, 4, 6])
def test_sharded_optimizers_move_the_bytes_of_an_all_reduce_over_every_link(copies, rings):
    cluster = rails(2, copies // 2)
    plain = moved(one_stage(copies, cluster=cluster, rings=rings))
    assert plain.sum() > 0
    for sharding in ("zero1", "zero2"):
        sharded = moved(one_stage(copies, cluster=cluster, rings=rings, sharding=sharding))
        np.testing.assert_allclose(sharded, plain, rtol=1e-12)


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("copies", [2, 3, 5])
def test_zero2_scatters_after_every_backward_and_zero3_gathers_before_every_action(copies, each):
    part = (copies - 1) / copies * PARAMETERS
    for sharding, gathers in (("zero2", 1), ("zero3", 2 * each)):
        program = one_stage(copies, microbatches=each * copies, sharding=sharding)
        for kind, times in ((ALL_REDUCE, each), (ALL_GATHER, gathers)):
            sent = np.bincount(program.source, np.where(program.kind == kind, program.size, 0))
            np.testing.assert_allclose(sent, times * part, rtol=1e-12)


@pytest.mark.parametrize(("copies", "shard"), [(4, 2), (6, 2), (6, 3)])
def test_shards_of_fewer_replicas_are_reduced_between_their_groups(copies, shard):
    """Inside a group (s-1)/s of the bytes are scattered, of the s-th that is kept the other groups have the same."""
    program, groups = one_stage(copies, sharding="zero1", sharding_size=shard), copies // shard
    reduced = (shard - 1) / shard * PARAMETERS + 2 * (groups - 1) / groups * PARAMETERS / shard
    for kind, expected in ((ALL_REDUCE, reduced), (ALL_GATHER, (shard - 1) / shard * PARAMETERS)):
        sent = np.bincount(program.source, np.where(program.kind == kind, program.size, 0))
        np.testing.assert_allclose(sent, expected, rtol=1e-12)
    timeline = run(program)
    assert timeline.start[program.kind == ALL_REDUCE].min() == timeline.end[program.is_compute].max()


@pytest.mark.parametrize("sharding", ["zero1", "zero2", "zero3"])
def test_shards_of_one_replica_are_none(sharding):
    """Once, the sums between groups of one did not wait for the backwards."""
    alone, plain = run(one_stage(3, sharding=sharding, sharding_size=1)), run(one_stage(3))
    assert alone.same_as(plain)


def test_a_size_of_groups_that_divides_no_replicas_is_refused():
    with pytest.raises(InputError, match="4 replicas found; a multiple of sharding_size = 3"):
        one_stage(4, sharding="zero1", sharding_size=3)
    with pytest.raises(InputError, match="sharding_size"):
        Options(sharding="zero1", sharding_size=0)


@pytest.mark.parametrize(("copies", "tensor", "context"), [(2, 1, 2), (3, 2, 2), (1, 2, 3)])
def test_gpus_that_share_sequences_hold_the_same_parameters_and_reduce_with_the_replicas(copies, tensor, context):
    program = one_stage(copies, width=tensor * context, context=context)
    group = copies * context
    sizes = program.size[program.kind == ALL_REDUCE]
    assert len(sizes) == tensor * group
    np.testing.assert_allclose(sizes, 2 * (group - 1) / group * PARAMETERS / tensor, rtol=1e-12)


def test_without_parameters_nothing_is_exchanged():
    for sharding in ("none", "zero1", "zero2", "zero3"):
        program = replicated(sharding=sharding)
        assert np.isin(program.kind, COLLECTIVES).any()
    trace = pipeline_trace([60], [120])
    plan = Plan("one", 1, 2, (Stage(0, 1, ("g0", "g1")),), "whole")
    for sharding in ("none", "zero1", "zero2", "zero3"):
        setup = Setup(plan, one_f_one_b(plan), costs_of(trace), star(2), Options(sharding=sharding))
        assert not np.isin(lower(setup).kind, COLLECTIVES).any()


# --- overlap ---------------------------------------------------------------------------------------------------------

MANY = int(5 * BUCKET * 2)  # bytes of five buckets


def overlapped(overlap, backward=40_000_000, hop_ns=0, latency=0.0, **options):
    """Two stages of two replicas; the first stage's last backward waits for its gradients."""
    trace = pipeline_trace([1_000_000] * 2, [backward] * 2, [hop_ns], MANY)
    plan = Plan("two", 2, 3, (Stage(0, 1, ("g0", "g1")), Stage(1, 2, ("g2", "g3"))))
    setup = Setup(
        plan, one_f_one_b(plan), costs_of(trace), star(4, latency), Options(gradient_overlap=overlap, **options)
    )
    return run(lower(setup))


@pytest.mark.parametrize("sharing", ["none", "fair"])
@pytest.mark.parametrize("sharding", ["none", "zero1"])
@pytest.mark.parametrize("backward", [1_000, 40_000_000, 900_000_000])
def test_overlap_hides_at_most_the_last_backward_and_costs_nothing(sharing, sharding, backward):
    """But under fifo, where a ring that is ahead holds links that gradients of other stages wait for."""
    for hop in (0, 300_000_000):
        plain, beside = (overlapped(on, backward, hop, sharing=sharing, sharding=sharding) for on in (False, True))
        gathered = lasting(plain, ALL_GATHER) if sharding == "zero1" else 0
        hidden = plain.makespan - beside.makespan
        assert 0 <= hidden <= backward + gathered


@pytest.mark.parametrize("sharing", ["none", "fair", "fifo", "channel"])
@pytest.mark.parametrize("backward", [1_000, 40_000_000, 9_000_000_000])
def test_overlap_of_one_stage_costs_at_most_the_latencies_of_one_more_ring(sharing, backward):
    """Buckets are reduced one after the other, as NCCL does: with little to hide behind, that is a latency more."""
    trace = pipeline_trace([1_000_000], [backward], parameters=MANY)
    plan = Plan("one", 1, 3, (Stage(0, 1, ("g0", "g1")),))
    for latency in (0.0, 1e-3):
        plain, beside = (
            run(
                lower(
                    Setup(
                        plan, one_f_one_b(plan), costs_of(trace), star(2, latency),
                        Options(sharing, gradient_overlap=overlap),
                    )
                )
            )
            for overlap in (False, True)
        )  # fmt: skip
        ring = 2 * (2 - 1) * round(2 * latency * 1e9)
        assert -ring <= plain.makespan - beside.makespan <= backward


def test_no_bucket_is_reduced_before_the_last_backward_has_begun():
    """Once, buckets were reduced while the last backward waited for its gradients: more was hidden than it takes."""
    timeline = overlapped(True, hop_ns=300_000_000)
    program = timeline.program
    for stage in (0, 1):
        compute = np.flatnonzero(program.is_compute & (program.stage == stage))
        first = timeline.start[(program.kind == ALL_REDUCE) & (program.stage == stage) & (program.size > 0)].min()
        assert first >= timeline.start[compute].max()


# --- what is tied, and the norm --------------------------------------------------------------------------------------


def tied(kinds, stages, **options):
    trace = pipeline_trace([10] * 2, [20] * 2, [5], 900)
    trace = replace(trace, layers=trace.layers | {"kind": np.array(kinds, object)})
    plan = Plan("tied", 2, 2, tuple(Stage(a, b, devices) for a, b, devices in stages), "whole")
    rows = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1" if stages[0][2] != stages[-1][2] else "0F0,1F0,1B0,0B0,0F1,1F1,1B1,0B1"
    return lower(Setup(plan, parse(rows), costs_of(trace), star(2), Options(tied_all_reduce=True, **options)))


def test_a_tied_embedding_is_summed_only_where_there_is_one_and_two_stages_hold_it():
    apart, together = [(0, 1, ("g0",)), (1, 2, ("g1",))], [(0, 1, ("g0",)), (1, 2, ("g0",))]
    both = tied(["embedding", "tied_head"], apart)
    assert both.size[both.kind == ALL_REDUCE].tolist() == [900, 900]
    for kinds, stages in ((["embedding", "head"], apart), (["embedding", "tied_head"], together)):
        assert not (tied(kinds, stages).kind == ALL_REDUCE).any()


def test_steps_of_the_stages_that_hold_a_tied_embedding_wait_for_its_sum():
    timeline = run(tied(["embedding", "tied_head"], [(0, 1, ("g0",)), (1, 2, ("g1",))], optimizer_s_per_byte=1e-9))
    kind = timeline.program.kind
    assert timeline.start[kind == OPTIMIZER].min() == timeline.end[kind == ALL_REDUCE].max()


@pytest.mark.parametrize("sharding", ["none", "zero1"])
def test_the_last_stage_reduces_steps_on_and_gathers_its_own_copy_of_a_tied_embedding(sharding):
    trace = pipeline_trace([10] * 2, [20] * 2, [5], 900)
    trace = replace(trace, layers=trace.layers | {"kind": np.array(["embedding", "tied_head"], object)})
    given = {"sharding": sharding, "optimizer_s_per_byte": 1e-9, "fit": False, "microbatches": 2}
    cluster = 'flat(4, bandwidth="1GB/s", device="any", memory="1GB")'
    made = ps.make_setup(trace, cluster, pipeline=2, data=2, tied_all_reduce=True, **given)
    assert [exchange_of(made, n).gradients for n in (0, 1)] == [900, 1800]
    program = lower(made)
    shards = 1 if sharding == "none" else 2
    steps = program.kind == OPTIMIZER
    assert program.duration[steps & (program.stage == 1)].tolist() == [1800 / shards] * 2
    assert program.duration[steps & (program.stage == 0)].tolist() == [900 / shards] * 2
    moved = [program.size[(program.stage == n) & np.isin(program.kind, [ALL_REDUCE, ALL_GATHER])].sum() for n in (0, 1)]
    tied = 2 * 2 * 900  # a ring of two for each pair of replicas, counted with the first stage
    assert moved == [2 * 900 + tied, 2 * 1800]


def test_no_step_begins_before_all_gradients_of_all_stages_are_reduced():
    judged = []

    def judge(job):
        program = lower(
            Setup(*job[:4], replace(job.options, gradient_norm=True, optimizer_s_per_byte=1e-9), job.scenario)
        )
        try:
            timeline = run(program)
        except DeadlockError:
            return
        steps, reduced = program.kind == OPTIMIZER, program.kind == ALL_REDUCE
        judged.append(reduced.any())
        if reduced.any():
            assert timeline.start[steps].min() >= timeline.end[reduced].max()

    for_drawn(EAGER, 40, judge)
    assert sum(judged) > 10


EAGER = team_jobs(transfers=("eager",), calm=True)
