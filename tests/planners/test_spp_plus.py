"""SPP and more: never worse than SPP, and each of its parts against the plain way."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.networks import pipeline_trace
from helpers.splits import every_split
from helpers.strategies import clusters, even_trace, traces
from pipesim.analysis.bounds.islands import Network, best_partitions, sea_of
from pipesim.analysis.bounds.moves import in_blocks
from pipesim.analysis.bounds.tables import tables_of as tables_of_bound
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.kernels import compiled
from pipesim.core import plan as plans
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.planners.spp import spp
from pipesim.planners.spp.prm import tables_of
from pipesim.planners.spp_plus import spp_plus
from pipesim.planners.spp_plus.contention import contended
from pipesim.planners.spp_plus.fill_and_drain import least_heads, solutions
from pipesim.planners.spp_plus.islands import LAYERS, _islands, _stages, _with_few_cuts, on_islands
from pipesim.planners.spp_plus.labels import labelled
from pipesim.planners.spp_plus.placements import StageLoads, best_placements, improve_by_swaps, routes_of
from pipesim.planners.spp_plus.polish import moves, polished
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


# --- fill, drain and bottleneck --------------------------------------------------------------------------------------


def filled(tables, starts, replicas, microbatches):
    """The T that the parametric program minimises, for one choice of cuts and replicas."""
    layers = len(tables.cut) - 1
    bounds, device, head, worst = [*starts, layers], 0, 0.0, 0.0
    for n, r in enumerate(replicas):
        a, b = bounds[n], bounds[n + 1]
        if n:
            through = tables.cut[a] * tables.channel[device, replicas[n - 1], r]
            worst = max(worst, head + through)
            head += through / microbatches
        work = max(
            tables.seconds[k, r, b] - tables.seconds[k, r, a]
            for k in range(len(tables.seconds))
            if tables.kinds[device, r, k]
        )
        reduce = tables.reduce[device, r] * (tables.parameters[b] - tables.parameters[a])
        worst = max(worst, work + max(head, reduce))
        head += work / microbatches
        device += r
    return worst


@settings(max_examples=100)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_the_parametric_program_equals_brute_force(trace, cluster, microbatches):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    layers = len(costs.model)
    every = [split for x in range(1, min(layers, len(order)) + 1) for split in every_split(layers, len(order), x)]
    least = min(filled(tables, *split, microbatches) for split in every)
    upper = max(filled(tables, *split, microbatches) for split in every) * 1.5 + 1e-9
    found = solutions(tables, microbatches, upper)
    best = min(filled(tables, s.starts, s.replicas, microbatches) for s in found)
    assert best == pytest.approx(least, rel=1e-3, abs=upper * 1e-5)


@settings(max_examples=50)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8), st.floats(0.2, 3))
def test_the_compiled_program_is_its_plain_twin(trace, cluster, microbatches, share):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    target = share * float(tables.seconds[0, 1, -1])
    plain = least_heads(tables, microbatches, target)
    fast = compiled(least_heads)(tables, microbatches, target)
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


# --- contention ------------------------------------------------------------------------------------------------------


def test_pairs_that_share_a_nic_wait_for_each_other():
    """Four pairs of 1/4 of the bytes each over one NIC of 1.25 GB/s take what one pair with all would."""
    cluster = experiment.load_cluster('servers(2, 2, intra="25GB/s", inter="10Gb/s")')
    costs, order = costs_of(even_trace(4)), [0, 1, 2, 3]
    plain = tables_of(costs, cluster, order, 1)
    shared = contended(plain, cluster, order)
    assert plain.channel[2, 2, 2] == pytest.approx(1 / (4 * 1.25e9))
    assert shared.channel[2, 2, 2] == pytest.approx(1 / 1.25e9)
    assert shared.channel[1, 1, 1] == pytest.approx(1 / 25e9), "inside a server one pair has its links alone"
    # A ring of 4 over two servers crosses each NIC once each way: it is as fast as its slowest edge.
    assert shared.reduce[0, 4] == pytest.approx(2 * 3 / 4 / 1.25e9)


@settings(max_examples=60)
@given(clusters(shapes=("star", "nodes", "chain")))
def test_contended_channels_are_never_faster_than_one_pair_alone_would_be(cluster):
    """Each pair's share over its own bottleneck is a floor, whatever the others do."""
    order = list(range(len(cluster.devices)))
    costs = costs_of(even_trace(4))
    shared = contended(tables_of(costs, cluster, order, 1), cluster, order)
    for b in range(1, len(order)):
        for r, k in itertools.product(range(1, b + 1), range(1, len(order) - b + 1)):
            least = min(cluster.bandwidth_matrix[x, y] for x in range(b - r, b) for y in range(b, b + k))
            assert shared.channel[b, r, k] >= 1 / (r * k * least) * (1 - 1e-9)


# --- polish ----------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.integers(1, 6), st.integers(1, 5), st.randoms(use_true_random=False))
def test_every_move_gives_a_plan_on_the_same_devices(layers, devices, rng):
    splits = [s for x in range(1, min(layers, devices) + 1) for s in every_split(layers, devices, x)]
    starts, replicas = rng.choice(splits)
    ends = [0, *itertools.accumulate(replicas)]
    names = [f"g{i}" for i in range(devices)]
    bounds = [*starts, layers]
    from pipesim.core.plan import Stage

    stages = tuple(Stage(bounds[n], bounds[n + 1], tuple(names[ends[n] : ends[n + 1]])) for n in range(len(replicas)))
    plan = Plan("m", layers, 1, stages)
    for moved in moves(plan.stages):
        assert set(Plan("m", layers, 1, moved).devices) == set(names)


