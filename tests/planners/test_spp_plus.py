"""SPP and more: never worse than SPP, and each of its parts against the plain way."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import pipeline_trace
from helpers.strategies import clusters, even_trace, traces
from pipesim.analysis.bounds.islands import Network, best_partitions, island_model
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import ChannelColumns, in_blocks
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.kernels import compiled
from pipesim.core import plan as plans
from pipesim.core.costs import costs_of
from pipesim.planners.spp import spp
from pipesim.planners.spp_plus import spp_plus
from pipesim.planners.spp_plus.islands import LAYERS, _islands, _stages, _with_few_cuts, on_islands
from pipesim.planners.spp_plus.labels import best_labels, extended
from pipesim.studies import experiment
from pipesim.studies.pricing import simulated_seconds

SERVERS = 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'


@settings(max_examples=30)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 6))
def test_never_worse_than_spp_by_the_abstract_time(trace, cluster, microbatches):
    costs = costs_of(trace)

    def time(plan):
        pipeline = pipeline_of(plan, costs, cluster)
        return execute(pipeline).time(pipeline) / 1e9

    better = spp_plus(costs.model, cluster, costs, microbatches, evaluations=10)
    assert time(better) <= time(spp(costs.model, cluster, costs, microbatches)) * (1 + 1e-12)
    assert better.objective_s == pytest.approx(time(better))


@pytest.mark.parametrize("name", ["bert-large", "vgg-19"])
def test_never_worse_than_spp_on_the_contended_network(name):
    costs, cluster = costs_of(experiment.load_trace(name)), experiment.load_cluster(SERVERS)
    better = experiment.plan_with("spp_plus", costs, cluster, 8)
    first = experiment.plan_with("spp", costs, cluster, 8)
    assert better.objective_s == simulated_seconds(costs, cluster, better)
    assert better.objective_s <= simulated_seconds(costs, cluster, first)


def test_where_the_estimate_misleads_the_exact_time_decides():
    """An estimate that loves everything but SPP's plan, and an exact time that loves only that."""
    costs, cluster = costs_of(even_trace(6)), experiment.load_cluster('flat(3, bandwidth="1GB/s")')
    first = spp(costs.model, cluster, costs, 4)
    found = spp_plus(
        costs.model, cluster, costs, 4,
        estimate=lambda plan: 2.0 if plan.stages == first.stages else 1.0,
        exact=lambda plan: 1.0 if plan.stages == first.stages else 2.0,
    )  # fmt: skip
    assert found.stages == first.stages


# --- plans read off the bound's program ------------------------------------------------------------------------------

SLOW = 'servers(3, 2, intra="25GB/s", inter="25Gb/s")'


def with_a_slow_server(cluster, times=100):
    links = (
        replace(x, bandwidth=x.bandwidth / (times if {"node2.nic0", "core"} == {x.source, x.target} else 1))
        for x in cluster.links
    )
    return replace(cluster, links=tuple(links))


def program_of(costs, cluster, microbatches, replicas, block=1):
    network = Network(cluster)
    model = island_model(network, best_partitions(network)[0])
    return layer_sums(costs, cluster, microbatches, replicas), *in_blocks(model, replicas, microbatches, block)


@settings(max_examples=30)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.floats(0.2, 3))
def test_the_compiled_labels_are_their_plain_twin(trace, replicas, microbatches, share):
    costs, cluster = costs_of(trace), with_a_slow_server(experiment.load_cluster(SLOW), 4)
    tables, moves, _ = program_of(costs, cluster, microbatches, replicas)
    target = share * float(tables.work[1, -1])
    plain, fast = (best_labels(tables, moves, target, kernel) for kernel in (extended, compiled(extended)))
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


