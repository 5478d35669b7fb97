"""SPP part by part: orders of devices, the program against brute force, the whole against data parallelism."""

import itertools
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.splits import every_split
from helpers.strategies import clusters, even_trace, traces
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.errors import InputError, RefusedError, UnknownNameError
from pipesim.base.kernels import compiled
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace
from pipesim.lowering import lower
from pipesim.planners.data_parallel import data_parallel
from pipesim.planners.groups import bandwidths
from pipesim.planners.spp import memory_limit, plan_of, spp
from pipesim.planners.spp.prm import bottlenecks, prm, tables_of
from pipesim.planners.spp.rdo import LITERAL, by_minimum_cuts, hierarchical, minimum_cut, ordered, rdo
from pipesim.studies import experiment

# --- orders ----------------------------------------------------------------------------------------------------------


@st.composite
def weights(draw):
    """A complete graph with few different weights, so that ties are common."""
    count = draw(st.integers(2, 9))
    upper = draw(st.lists(st.integers(1, 4), min_size=count * count, max_size=count * count))
    half = np.triu(np.array(upper, float).reshape(count, count), 1)
    return half + half.T


@settings(max_examples=300)
@given(weights())
def test_a_minimum_cut_is_as_small_as_networkx_finds_it(matrix):
    side = minimum_cut(matrix)
    assert 0 < side.sum() < len(matrix)
    graph = nx.Graph((a, b, {"weight": matrix[a, b]}) for a, b in itertools.combinations(range(len(matrix)), 2))
    assert matrix[np.ix_(side, ~side)].sum() == nx.stoer_wagner(graph)[0]
    assert np.array_equal(compiled(minimum_cut)(matrix), side), "the compiled kernel is its plain twin"


def contiguous(order, nodes):
    """Whether the devices of each node stand together in an order."""
    return len(list(itertools.groupby(order, key=lambda device: nodes[device]))) == len(set(nodes))


@pytest.mark.parametrize("name", ["rdo", "hierarchical"])
@pytest.mark.parametrize(("nodes", "per_node", "ratio", "jitter"), [(4, 4, 4, 0.0), (4, 4, 4, 0.5), (4, 8, 8, 0.3)])
def test_each_servers_devices_stay_together_however_they_are_labelled(name, nodes, per_node, ratio, jitter):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        node = rng.permutation(np.repeat(np.arange(nodes), per_node))
        matrix = np.where(node[:, None] == node, float(ratio), 1.0) * (1 + jitter * rng.random((len(node), len(node))))
        matrix = np.minimum(matrix, matrix.T)
        devices = tuple(Device(f"g{i}", "any") for i in range(len(node)))
        links = tuple(Link(f"g{a}", f"g{b}", matrix[a, b]) for a, b in itertools.combinations(range(len(node)), 2))
        order, _ = ordered(Cluster("labelled", devices, links), name)
        assert contiguous(order, node.tolist()), f"seed {seed}"


@settings(max_examples=100)
@given(clusters())
def test_every_order_has_every_device_once(cluster):
    for name in ("auto", "rdo", "hierarchical", "given", "random"):
        order, _ = ordered(cluster, name)
        assert sorted(order) == list(range(len(cluster.devices)))


def test_the_smaller_side_of_a_cut_comes_first():
    """Devices 1 and 3 hang on by less than any other two: they are cut off first, and stand first."""
    matrix = np.full((5, 5), 10.0)
    for a, b in itertools.product((1, 3), (0, 2, 4)):
        matrix[a, b] = matrix[b, a] = 1.0
    np.fill_diagonal(matrix, 0)
    assert sorted(by_minimum_cuts(matrix)[:2]) == [1, 3]


def test_above_256_devices_clustering_stands_in_and_is_named():
    cluster = experiment.load_cluster(f'servers({LITERAL // 8 + 1}, 8, intra="25GB/s", inter="1GB/s")')
    order, name = ordered(cluster, "auto")
    assert name == "hierarchical"
    assert order == hierarchical(cluster)
    assert ordered(experiment.load_cluster('flat(4, bandwidth="1GB/s")'), "auto")[1] == "rdo"


def test_an_unknown_order_and_separated_devices_are_refused():
    flat = experiment.load_cluster('flat(2, bandwidth="1GB/s")')
    with pytest.raises(UnknownNameError, match="no order is called 'rod'; known are auto, rdo"):
        ordered(flat, "rod")
    with pytest.raises(InputError, match="no route between 'a' and 'b'"):
        rdo(Cluster("apart", (Device("a", "any"), Device("b", "any"))))


# --- the dynamic program ---------------------------------------------------------------------------------------------


def bottleneck(tables, starts, replicas):
    """What the recurrence minimises, for one choice of cuts and replicas."""
    layers = len(tables.cut) - 1
    bounds, device, worst = [*starts, layers], 0, 0.0
    for n, r in enumerate(replicas):
        a, b = bounds[n], bounds[n + 1]
        slowest = max(
            tables.seconds[k, r, b] - tables.seconds[k, r, a]
            for k in range(len(tables.seconds))
            if tables.kinds[device, r, k]
        )
        worst = max(worst, slowest + tables.reduce[device, r] * (tables.parameters[b] - tables.parameters[a]))
        device += r
        if n + 1 < len(replicas):
            worst = max(worst, tables.cut[b] * tables.channel[device, r, replicas[n + 1]])
    return worst


