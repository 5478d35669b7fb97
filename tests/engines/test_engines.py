"""All engines: the same results, on random programs and on those that once differed."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers import strategies
from helpers.contracts import check_engine
from helpers.networks import LATE_BUT_FIRST, late_but_first, network, pipeline_trace
from pipesim.base import kernels, lookup
from pipesim.base.errors import DeadlockError, RefusedError, ScheduleError
from pipesim.core import limits
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import TRANSFERS
from pipesim.core.scenario import Speeds
from pipesim.core.sharing import SHARINGS
from pipesim.engines import ENGINES, compiled, event, selection
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.setup import SHARDINGS
from pipesim.schedulers.gpipe import gpipe
from pipesim.studies import equal_stages, loading, results


@settings(max_examples=40)
@given(program=st.one_of(strategies.programs, strategies.even_programs))
def test_every_engine_obeys_the_rules_and_agrees_with_the_reference(program):
    """In all that is written too, such as rates and their order: exports and figures have the same bytes."""
    reference = event.run(program)
    for name in ENGINES:
        if name != event.NAME:
            check_engine(lookup.function_named(ENGINES[name], {}, "engine"), program, reference)
    ordered = compiled.in_fixed_order(program)
    assert ordered is None or ordered.same_as(reference)


def test_engines_agree_on_teams_sharding_and_every_way_of_posting():
    """All that data parallelism does, widths that differ per stage, and every sharing rule; or all say it is stuck."""
    ended = []

    def judge(job):
        program = job.program
        try:
            reference = event.run(program)
        except DeadlockError as error:
            with pytest.raises(DeadlockError, match=re.escape(str(error))):
                compiled.run(program)
            return
        check_engine(compiled.run, program, reference)
        ordered = compiled.in_fixed_order(program)
        assert ordered is None or ordered.same_as(reference)
        ended.append(job)

    strategies.for_drawn(strategies.any_team_jobs, 100, judge)
    strategies.for_drawn(strategies.paired_team_jobs, 10, judge)
    assert len(ended) > 70
    # What is drawn depends on the modules that are loaded: Hypothesis draws constants that it finds in them.
    for transfers in set(TRANSFERS) - {job.options.transfers for job in ended}:
        for job in ended[:]:
            judge(job._replace(options=replace(job.options, transfers=transfers)))
    assert {job.options.sharding for job in ended} == set(SHARDINGS)
    assert {job.options.transfers for job in ended} == set(TRANSFERS)


@pytest.mark.parametrize("sharing", ["fifo", "none"])
def test_a_pipeline_is_played_in_fixed_order(sharing):
    times = equal_stages.Times.of(1, 2, hop=0.25)
    program = lower(equal_stages.setup("one_f_one_b", 4, 8, times, None, Options(sharing)))
    timeline = compiled.in_fixed_order(program)
    assert timeline is not None
    assert timeline.same_as(event.run(program))


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize(
    "cluster", ["dgx1_v100", 'servers(2, 4, intra="25GB/s", inter="10Gb/s")', 'fat_tree(4, bandwidth="100Gb/s")']
)
@pytest.mark.parametrize("trace", ["bert-large", "resnet-152"])
def test_engines_agree_on_bundled_traces(trace, cluster, sharing):
    cluster = loading.load_cluster(cluster)
    planner = "balanced(stages=4)" if sharing == "channel" else "megatron"
    for scheduler, transfers in (("one_f_one_b", "eager"), ("interleaved", "rendezvous"), ("dualpipe", "eager")):
        try:
            case = results.make_setup(
                trace, cluster, planner, scheduler, 16, options=Options(sharing, transfers, optimizer_s_per_byte=1e-12)
            )
        except ScheduleError:
            continue
        program = lower(case)
        assert compiled.run(program).same_as(event.run(program))


@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_engines_agree_on_a_hundred_thousand_tasks(sharing):
    """128 stages, 256 microbatches, one link from each stage to the next; on a shared switch: test_benchmarks."""
    made = equal_stages.setup("one_f_one_b", 128, 256, equal_stages.Times.of(1, 2, hop=0.25), None, Options(sharing))
    program = lower(made)
    assert len(program) >= selection.LARGE
    timeline = selection.run(program)
    assert timeline.engine == "compiled"
    assert timeline.same_as(event.run(program))


@pytest.mark.parametrize("engine", [event, compiled])
def test_what_is_first_in_line_goes_at_once_even_if_it_came_last(engine):
    assert engine.run(late_but_first()).start[4:].tolist() == LATE_BUT_FIRST


@pytest.fixture
def in_python(monkeypatch):
    """Every kernel as Python runs it, which refuses to read or write beyond the end of an array."""
    monkeypatch.setattr(kernels._Compiled, "__call__", lambda self, *arguments: self.py_func(*arguments))


@pytest.mark.usefixtures("in_python")
@settings(max_examples=32, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=st.one_of(strategies.programs, strategies.even_programs))
def test_the_loop_stays_within_its_arrays(program):
    try:
        reference = event.run(program)
    except DeadlockError:
        return
    assert compiled.run(program).same_as(reference)


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize("seed", [0, 16])
def test_what_waits_has_room_however_often_rates_change(seed):
    """Three stages on 8, 6 and 2 devices of four servers: 60 transfers at once, of which each changes the rates of all.

    The 17th draw once wrote beyond the end of what waits: it was full when 48 transfers became ready at one moment.
    """
    rng = np.random.default_rng(seed)
    cluster = loading.load_cluster('servers(4, 4, intra="25GB/s", inter="1GB/s")')
    microbatches, stages = int(rng.integers(8, 20)), []
    forward, backward = (rng.integers(1, 3_000_000, 3).tolist() for _ in range(2))
    costs = costs_of(pipeline_trace(forward, backward, rng.integers(1, 9_000_000, 2).tolist(), 1000))
    names = [device.name for device in cluster.devices]
    for layer, (a, b) in enumerate(pairwise((0, 8, 14, 16))):
        stages.append(Stage(layer, layer + 1, tuple(names[a:b])))
    plan = Plan("m", 3, microbatches, tuple(stages))
    program = lower(Setup(plan, gpipe(plan), costs, cluster))
    assert compiled.run(program).same_as(event.run(program))


@pytest.mark.usefixtures("in_python")
def test_what_waits_has_room_however_often_ends_change_and_change_back():
    """Five devices in a chain, 84 microbatches at once over slow links: 169 flows that end within a nanosecond.

    Where an end changes and changes back, it waits twice; a clearance once kept both, until there was no room.
    """
    devices = tuple(Device(f"g{i}", "any", f"g{i}") for i in range(5))
    there = [(22, 1e-4, 4), (93, 5e-4, 2), (396, 1e-4, 4), (623, 5e-4, 1.2)]
    back = [(11975, 0, 0), (48, 5e-4, 0), (1248, 0, 2), (388, 1e-4, 0)]
    links = [
        Link(
            f"g{a}",
            f"g{b}",
            rate * 1e6,
            delay,
            "one_way",
            table=((0, delay), (1e9, delay + slow * 1e3 / rate)) * (slow > 0),
        )
        for ends, pairs in ((there, [(0, 1), (1, 2), (2, 3), (3, 4)]), (back, [(1, 0), (2, 1), (3, 2), (4, 3)]))
        for (rate, delay, slow), (a, b) in zip(ends, pairs, strict=True)
    ]
    costs = costs_of(pipeline_trace([12904, 2959283], [4048934, 16391280232], [801178], 110000))
    plan = Plan("m", 2, 84, (Stage(0, 1, ("g4",)), Stage(1, 2, ("g3", "g0"))))
    program = lower(Setup(plan, gpipe(plan), costs, Cluster("chain", devices, tuple(links))))
    assert compiled.run(program).same_as(event.run(program))


# --- many sets of durations ------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(program=st.one_of(strategies.programs, strategies.even_programs), seed=st.integers(0, 2**32 - 1))
def test_a_batch_of_durations_ends_as_each_alone(program, seed):
    """Compute tasks take other times, transfers their own; with a fixed order or without."""
    rng = np.random.default_rng(seed)
    durations = np.repeat(program.duration[:, None], 3, axis=1)
    compute = program.is_compute
    durations[compute] = rng.integers(1, 5_000_000, (compute.sum(), 3))
    found = compiled.makespans(program, np.arange(len(program)), durations)
    for n in range(3):
        assert event.run(program.with_durations(durations[:, n])).makespan == found[n]


@pytest.mark.parametrize("engine", [event.run, compiled.run])
@pytest.mark.parametrize("changes", [1, 2, 3, 400])
def test_a_link_may_change_its_speed_more_often_than_there_are_tasks(engine, changes):
    """Once, the n-th change of a program of fewer than n tasks was taken for an earlier one.

    100 bytes over 1 byte per ns, half of it from 50 ns on, and said again every ns after that.
    """
    program = network([1.0], [(0, 100, [0])], "fair")
    speeds = Speeds((0, *range(50, 50 + changes)), (1.0, *[0.5] * changes))
    assert engine(replace(program, media_speeds={0: speeds})).makespan == 150


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sharing", SHARINGS)
def test_engines_agree_where_speeds_change_all_the_time(sharing, seed):
    rng = np.random.default_rng(seed)
    flows = [
        (int(rng.integers(0, 50)), int(rng.integers(1, 400)), [[0], [1], [0, 1]][rng.integers(3)]) for _ in range(4)
    ]
    program = network([1.0, 0.7], flows, sharing)
    speeds = {}
    for medium in range(2):
        times = np.concatenate([[0], np.cumsum(rng.integers(1, 20, 200))]).tolist()
        speeds[medium] = Speeds(tuple(times), tuple(rng.choice([0.1, 0.3, 0.5, 1.0], len(times)).tolist()))
    program = replace(program, media_speeds=speeds)
    assert len(program) < 200
    check_engine(compiled.run, program, event.run(program))


@pytest.mark.parametrize("engine", [event.run, compiled.run])
def test_an_engine_stops_where_rates_change_more_often_than_memory_holds(engine, monkeypatch):
    """Where n transfers wait for one link, each end changes the rates of all others: n squared, kept in memory."""
    program = network([1.0], [(0, 100 * n, [0]) for n in range(1, 6)], "fair")
    changes = len(engine(program).rates.time)
    assert changes == 5 + 4 + 3 + 2 + 1
    monkeypatch.setattr(limits, "most_changes", lambda _: changes)
    assert engine(program).makespan == 1500
    monkeypatch.setattr(limits, "most_changes", lambda _: changes - 1)
    with pytest.raises(RefusedError, match=r"changed more than 14 times, more than .* hold: use fewer microbatches"):
        engine(program)
