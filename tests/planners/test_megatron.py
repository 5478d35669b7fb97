"""Uniform blocks, whole pipelines side by side."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import KINDS, at_widths, clusters, even_trace, traces
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.teams import Widths
from pipesim.planners.megatron import megatron
from pipesim.studies.loading import load_cluster

TWO_BY_TWO = 'servers(2, 2, intra="10GB/s", inter="1GB/s")'


def plan_of(trace, cluster, microbatches, **options):
    costs = costs_of(trace)
    return megatron(costs.model, cluster, costs, microbatches, **options)


def analytic_seconds(plan, costs, cluster):
    """The formula, read from a finished plan and added up in the plainest way."""
    blocks, positions, reduces = [], {}, {}
    data = len(plan.stages[0].devices)
    for stage in plan.stages:
        kinds = {cluster.device(name).kind for name in stage.devices}
        layers = slice(stage.start, stage.stop)
        seconds = {kind: (costs.forward(kind) + costs.backward(kind))[layers].sum() for kind in kinds}
        blocks.append(max(seconds.values()))
        for kind, value in seconds.items():
            positions[stage.devices, kind] = positions.get((stage.devices, kind), 0) + value
        reduces[stage.devices] = reduces.get(stage.devices, 0) + costs.model.parameter_bytes[layers].sum()
    longest = 0
    for devices, size in reduces.items():
        rates = [cluster.bandwidth_matrix[cluster.index[a], cluster.index[b]] for a in devices for b in devices]
        longest = max(longest, 2 * (data - 1) / data * size / min(rates))
    each = -(-plan.microbatches // data)
    return each * max(positions.values()) + (len(positions_of(plan)) - 1) * max(blocks) + longest


def positions_of(plan):
    return {stage.devices for stage in plan.stages}


def test_two_positions_on_two_nodes_by_hand():
    """8 layers of 3 ms: (8/2 + 1) x 12 ms, and 4 MB of gradients at 10 GB/s between two replicas in one node."""
    plan = plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, pipeline=2, data=2)
    assert plan.replicas == "whole"
    assert plan.cuts == (4,)
    assert [{name.partition(".")[0] for name in stage.devices} for stage in plan.stages] == [{"node0"}, {"node1"}]
    assert plan.objective_s == pytest.approx(5 * 12e-3 + 4e6 / 10e9)


def test_interleaving_puts_block_n_on_position_n_mod_pipeline_and_shortens_the_fill():
    plan = plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, pipeline=2, data=2, interleave=2)
    first, second = plan.stages[0].devices, plan.stages[1].devices
    assert [stage.devices for stage in plan.stages] == [first, second, first, second]
    assert plan.cuts == (2, 4, 6)
    assert plan.objective_s == pytest.approx(4 * 12e-3 + 1 * 6e-3 + 4e6 / 10e9)


def test_a_slow_network_makes_pipelines_and_a_fast_one_replicas():
    trace = even_trace(8, parameter_bytes=10_000_000)
    slow, fast = (load_cluster(f'flat(4, bandwidth="{rate}")') for rate in ("100MB/s", "100GB/s"))
    assert len(plan_of(trace, slow, 64).stages) == 4
    assert plan_of(trace, fast, 64).replication == (4,)


@given(traces(kinds=KINDS), clusters(), st.integers(1, 6), st.integers(1, 3))
def test_the_objective_is_the_analytic_time_and_the_least_of_all_layouts(trace, cluster, microbatches, interleave):
    layers, devices = trace.layer_count, len(cluster.devices)
    every = [
        plan_of(trace, cluster, microbatches, pipeline=p, data=devices // p, interleave=interleave)
        for p in range(1, devices + 1)
        if devices % p == 0 and p * interleave <= layers and (p > 1 or interleave == 1)
    ]
    for plan in every:
        assert plan.objective_s == pytest.approx(analytic_seconds(plan, costs_of(trace), cluster))
    if every:
        chosen = plan_of(trace, cluster, microbatches, interleave=interleave)
        assert chosen.objective_s == min(plan.objective_s for plan in every)


@given(st.integers(1, 12), clusters(), st.integers(1, 6))
def test_blocks_have_equally_many_layers_and_positions_equally_many_replicas(layers, cluster, microbatches):
    plan = plan_of(even_trace(layers), cluster, microbatches)
    counts = [b - a for a, b in pairwise([0, *plan.cuts, layers])]
    assert max(counts) - min(counts) <= 1
    assert len(set(plan.replication)) == 1
    assert len(plan.devices) == len(cluster.devices), "what is chosen uses all devices"


@given(traces(kinds=("any",)), clusters(), st.integers(1, 6))
def test_bytes_of_activations_are_ignored(trace, cluster, microbatches):
    wide = dataclasses.replace(
        trace, layers=trace.layers | {"output_bytes": np.zeros_like(trace.layers["output_bytes"])}
    )
    assert plan_of(wide, cluster, microbatches) == plan_of(trace, cluster, microbatches)


@pytest.mark.parametrize(
    "options",
    [
        {"pipeline": 3},
        {"data": 3},
        {"pipeline": 4, "data": 2},
        {"pipeline": 0, "data": 1},
        {"interleave": 0},
        {"pipeline": 4, "interleave": 3},
        {"pipeline": 1, "interleave": 2},
    ],
)
def test_what_does_not_fit_4_devices_and_8_layers_is_refused(options):
    with pytest.raises(InputError, match=r"pipeline x data = 4 .* \(4 devices, 8 layers\)"):
        plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, **options)


def test_both_sizes_given_may_leave_devices_idle():
    plan = plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, pipeline=3, data=1)
    assert plan.replication == (1, 1, 1)


def test_stated_blocks_are_the_cut_of_every_pipeline():
    plan = plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, pipeline=2, data=2, blocks=(5, 3))
    assert [(stage.start, stage.stop, len(stage.devices)) for stage in plan.stages] == [(0, 5, 2), (5, 8, 2)]


def test_stated_blocks_choose_the_length_of_the_pipeline():
    plan = plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, blocks=(2, 2, 2, 2))
    assert [len(stage.devices) for stage in plan.stages] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [((5, 4), "9 blocks found; 8 in all were expected"), ((8,), "1 stages found; pipeline x interleave = 2 x 1")],
)
def test_stated_blocks_that_do_not_fit_are_refused(blocks, message):
    with pytest.raises(InputError, match=message):
        plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, pipeline=2, data=2, blocks=blocks)


@pytest.mark.parametrize("options", [{"blocks": 8}, {"blocks": (4, 4.5)}, {"kinds": "v100"}, {"kinds": 1j}])
def test_lists_that_are_none_are_refused(options):
    with pytest.raises(InputError, match="in brackets were expected"):
        plan_of(even_trace(8), load_cluster(TWO_BY_TWO), 8, **options)


def test_kinds_that_are_stated_are_numbered_first():
    """Of two fast and two slow nodes of two, the slow ones take the first stages."""
    cluster = load_cluster('servers(4, 2, intra="25GB/s", inter="10Gb/s", device="a100-40gb")')
    slow = {"node1", "node3"}
    devices = [dataclasses.replace(one, kind="v100-32gb") if one.node in slow else one for one in cluster.devices]
    mixed = dataclasses.replace(cluster, devices=tuple(devices))
    plan = plan_of(even_trace(4), mixed, 8, pipeline=4, data=2, kinds=("v100-32gb",))
    assert [stage.devices[0].partition(".")[0] for stage in plan.stages] == ["node1", "node3", "node0", "node2"]
    with pytest.raises(InputError, match="kinds: 'h100' found; cluster 'servers-4x2' has a100-40gb, v100-32gb"):
        plan_of(even_trace(4), mixed, 8, pipeline=4, data=2, kinds=("h100",))


def test_positions_may_have_teams_of_several_widths():
    """Eight layers of 3 ms on one GPU: a team of two takes half of that, and the objective counts it."""
    cluster = load_cluster('servers(2, 4, intra="10GB/s", inter="1GB/s", device="v100-16gb")')
    names = [device.name for device in cluster.devices]
    wide = Plan("even", 8, 8, (Stage(0, 4, (names[0],)), Stage(4, 8, (names[2],))), teams=(tuple(names[:2]),))
    costs = costs_of(at_widths(even_trace(8, 1e-3, 2e-3), wide), widths=Widths())
    plan = megatron(costs.model, cluster, costs, 8, tensor=(2, 1), data=1)
    assert (plan.teams, plan.stages) == (wide.teams, wide.stages)
    assert plan.objective_s == pytest.approx(8 * 4 * 3e-3 + 4 * 3e-3)
    most = megatron(costs.model, cluster, costs, 8, tensor=(2, 1))
    assert [len(stage.devices) for stage in most.stages] == [2, 2]  # 2 x (2 + 1) of 8 GPUs
    cut = megatron(costs.model, cluster, costs, 8, tensor=(2, 1), data=1, blocks=(5, 3))
    assert cut.objective_s < plan.objective_s
    twice = megatron(costs.model, cluster, costs, 8, tensor=(2, 1), data=1, interleave=2)
    assert [twice.widths(n).tensor for n in range(4)] == [2, 1, 2, 1]


@pytest.mark.parametrize("options", [{"tensor": (0, 2)}, {"tensor": ()}, {"tensor": "2;2"}, {"tensor": (2, 1, 1, 2)}])
def test_widths_that_cannot_be_are_refused(options):
    with pytest.raises(InputError, match=r"tensor|teams of"):
        plan_of(even_trace(8, 1e-3, 2e-3), load_cluster(TWO_BY_TWO), 8, **options)
