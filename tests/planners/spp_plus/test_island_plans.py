"""Plans that keep the bound's inequalities: their stages, their devices, blocks of devices, and few cuts of many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.islands import SLOW, program_of, with_a_slow_server
from helpers.networks import pipeline_trace
from helpers.strategies import clusters, even_trace, traces
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import ChannelColumns
from pipesim.core import plan as plans
from pipesim.core.costs import costs_of
from pipesim.planners.spp_plus.island_plans import (
    LAYERS,
    _from_the_least,
    _in_blocks,
    _renumbered,
    _stages,
    _with_few_cuts,
    island_plans,
    islands_of,
)
from pipesim.studies import loading

SERVERS = 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'


@settings(max_examples=25)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.floats(0.1, 3))
def test_the_stages_of_a_plan_follow_each_other_and_keep_the_target(trace, replicas, microbatches, share):
    costs, cluster = costs_of(trace), with_a_slow_server(loading.load_cluster(SLOW), 4)
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
    rng, cluster = np.random.default_rng(seed), loading.load_cluster('servers(6, 4, intra="25GB/s", inter="25Gb/s")')
    forward, backward = (rng.integers(1, 3000, 12).tolist() for _ in range(2))
    costs = costs_of(pipeline_trace(forward, backward, [1000] * 11, 10**4))
    islands = islands_of(cluster)
    assert _in_blocks(islands[0], 13)[1].block > 1
    found = list(island_plans(costs, cluster, islands, 32, "split"))
    assert any(len(stage.devices) % 2 for plan in found for stage in plan.stages)
    for plan in found:
        plans.check_fits(plan, costs.model, cluster)


@settings(max_examples=30)
@given(traces(kinds=("any",)), clusters(), st.sampled_from(["split", "whole"]), st.integers(1, 6))
def test_plans_on_islands_are_different_and_fit(trace, cluster, replicas, microbatches):
    costs = costs_of(trace)
    found = list(island_plans(costs, cluster, islands_of(cluster), microbatches, replicas))
    assert found
    assert len({plan.stages for plan in found}) == len(found)
    for plan in found:
        plans.check_fits(plan, costs.model, cluster)
        assert plan.replicas == replicas


def test_devices_taken_in_blocks_are_the_same_moves_where_a_block_is_one():
    costs, cluster = costs_of(even_trace(4)), loading.load_cluster(SERVERS)
    _, one, chosen = program_of(costs, cluster, 4, "split")
    _, two, pairs = program_of(costs, cluster, 4, "split", block=2)
    even = chosen[(chosen % 2 == 0).all(axis=1)]
    assert {tuple(row) for row in pairs.tolist()} == {tuple(row) for row in even.tolist()}
    known = set(zip(map(tuple, chosen.tolist()), one.left.tolist(), one.ring.tolist(), strict=True))
    assert set(zip(map(tuple, pairs.tolist()), two.left.tolist(), two.ring.tolist(), strict=True)) <= known


def test_of_many_layers_the_small_cuts_stay():
    """200 layers, every tenth cut a hundredth of the others: no other is kept where one of those is near."""
    costs = costs_of(even_trace(200, output_bytes=np.where(np.arange(200) % 10 == 9, 10**4, 10**6)))
    _, cuts = _with_few_cuts(layer_sums(costs, loading.load_cluster(SERVERS), 4, "split"))
    assert len(cuts) - 1 <= LAYERS
    assert set(range(10, 200, 10)) <= set(cuts.tolist())


@settings(max_examples=20)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8))
def test_the_search_ends_at_the_least_target_that_has_a_plan(trace, replicas, microbatches):
    costs, cluster = costs_of(trace), with_a_slow_server(loading.load_cluster(SLOW), 4)
    sums, moves, _ = program_of(costs, cluster, microbatches, replicas)
    if sums.area[0] == 0:
        return
    least, found = _from_the_least(sums, moves, factors=(1.0, 1.1), halvings=12)
    assert _stages(sums, moves, least) == found[0]
    assert found[0] is not None
    assert _stages(sums, moves, 0.99 * least) is None or least <= sums.area[0]


def test_islands_are_renumbered_in_place():
    """The island that was first is now third."""
    assert _renumbered(["a", "b", "c"], np.array([2, 0, 1])) == ["b", "c", "a"]