def start_and_cost(asked):
    """A plan that can be improved, and its time on the abstract pipeline; what it is asked for is put into `asked`."""
    costs, cluster = costs_of(even_trace(8)), experiment.load_cluster('flat(4, bandwidth="1GB/s")')

    def cost(plan):
        asked.append(plan)
        pipeline = pipeline_of(plan, costs, cluster)
        return execute(pipeline).time(pipeline) / 1e9

    return experiment.plan_with("uniform(stages=2)", costs, cluster, 4), cost


def test_polishing_stops_at_its_budget_and_never_makes_worse():
    asked = []
    start, cost = start_and_cost(asked)
    least = cost(start)
    better, price, used = polished(start, cost, lambda _: 0.0, 7, least)
    assert len(asked) == 1 + used <= 8
    assert price <= least
    assert price == cost(better)


def test_what_a_floor_rules_out_is_not_asked_for_and_changes_nothing():
    """With the cost itself as the floor, every plan that is asked for is an improvement."""
    asked, free = [], []
    start, cost = start_and_cost(asked)
    _, exact = start_and_cost(free)
    least = exact(start)
    best, price, used = polished(start, cost, lambda _: 0.0, 1000, least)
    same, as_low, fewer = polished(start, cost, exact, 1000, least)
    assert (same, as_low) == (best, price)
    assert fewer < used
    prices = [least, *map(exact, asked[used:])]
    assert len(prices) == 1 + fewer
    assert all(a > b for a, b in itertools.pairwise(prices))


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
    sea = sea_of(network, best_partitions(network)[0])
    return tables_of_bound(costs, cluster, microbatches, replicas), *in_blocks(sea, replicas, microbatches, block)


@settings(max_examples=30)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.floats(0.2, 3))
def test_the_compiled_labels_are_their_plain_twin(trace, replicas, microbatches, share):
    costs, cluster = costs_of(trace), with_a_slow_server(experiment.load_cluster(SLOW), 4)
    tables, moves, _ = program_of(costs, cluster, microbatches, replicas)
    target = share * float(tables.busy[1, -1])
    plain, fast = labelled(*tables, *moves, target), compiled(labelled)(*tables, *moves, target)
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


@settings(max_examples=50)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.floats(0.1, 3))
def test_stages_that_are_told_hang_together_and_keep_the_time_told(trace, replicas, microbatches, share):
    costs, cluster = costs_of(trace), with_a_slow_server(experiment.load_cluster(SLOW), 4)
    tables, moves, _ = program_of(costs, cluster, microbatches, replicas)
    target = share * float(tables.busy[1, -1])
    steps = _stages(tables, moves, target)
    if steps is None:
        return
    assert [step.start for step in steps] == [0, *(step.stop for step in steps[:-1])]
    assert steps[-1].stop == len(costs.model)
    assert sum(moves.size[step.place] for step in steps) <= len(cluster.devices)
    head = 0.0
    for step in steps:
        if step.move >= 0:
            head += 2 * moves.start[step.move] + tables.cut[step.start] * moves.own[step.move]
        devices, layers = moves.size[step.place], slice(step.start, step.stop + 1, step.stop - step.start)
        weights = np.diff(tables.parameters[layers])[0]
        reduce = weights * moves.ring[step.place] + moves.turns[step.place] * (weights > 0)
        work = np.diff(tables.busy[devices, layers])[0]
        assert work + max(head, tables.early * head + reduce) <= target * (1 + 1e-9)
        head += np.diff(tables.passage[devices, layers])[0]


@settings(max_examples=30)
@given(clusters(), st.data())
def test_the_compiled_swaps_are_their_plain_twin_and_leave_no_swap_that_helps(cluster, data):
    count = len(cluster.devices)
    assume(count > 1 and (cluster.bandwidth_matrix > 0).all())
    sizes = np.array(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda s: sum(s) <= count)))
    work, one, ring, cut = (
        np.array(data.draw(st.lists(st.integers(0, 1000), min_size=len(sizes), max_size=len(sizes))), float)
        for _ in range(4)
    )
    first = np.array(data.draw(st.permutations(range(count))))
    plain, fast = first.copy(), first.copy()
    asked = StageLoads(sizes, work, one, ring * 1e6, cut * 1e6), routes_of(cluster), 4.0
    least = improve_by_swaps(plain, *asked)
    assert compiled(improve_by_swaps)(fast, *asked) == least
    assert plain.tolist() == fast.tolist()
    assert sorted(plain.tolist()) == list(range(count))
    again = plain.copy()
    assert improve_by_swaps(again, *asked) == least
    assert again.tolist() == plain.tolist()


def test_a_stage_settles_where_its_ring_is_wide():
    """Four of the eight devices have a ring of double links: 0 3 2 1 is none, 0 3 4 7 is."""
    cluster = experiment.load_cluster("dgx1_v100")
    costs = costs_of(even_trace(4, output_bytes=1000, parameter_bytes=50_000_000))
    names = [device.name for device in cluster.devices]
    stages = (Stage(0, 4, tuple(names[:4])),)
    (best, *others) = best_placements(stages, cluster, routes_of(cluster), tables_of_bound(costs, cluster, 4, "split"))
    ring = [cluster.index[name] for name in best[0].devices]
    assert min(cluster.bandwidth_matrix[a, b] for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)) == 50e9
    assert all(len(found[0].devices) == 4 for found in others)


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
    _, cuts = _with_few_cuts(tables_of_bound(costs, experiment.load_cluster(SERVERS), 4, "split"))
    assert len(cuts) - 1 <= LAYERS
    assert set(range(10, 200, 10)) <= set(cuts.tolist())