@settings(max_examples=200)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_prm_equals_brute_force_over_every_contiguous_split(trace, cluster, microbatches):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    found = prm(costs, cluster, order, microbatches)
    assert list(found) == list(range(1, min(len(costs.model), len(order)) + 1))
    for x, solution in found.items():
        least = min(bottleneck(tables, *split) for split in every_split(len(costs.model), len(order), x))
        assert solution.bottleneck == pytest.approx(least, rel=1e-12)
        assert bottleneck(tables, solution.starts, solution.replicas) == pytest.approx(least, rel=1e-12)


@settings(max_examples=60)
@given(traces(), clusters(), st.integers(1, 8))
def test_the_compiled_program_is_its_plain_twin(trace, cluster, microbatches):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    try:
        tables = tables_of(costs, cluster, order, microbatches)
    except InputError:  # the trace has no times for the cluster's kinds
        return
    most = min(len(costs.model), len(order))
    plain, fast = bottlenecks(tables, most), compiled(bottlenecks)(tables, most)
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


def test_tables_of_heterogeneous_groups_go_at_the_slowest_kinds_pace():
    layers = even_trace(3).layers
    both = {name: np.concatenate([values, values]) for name, values in layers.items()}
    both["device_kind"] = np.repeat(np.array(["fast", "slow"], object), 3)
    both["forward_s"] = both["forward_s"] * np.repeat([1.0, 3.0], 3)
    cluster = Cluster("mixed", (Device("a", "fast"), Device("b", "slow")), (Link("a", "b", 1e9),))
    costs = costs_of(Trace("mixed", "test", 1, both))
    whole = prm(costs, cluster, [0, 1], 1)[1]
    assert whole.bottleneck == pytest.approx(3 * (3e-3 + 2e-3) / 2 + 3e6 / 1e9, rel=1e-9)


def test_too_large_a_table_is_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(sys.modules[prm.__module__], "MOST_BYTES", 100)
    with pytest.raises(RefusedError, match=r"6 layers on 4 devices in up to 4 stages would need .* most_stages"):
        prm(costs_of(even_trace(6)), experiment.load_cluster('flat(4, bandwidth="1GB/s")'), [0, 1, 2, 3], 1)


# --- memory ----------------------------------------------------------------------------------------------------------


def small_devices(count, memory):
    made = experiment.load_cluster(f'flat({count}, bandwidth="1GB/s")')
    return Cluster("small", tuple(Device(d.name, d.kind, d.node, memory) for d in made.devices), made.links)


@pytest.mark.parametrize("schedule", ["one_f_one_b", "gpipe"])
def test_a_plan_that_does_not_fit_is_never_returned_when_one_fits(schedule):
    """Six layers of 4 MB with parameters and state, 1 MB of stash per microbatch: data parallelism does not fit."""
    costs = costs_of(even_trace(6))
    cluster = small_devices(3, 17_000_000)
    free = spp(costs.model, cluster, costs, 4)
    held = spp(costs.model, cluster, costs, 4, memory=schedule)
    assert free.stages != held.stages
    timeline = experiment.run(lower(experiment.make_case(even_trace(6), cluster, held, schedule)))
    assert experiment.metrics.fits_memory(timeline)


def test_when_nothing_fits_the_stage_and_the_bytes_are_named():
    costs = costs_of(even_trace(6))
    with pytest.raises(
        InputError, match=r"no plan fits in memory; .* stage \d \(layers \d to \d\) is short by \d+ bytes"
    ):
        spp(costs.model, small_devices(3, 1_000_000), costs, 4, memory="one_f_one_b")


def test_the_memory_of_unknown_devices_is_no_limit():
    costs = costs_of(even_trace(4))
    cluster = small_devices(2, 0)
    assert spp(costs.model, cluster, costs, 4, memory="pe").stages == spp(costs.model, cluster, costs, 4).stages
    with pytest.raises(InputError, match="memory = 'none' found; one of one_f_one_b, gpipe, pe"):
        memory_limit(costs, cluster, [0, 1], 4, "none")


# --- the whole -------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_spp_is_the_best_of_all_numbers_of_stages_and_never_loses_to_data_parallelism(trace, cluster, microbatches):
    costs = costs_of(trace)
    plan = spp(costs.model, cluster, costs, microbatches)
    order, _ = ordered(cluster, "auto")

    def time(candidate):
        pipeline = pipeline_of(candidate, costs, cluster)
        return execute(pipeline).time(pipeline)

    solutions = prm(costs, cluster, order, microbatches).values()
    assert time(plan) == min(time(plan_of(costs.model, cluster, order, s, microbatches)) for s in solutions)
    assert plan.objective_s == pytest.approx(time(plan) / 1e9)
    whole = data_parallel(costs.model, cluster, costs, microbatches)
    assert time(plan) <= time(whole)


def test_what_was_done_is_stated_in_the_plan():
    costs = costs_of(even_trace(4))
    cluster = experiment.load_cluster('flat(3, bandwidth="1GB/s")')
    assert spp(costs.model, cluster, costs, 2).planner == "spp"
    assert spp(costs.model, cluster, costs, 2, order="hierarchical").planner == "spp(order='hierarchical')"


def test_weights_are_the_lesser_of_both_directions():
    one_way = (Link("a", "b", 3.0, duplex="one_way"), Link("b", "a", 2.0, duplex="one_way"))
    assert bandwidths(Cluster("asymmetric", (Device("a", "any"), Device("b", "any")), one_way)).tolist() == [
        [0, 2],
        [2, 0],
    ]
