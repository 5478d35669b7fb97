"""Stages on submeshes: the sum of latencies and the slowest."""

import dataclasses
import functools
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import KINDS, clusters, even_trace, traces
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.planners import alpa as module
from pipesim.planners.alpa import alpa, sliced
from pipesim.studies.loading import load_cluster


def plan_of(trace, cluster, microbatches):
    costs = costs_of(trace)
    return alpa(costs.model, cluster, costs, microbatches)


def latencies(costs, cluster, bounds, groups, microbatches):
    """Of each stage, added up in the plainest way."""
    found = []
    for (a, b), group in zip(pairwise(bounds), groups, strict=True):
        kinds = {device.kind for device in group}
        k = len(group)
        seconds = max((costs.forward(kind, 1 / k) + costs.backward(kind, 1 / k))[a:b].sum() for kind in kinds)
        places = [cluster.index[device.name] for device in group]
        rate = cluster.bandwidth_matrix[np.ix_(places, places)].min()
        reduce = 2 * (k - 1) / k * costs.model.parameter_bytes[a:b].sum() / rate
        found.append(seconds + reduce / microbatches)
    return found


def is_submesh(group, cluster):
    """A power of two inside a node, or nodes as a whole."""
    nodes = {device.node for device in group}
    whole = len(group) == sum(device.node in nodes for device in cluster.devices)
    return whole or (len(nodes) == 1 and len(group) in {1, 2, 4, 8})


@settings(max_examples=60)
@given(traces(kinds=KINDS), clusters(), st.integers(1, 9))
def test_the_plan_is_the_best_of_all_on_submeshes(trace, cluster, microbatches):
    costs = costs_of(trace)
    layers, devices = len(costs.model), sorted(cluster.devices, key=lambda device: device.node)
    best = np.inf
    for x in range(1, min(layers, len(devices)) + 1):
        for ends in combinations(range(1, len(devices)), x - 1):
            groups = [devices[i:j] for i, j in pairwise([0, *ends, len(devices)])]
            if all(is_submesh(group, cluster) for group in groups):
                for cuts in combinations(range(1, layers), x - 1):
                    each = latencies(costs, cluster, [0, *cuts, layers], groups, microbatches)
                    best = min(best, sum(each) + (microbatches - 1) * max(each))
    plan = plan_of(trace, cluster, microbatches)
    held = [[cluster.device(name) for name in stage.devices] for stage in plan.stages]
    assert all(is_submesh(group, cluster) for group in held)
    mine = latencies(costs, cluster, [0, *plan.cuts, layers], held, microbatches)
    assert plan.objective_s == pytest.approx(best)
    assert sum(mine) + (microbatches - 1) * max(mine) == pytest.approx(best)
    assert len(plan.devices) == len(devices), "all devices are used"


def test_a_node_of_three_and_one_of_two_have_these_submeshes():
    names = "abcde"
    found = [names[i:j] for i, j in module._submeshes([3, 2])]
    assert found == ["a", "ab", "abc", "abcde", "b", "bc", "c", "d", "de", "e"]


def test_one_microbatch_wants_the_least_sum_and_many_the_fastest_slowest_stage():
    """Without parameters one stage on all devices has the least sum; with parameters and a slow link it is cut."""
    cluster = load_cluster('flat(4, bandwidth="1GB/s")')
    assert plan_of(even_trace(8, parameter_bytes=0), cluster, 1).replication == (4,)
    heavy = plan_of(even_trace(8, parameter_bytes=100_000_000), cluster, 4)
    assert heavy.replication == (1, 1, 1, 1)
    assert heavy.cuts == (2, 4, 6)
    assert heavy.objective_s == pytest.approx((4 + 3) * 6e-3)


@given(traces(kinds=KINDS), clusters())
def test_without_parameters_more_microbatches_never_make_the_slowest_stage_slower(trace, cluster):
    light = trace.layers | {"parameter_bytes": np.zeros_like(trace.layers["parameter_bytes"])}
    trace = dataclasses.replace(trace, layers=light)
    objectives = [plan_of(trace, cluster, m).objective_s for m in (1, 2, 5, 50)]
    slopes = [(b - a) / m for (a, b), m in zip(pairwise(objectives), (1, 3, 45), strict=True)]
    assert all(later <= earlier * (1 + 1e-9) + 1e-15 for earlier, later in pairwise(slopes)), (
        "least sum + (M - 1) slowest is concave in M"
    )


@functools.cache
def drawn_problem(seed):
    """A problem, and what is best with every latency there is as a bound."""
    rng = np.random.default_rng(seed)
    meshes = module._submeshes([4, 4])
    sizes = [j - i for i, j in meshes]
    work, reduce = np.cumsum(rng.integers(1, 90, 13)), np.cumsum(rng.integers(0, 9, 13))
    each = [work / size + reduce * size for size in sizes]
    latency = np.array([before[:, None] - before[None, :] for before in each])
    latency[:, ~np.tri(13, k=-1, dtype=bool)] = np.inf
    problem = module._Problem(np.column_stack([np.array(meshes), np.arange(len(meshes))]), latency)
    return problem, [problem.least(np.nextafter(t, np.inf)) for t in np.unique(latency[np.isfinite(latency)])]


@pytest.mark.parametrize("microbatches", [1, 2, 4, 16])
@pytest.mark.parametrize("seed", range(12))
def test_the_bounds_that_are_left_out_do_not_matter(seed, microbatches):
    """As with every latency there is as a bound, one after the other."""
    problem, every = drawn_problem(seed)
    least = min(found.weighed(microbatches - 1) for found in every if found is not None)
    assert module._best(problem, microbatches).weighed(microbatches - 1) == pytest.approx(least)


@given(traces(kinds=("any",)), clusters(), st.integers(1, 6))
def test_bytes_of_activations_are_ignored(trace, cluster, microbatches):
    none = trace.layers | {"output_bytes": np.zeros_like(trace.layers["output_bytes"])}
    narrow = dataclasses.replace(trace, layers=none)
    assert plan_of(narrow, cluster, microbatches) == plan_of(trace, cluster, microbatches)


@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_finds_what_its_plain_twin_finds(seed):
    """Ten layers with times among which there are ties, on two nodes of four, below several bounds."""
    rng = np.random.default_rng(seed)
    meshes = np.array([(i, j, n % 3) for n, (i, j) in enumerate(module._submeshes([4, 4]))])
    before = np.cumsum(rng.integers(0, 4, (3, 11)), axis=1).astype(float)
    latency = before[:, :, None] - before[:, None, :]
    for bound in (np.inf, 12.0, 6.0, 3.0):
        for fast, plain in zip(compiled(sliced)(meshes, latency, bound), sliced(meshes, latency, bound), strict=True):
            assert np.array_equal(fast, plain)