@settings(max_examples=50)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.floats(0.1, 3))
def test_stages_that_are_told_hang_together_and_keep_the_time_told(trace, replicas, microbatches, share):
    costs, cluster = costs_of(trace), with_a_slow_server(experiment.load_cluster(SLOW), 4)
    tables, moves, _ = program_of(costs, cluster, microbatches, replicas)
    target = share * float(tables.work[1, -1])
    steps = _stages(tables, moves, target)
    if steps is None:
        return
    assert [step.start for step in steps] == [0, *(step.stop for step in steps[:-1])]
    assert steps[-1].stop == len(costs.model)
    assert sum(moves.size[step.place] for step in steps) <= len(cluster.devices)
    head, channels = 0.0, ChannelColumns(*moves.channel.T, *np.moveaxis(moves.loads, 2, 0))
    for step in steps:
        if step.move >= 0:
            head += 2 * channels.delay[step.move] + tables.cut[step.start] * channels.round_trip[step.move]
        devices, layers = moves.size[step.place], slice(step.start, step.stop + 1, step.stop - step.start)
        weights = np.diff(tables.parameters[layers])[0]
        reduce = weights * moves.ring[step.place] + moves.ring_latency[step.place] * (weights > 0)
        work = np.diff(tables.work[devices, layers])[0]
        assert work + max(head, tables.forward_part * head + reduce) <= target * (1 + 1e-9)
        head += np.diff(tables.both[devices, layers])[0]


@pytest.mark.parametrize("seed", range(3))
def test_where_blocks_are_large_stages_may_still_have_any_number_of_devices(seed):
    rng, cluster = np.random.default_rng(seed), experiment.load_cluster('servers(6, 4, intra="25GB/s", inter="25Gb/s")')
    forward, backward = (rng.integers(1, 3000, 12).tolist() for _ in range(2))
    costs = costs_of(pipeline_trace(forward, backward, [1000] * 11, 10**4))
    network = Network(cluster)
    label = best_partitions(network)[0]
    assert _islands(network, label, 13)[1].block > 1
    found = list(on_islands(costs, cluster, 32, "split"))
    assert any(len(stage.devices) % 2 for plan in found for stage in plan.stages)
    for plan in found:
        plans.check_fits(plan, costs.model, cluster)


@settings(max_examples=30)
@given(traces(kinds=("any",)), clusters(), st.sampled_from(["split", "whole"]), st.integers(1, 6))
def test_plans_on_islands_are_different_and_fit(trace, cluster, replicas, microbatches):
    costs = costs_of(trace)
    found = list(on_islands(costs, cluster, microbatches, replicas))
    assert found
    assert len({plan.stages for plan in found}) == len(found)
    for plan in found:
        plans.check_fits(plan, costs.model, cluster)
        assert plan.replicas == replicas


def test_a_server_that_only_costs_time_stays_idle():
    """A link at a hundredth of the others' bandwidth: SPP takes the devices behind it too."""
    cluster = with_a_slow_server(experiment.load_cluster(SLOW))
    costs = costs_of(even_trace(6, parameter_bytes=1_000_000, output_bytes=200_000_000))
    better, first = (experiment.plan_with(name, costs, cluster, 8) for name in ("spp_plus", "spp"))
    assert {name.partition(".")[0] for name in better.devices} == {"node0", "node1"}
    assert simulated_seconds(costs, cluster, better) < 0.8 * simulated_seconds(costs, cluster, first)


def test_devices_taken_in_blocks_are_the_same_moves_where_a_block_is_one():
    costs, cluster = costs_of(even_trace(4)), experiment.load_cluster(SERVERS)
    _, one, chosen = program_of(costs, cluster, 4, "split")
    _, two, pairs = program_of(costs, cluster, 4, "split", block=2)
    even = chosen[(chosen % 2 == 0).all(axis=1)]
    assert {tuple(row) for row in pairs.tolist()} == {tuple(row) for row in even.tolist()}
    known = set(zip(map(tuple, chosen.tolist()), one.left.tolist(), one.ring.tolist(), strict=True))
    assert set(zip(map(tuple, pairs.tolist()), two.left.tolist(), two.ring.tolist(), strict=True)) <= known


def test_of_many_layers_the_small_cuts_stay():
    """200 layers, every tenth cut a hundredth of the others: no other is kept where one of those is near."""
    costs = costs_of(even_trace(200, output_bytes=np.where(np.arange(200) % 10 == 9, 10**4, 10**6)))
    _, cuts = _with_few_cuts(layer_sums(costs, experiment.load_cluster(SERVERS), 4, "split"))
    assert len(cuts) - 1 <= LAYERS
    assert set(range(10, 200, 10)) <= set(cuts.tolist())
