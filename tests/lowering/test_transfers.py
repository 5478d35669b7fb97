"""Transfers: who sends how much to whom, and in which order."""

import numpy as np
import pytest
from hypothesis import given, settings

import pipesim as ps
from helpers.networks import chain, pipeline, pipeline_trace
from helpers.small_programs import replicated, star
from helpers.strategies import at_widths, even_trace, jobs
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ACTIVATION, FORWARD, GRADIENT
from pipesim.core.schedule import parse
from pipesim.core.teams import Widths
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.transfers import messages_between
from pipesim.schedulers.gpipe import gpipe


def test_split_replicas_send_all_to_all_their_share_of_the_bytes():
    program = replicated()
    forward = program.kind == ACTIVATION
    assert forward.sum() == 4 * 3 * 2
    assert set(program.size[forward]) == {600 / 6}
    pairs = set(zip(program.source[forward].tolist(), program.target[forward].tolist(), strict=True))
    assert pairs == {(a, b) for a in (0, 1, 2) for b in (3, 4)}
    assert set(program.size[program.kind == GRADIENT]) == {600 / 6}


def test_whole_microbatches_go_from_their_replica_to_their_replica():
    program = replicated("whole", microbatches=6)
    forward = program.kind == ACTIVATION
    assert [(m % 3, 3 + m % 2) for m in program.microbatch[forward].tolist()] == list(
        zip(program.source[forward].tolist(), program.target[forward].tolist(), strict=True)
    )
    assert set(program.size[forward]) == {600}
    assert set(program.duration[(program.kind == FORWARD)]) == {60}


@settings(max_examples=80)
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


def test_a_message_on_a_channel_that_takes_no_time_leaves_a_finite_capacity():
    """One byte at 10^16 bytes/s takes 0 ns: its channel's rate was a division by zero."""
    link = Link("g0", "g1", 1e16)
    cluster = Cluster("fast", (Device("g0", "any"), Device("g1", "any")), (link,))
    plan = Plan("by hand", 2, 1, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    costs = costs_of(pipeline_trace([1, 1], [1, 1], [1]))
    program = lower(Setup(plan, gpipe(plan), costs, cluster, Options("channel")))
    assert np.isfinite(program.capacity).all()
    assert run(program).makespan == 4


def test_a_team_gathers_what_its_gpus_receive_in_parts():
    """With sends of parts, the ring inside the receiving team is what all of the tensor costs there."""
    found = {}
    for scattered in (False, True):
        result = ps.simulate(
            "model:gpt2-medium", "hgx_h100(2)", tensor=8, pipeline=2, data=1, microbatches=2, scatter_sends=scattered
        )
        result.timeline.verify()
        program = result.timeline.program
        moved = program.kind == ACTIVATION
        found[scattered] = program.size[moved & (program.source != program.target) & (program.microbatch == 0)]
        inside = program.size[moved & (program.source == program.target) & (program.microbatch == 0)]
        cut = result.setup.costs.model.cut_bytes[result.setup.plan.cuts[0] - 1]
        assert inside.tolist() == ([7 * cut / 8] * 8 if scattered else [])
        assert found[scattered].sum() == (cut if scattered else 8 * cut)


def test_each_message_takes_its_software_beside_its_links_and_what_a_team_gathers_does_not():
    """The links are as busy as before, and messages of two teams wait side by side."""
    found = [
        ps.simulate(
            "model:gpt2-medium", "hgx_h100(2)", tensor=8, pipeline=2, data=1, microbatches=1, scatter_sends=True,
            message_time=time,
        ).timeline
        for time in (0, "3ms")
    ]  # fmt: skip
    before, after = (timeline.program for timeline in found)
    sent = np.isin(after.kind, [ACTIVATION, GRADIENT]) & (after.source != after.target)
    assert (after.delay - before.delay).tolist() == np.where(sent, 3_000_000, 0).tolist()
    assert after.size.tolist() == before.size.tolist()
    assert found[1].makespan - found[0].makespan == 2 * 3_000_000  # one tensor forward, one back


WIDTHS = [Widths(tensor, context) for tensor in (1, 2, 3, 4, 8) for context in (1, 2, 3)]


@pytest.mark.parametrize("source", WIDTHS, ids=str)
def test_messages_between_teams_give_each_receiver_what_it_needs(source):
    """Parts are exact intervals of the sequence; a tensor that is not scattered is whole on each of t GPUs."""
    for target in WIDTHS:
        scattered = messages_between(source, target, scattered=True)
        assert sum(message.part for message in scattered) == pytest.approx(1)
        for side, gpus in (("source", source.gpus), ("target", target.gpus)):
            parts = np.bincount(
                [getattr(message, side) for message in scattered], [message.part for message in scattered], gpus
            )
            np.testing.assert_allclose(parts, 1 / gpus, err_msg=f"{side} of {source} to {target}")
        whole = messages_between(source, target, scattered=False)
        got = np.zeros((target.gpus, 6 * 6))
        for message in whole:
            here, there = message.source // source.tensor, message.target // target.tensor
            has = {i for i in range(36) if i * source.context // 36 == here}
            needs = {i for i in range(36) if i * target.context // 36 == there}
            assert message.part == pytest.approx(len(has & needs) / 36)
            got[message.target, list(has & needs)] += 1
        for gpu, times in enumerate(got):
            needed = [i * target.context // 36 == gpu // target.tensor for i in range(36)]
            assert np.array_equal(times, needed), f"GPU {gpu} of {target}: each place of its sequence exactly once"


def test_a_team_that_shares_sequences_gathers_only_its_part_of_them():
    """Once, each GPU gathered the sequence of all of the team."""
    names = [f"g{i}" for i in range(8)]
    plan = Plan(
        "two", 2, 1, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g4",))), teams=(tuple(names[:4]), tuple(names[4:])), context=2
    )
    trace = at_widths(pipeline_trace([10] * 2, [20] * 2, [800]), plan)
    setup = Setup(plan, gpipe(plan), costs_of(trace, widths=plan.widths(0)), star(8), Options(scatter_sends=True))
    program = lower(setup)
    inside = (program.source == program.target) & (program.kind == ACTIVATION)
    assert program.size[inside].tolist() == [200] * 4, "of 400 bytes each has 200, and receives 200"
    assert program.size[(program.kind == ACTIVATION) & ~inside].tolist() == [200] * 4
