"""The least time per microbatch among plans that fit in memory."""

import dataclasses
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import KINDS, clusters, even_trace, traces
from pipesim.analysis import metrics
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.engines import event
from pipesim.lowering import Setup, lower
from pipesim.planners import piper as module
from pipesim.planners.piper import piper
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies.loading import load_cluster


def plan_of(trace, cluster, microbatches, **options):
    costs = costs_of(trace)
    return piper(costs.model, cluster, costs, microbatches, **options)


@st.composite
def tight(draw):
    """Clusters whose devices hold nothing to all of a model, or whose memory is not known."""
    cluster = draw(clusters(draw(st.integers(1, 4)), kinds=KINDS))
    sizes = st.one_of(st.just(0), st.integers(1, 12).map(lambda k: k * 4_000_000))
    return dataclasses.replace(
        cluster, devices=tuple(dataclasses.replace(device, memory=draw(sizes)) for device in cluster.devices)
    )


def every_plan(layers, devices):
    """(bounds, groups): contiguous stages on neighbours in the order, with idle devices between stages or without."""
    for x in range(1, min(layers, len(devices)) + 1):
        for ends in combinations(range(2 * len(devices)), 2 * x):
            if all(end % 2 == place % 2 for place, end in enumerate(ends)):  # even: a first device, odd: a last one
                groups = [devices[i // 2 : j // 2 + 1] for i, j in zip(ends[::2], ends[1::2], strict=True)]
                for cuts in combinations(range(1, layers), x - 1):
                    yield [0, *cuts, layers], groups


def bottleneck(costs, cluster, bounds, groups, microbatches):
    """The slowest stage or transfer, added up in the plainest way."""
    rates = np.minimum(cluster.bandwidth_matrix, cluster.bandwidth_matrix.T)
    slowest = 0.0
    for n, ((a, b), group) in enumerate(zip(pairwise(bounds), groups, strict=True)):
        k, places = len(group), [cluster.index[device.name] for device in group]
        seconds = [(costs.forward(d.kind, 1 / k) + costs.backward(d.kind, 1 / k))[a:b].sum() for d in group]
        reduce = 2 * (k - 1) / k * costs.model.parameter_bytes[a:b].sum() / rates[np.ix_(places, places)].min()
        slowest = max(slowest, max(seconds) + reduce / microbatches)
        if n + 1 < len(groups):
            rate = rates[places[-1], cluster.index[groups[n + 1][0].name]]
            slowest = max(slowest, 2 * costs.model.cut_bytes[b - 1] / k / rate)
    return slowest


def bytes_short(costs, bounds, groups, microbatches):
    """Of the device that lacks the most: Adam's state is twice the parameters, gradients once more."""
    worst = 0
    for n, ((a, b), group) in enumerate(zip(pairwise(bounds), groups, strict=True)):
        flying = min(len(groups) - n, microbatches)
        stash = round(costs.model.stash_bytes[a:b].sum() / len(group))
        need = 4 * costs.model.parameter_bytes[a:b].sum() + flying * stash
        worst = max([worst] + [need - device.memory for device in group if device.memory])
    return worst


@settings(max_examples=80)
@given(traces(kinds=KINDS), tight(), st.integers(1, 6))
def test_the_plan_is_the_fastest_of_all_that_fit_and_else_the_error_tells_the_least_that_is_short(
    trace, cluster, microbatches
):
    costs = costs_of(trace)
    devices = sorted(cluster.devices, key=lambda device: device.node)
    every = list(every_plan(len(costs.model), devices))
    short = [bytes_short(costs, *plan, microbatches) for plan in every]
    if min(short) > 0:
        with pytest.raises(InputError, match=rf"no plan fits the memory .* {min(short):.0f} bytes short"):
            plan_of(trace, cluster, microbatches)
        return
    least = min(
        bottleneck(costs, cluster, *plan, microbatches) for plan, lacks in zip(every, short, strict=True) if lacks <= 0
    )
    plan = plan_of(trace, cluster, microbatches)
    held = [[cluster.device(name) for name in stage.devices] for stage in plan.stages]
    bounds = [0, *plan.cuts, len(costs.model)]
    assert plan.objective_s == pytest.approx(least)
    assert bottleneck(costs, cluster, bounds, held, microbatches) == pytest.approx(least)
    assert bytes_short(costs, bounds, held, microbatches) == 0


@given(traces(kinds=KINDS), tight(), st.integers(1, 6))
def test_what_it_plans_fits_when_it_is_simulated_under_one_f_one_b(trace, cluster, microbatches):
    try:
        plan = plan_of(trace, cluster, microbatches)
    except InputError:
        return
    program = lower(Setup(plan, one_f_one_b(plan), costs_of(trace), cluster))
    assert metrics.fits_memory(event.run(program))


def pair(memory, other):
    devices = (Device("gpu0", "any", "node0", memory), Device("gpu1", "any", "node0", other))
    return Cluster("pair", devices, (Link("gpu0", "gpu1", 1e9),))


def test_a_stage_too_large_is_named_with_its_bytes_by_hand():
    """4 layers of 1 MB: 16 MB of parameters, gradients and Adam's state, and 1 MB of stash per layer and microbatch.

    Two stages: 8 MB and 2 MB for each microbatch in flight, two in the first stage, one in the last: 12 MB and 10 MB.
    """
    assert plan_of(even_trace(4), pair(12_000_000, 10_000_000), 4).cuts == (2,)
    with pytest.raises(
        InputError,
        match=r"2 stages, stage 0 \(layers 0 to 1 .* 2 microbatches .*'gpu0' has 11000000: 1000000 bytes short",
    ):
        plan_of(even_trace(4), pair(11_000_000, 10_000_000), 4)


def test_memory_decides_against_the_fastest_plan():
    """Both devices hold all layers in the fastest plan; with less memory a pipeline must do."""
    trace = even_trace(4, output_bytes=1_000_000, parameter_bytes=1_000_000)
    trace.layers["forward_s"][:] = [6e-3, 1e-3, 1e-3, 1e-3]
    free, small = plan_of(trace, pair(0, 0), 64), plan_of(trace, pair(16_000_000, 16_000_000), 64)
    assert free.replication == (2,)
    assert small.replication == (1, 1)
    assert small.objective_s > free.objective_s


def test_one_microbatch_is_never_two_in_flight():
    """As above with one microbatch: 10 MB are enough for both stages."""
    assert plan_of(even_trace(4), pair(10_000_000, 10_000_000), 1).cuts == (2,)


def test_replicas_send_their_shares_at_the_same_time():
    """The first layer on two devices: 30 ms, and 100 MB of gradients in each of 64 microbatches' share: 1.5625 ms.

    Each of the two sends and receives 15 MB of the 30 MB at 1 GB/s, which takes 30 ms; one alone would take 60 ms.
    """
    trace = even_trace(2, output_bytes=30_000_000)
    trace.layers["forward_s"][:], trace.layers["backward_s"][:] = [20e-3, 10e-3], [40e-3, 15e-3]
    trace.layers["parameter_bytes"][:] = [100_000_000, 1_000_000_000]
    plan = plan_of(trace, load_cluster('flat(3, bandwidth="1GB/s")'), 64)
    assert plan.replication == (2, 1)
    assert plan.objective_s == pytest.approx(30e-3 + 1.5625e-3)


def test_optimizer_state_is_what_the_user_says():
    """Without optimizer state, 4 layers need 8 MB and their stash, 4 MB, on one device."""
    cluster = Cluster("one", (Device("gpu0", "any", "", 12_000_000),))
    assert plan_of(even_trace(4), cluster, 4, optimizer_state=0.0).replication == (1,)
    with pytest.raises(InputError, match="8000000 bytes short"):
        plan_of(even_trace(4), cluster, 4)


@given(traces(kinds=KINDS), tight(), st.integers(1, 6))
def test_without_the_limit_memory_changes_nothing(trace, cluster, microbatches):
    unknown = dataclasses.replace(
        cluster, devices=tuple(dataclasses.replace(device, memory=0) for device in cluster.devices)
    )
    found = plan_of(trace, cluster, microbatches, memory_limit=False)
    assert found == plan_of(trace, unknown, microbatches)


def test_a_device_that_holds_nothing_stays_idle():
    devices = tuple(Device(f"gpu{i}", "any", "node0", 1 if i == 1 else 0) for i in range(3))
    cluster = Cluster("gap", devices, tuple(Link(a.name, b.name, 1e9) for a, b in combinations(devices, 2)))
    plan = plan_of(even_trace(4), cluster, 4)
    assert [stage.devices for stage in plan.stages] == [("gpu0",), ("gpu2",)]


def test_twice_the_seconds_at_half_the_bandwidth_are_twice_the_objective():
    trace = even_trace(7)
    double = {name: trace.layers[name] * 2 for name in ("forward_s", "backward_s")}
    slow = dataclasses.replace(trace, layers=trace.layers | double)
    fast, narrow = (load_cluster(f'flat(5, bandwidth="{rate}")') for rate in ("2GB/s", "1GB/s"))
    assert plan_of(slow, narrow, 8).objective_s == 2 * plan_of(trace, fast, 8).objective_s


@settings(max_examples=40)
@given(traces(kinds=KINDS), tight(), st.integers(1, 6))
def test_the_kernel_finds_what_its_plain_twin_finds(trace, cluster, microbatches):
    """Plans and errors alike, with the limit and without."""
    for limit in (True, False):
        found = []
        for small in (-1, 10**9):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, "SMALL", small)
                try:
                    found.append(plan_of(trace, cluster, microbatches, memory_limit=limit))
                except InputError as error:
                    found.append(str(error))
        assert found[0] == found[1]
