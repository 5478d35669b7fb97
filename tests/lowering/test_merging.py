"""Jobs on one cluster: each is as it is alone where they share nothing, and every rule holds where they do."""

from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from pipesim.base.errors import InputError, RefusedError
from pipesim.engines import by_name
from pipesim.lowering.merging import Part, merge

CLUSTER = ps.load_cluster('servers(4, 2, intra="25GB/s", inter="10Gb/s", latency="3us")')
SHARINGS = ("fair", "fifo", "none")


def program(*devices, microbatches=4, cluster=CLUSTER, **options):
    """BERT-large on these devices, sending over the links of the whole cluster."""
    part = replace(cluster, devices=tuple(cluster.device(name) for name in devices))
    setup = ps.make_setup("bert-large", part, microbatches=microbatches, **options)
    return ps.lower(replace(setup, cluster=cluster))


def on_nodes(*nodes, **options):
    return program(*(device.name for device in CLUSTER.devices if device.node in nodes), **options)


def on_gpu(number, **options):
    return program(*(device.name for device in CLUSTER.devices if device.name.endswith(f"gpu{number}")), **options)


@pytest.mark.parametrize("engine", ["event", "compiled"])
@pytest.mark.parametrize("sharing", SHARINGS)
def test_jobs_on_links_of_their_own_are_bit_for_bit_as_alone(sharing, engine):
    one = on_nodes("node0", "node1", sharing=sharing, optimizer_s_per_byte=1e-12)
    other = on_nodes("node2", "node3", sharing=sharing, scheduler="gpipe", microbatches=5)
    both = merge([Part(one), Part(other)])
    timeline = by_name.run(both.program, engine)
    timeline.verify()
    for job, mine in enumerate((one, other)):
        alone = by_name.run(mine, engine)
        assert np.array_equal(timeline.start[both.job == job], alone.start)
        assert np.array_equal(timeline.end[both.job == job], alone.end)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_on_shared_links_bytes_balance_every_rule_holds_and_both_engines_agree(sharing):
    parts = [Part(on_gpu(0, sharing=sharing), 3), Part(on_gpu(1, sharing=sharing, scheduler="gpipe"), 4, 1_000_000)]
    both = merge(parts)
    timelines = [by_name.run(both.program, engine) for engine in ("event", "compiled")]
    for timeline in timelines:
        timeline.verify()
    assert timelines[0].same_as(timelines[1])
    alone = [by_name.run(part.program, "event") for part in parts]
    expected = sum(part.iterations * timeline.moved for part, timeline in zip(parts, alone, strict=True))
    assert timelines[0].moved == pytest.approx(expected)
    assert (sum((timeline.moved > 0).astype(int) for timeline in alone) > 1).any(), "some link is used by both"
    for job, part in enumerate(parts):
        took = timelines[0].end[both.job == job].max() - part.start
        apart = part.iterations * alone[job].makespan
        assert took == apart if sharing == "none" else took > apart


def test_an_iteration_begins_when_the_one_before_has_ended():
    one = on_gpu(0)
    alone, both = by_name.run(one, "event"), merge([Part(one, 3, 500)])
    timeline = by_name.run(both.program, "event")
    for iteration in range(3):
        mine = both.iteration == iteration
        assert np.array_equal(timeline.start[mine], alone.start + 500 + iteration * alone.makespan)
    assert (both.job[both.iteration < 0] == -1).all()


def test_one_job_once_is_the_program_itself():
    one = on_gpu(0)
    assert merge([Part(one)]).program.same_as(one)


def test_jobs_take_turns_on_devices_that_they_may_share():
    """What was ready first runs first; a job keeps its own order, and a device does one thing at a time."""
    one, other = on_gpu(0), on_gpu(0, microbatches=3, scheduler="gpipe")
    with pytest.raises(InputError, match=r"device 'node0\.gpu0' is used by job 0 and job 1"):
        merge([Part(one), Part(other)])
    both = merge([Part(one, 2), Part(other, 2)], share_devices=True)
    assert both.program.devices == one.devices
    timelines = [by_name.run(both.program, engine) for engine in ("event", "compiled")]
    timelines[0].verify()
    assert timelines[0].same_as(timelines[1])
    for lane, tasks in enumerate(both.program.order):
        job = both.job[tasks]
        assert {*job.tolist()} == {0, 1}
        assert (np.diff(job) != 0).sum() > 2, "jobs alternate"
        mine = tasks[(job == 0) & (both.iteration[tasks] == 0)]
        assert np.array_equal(mine, one.order[lane])
    assert np.array_equal(both.program.static_memory, one.static_memory + other.static_memory)
    assert timelines[0].makespan > 2 * max(by_name.run(program, "event").makespan for program in (one, other))


def test_sizes_add_up():
    one, other = on_gpu(0), on_gpu(1, microbatches=6)
    both = merge([Part(one, 2), Part(other, 3)]).program
    assert both.samples == 2 * one.samples + 3 * other.samples
    assert both.flops == pytest.approx(2 * one.flops + 3 * other.flops)
    assert both.peak_flops == pytest.approx(one.peak_flops + other.peak_flops)
    assert merge([Part(one), Part(replace(other, flops=None))]).program.flops is None


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        (list, InputError, "at least one was expected"),
        (lambda: [Part(on_gpu(0), 0)], InputError, "iterations = 0 found"),
        (lambda: [Part(on_gpu(0), 1, -1)], InputError, "start = -1 found"),
        (lambda: [Part(on_gpu(0, sharing="channel"))], RefusedError, "which jobs cannot share"),
        (lambda: [Part(on_gpu(0)), Part(on_gpu(1, sharing="fifo"))], InputError, "'fair' was expected, as job 0"),
        (
            lambda: [Part(on_gpu(0)), Part(ps.lower(ps.make_setup("bert-large", 'flat(2, bandwidth="1GB/s")')))],
            InputError,
            "one cluster was expected",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused(parts, error, message):
    with pytest.raises(error, match=message):
        merge(parts())


def test_jobs_under_other_speeds_of_links_are_refused():
    slow = replace(on_gpu(1), media_speeds={0: ps.core.scenario.Speeds((0,), (0.5,))})
    with pytest.raises(InputError, match="other speeds of links"):
        merge([Part(on_gpu(0)), Part(slow)])
