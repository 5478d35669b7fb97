"""Virtual workers that each run a whole pipeline."""

import dataclasses
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import KINDS, clusters, even_trace, traces
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.planners.hetpipe import hetpipe, virtual_workers
from pipesim.studies.loading import load_cluster

TWO_BY_FOUR = 'servers(2, 4, intra="10GB/s", inter="1GB/s")'
allocations = st.sampled_from(["node", "equal"])


def plan_of(trace, cluster, microbatches, **options):
    costs = costs_of(trace)
    return hetpipe(costs.model, cluster, costs, microbatches, **options)


def slowest_stage(plan, costs, cluster, bounds):
    """Of any worker: forward and backward, activations from the device before and gradients from the one behind."""
    slowest = 0.0
    for worker in zip(*(stage.devices for stage in plan.stages), strict=True):
        for n, (a, b) in enumerate(pairwise(bounds)):
            kind = cluster.device(worker[n]).kind
            seconds = (costs.forward(kind) + costs.backward(kind))[a:b].sum()
            for other, layer in ((n - 1, a - 1), (n + 1, b - 1)):
                if 0 <= other < len(worker):
                    rates = cluster.bandwidth_matrix[[cluster.index[worker[n]], cluster.index[worker[other]]]]
                    rate = min(rates[0, cluster.index[worker[other]]], rates[1, cluster.index[worker[n]]])
                    seconds += costs.model.cut_bytes[layer] / rate
            slowest = max(slowest, seconds)
    return slowest


@given(traces(kinds=KINDS), clusters(), st.integers(1, 6), allocations, st.integers(0, 5))
def test_the_cuts_are_the_best_of_all_for_the_slowest_worker(trace, cluster, microbatches, allocation, workers):
    workers = min(workers, len(cluster.devices)) or None
    costs = costs_of(trace)
    plan = plan_of(trace, cluster, microbatches, allocation=allocation, workers=workers)
    count = plan.replication[0]
    assert set(plan.replication) == {count}
    assert workers in {None, count}
    assert plan.replicas == "whole"
    every = [(0, *cuts, len(costs.model)) for cuts in combinations(range(1, len(costs.model)), len(plan.stages) - 1)]
    least = min(slowest_stage(plan, costs, cluster, bounds) for bounds in every)
    mine = slowest_stage(plan, costs, cluster, (0, *plan.cuts, len(costs.model)))
    assert mine == pytest.approx(least)
    assert plan.objective_s == pytest.approx(-(-microbatches // count) * least)


@pytest.mark.parametrize(
    ("allocation", "workers", "expected"),
    [
        ("node", None, ["0123", "4567"]),
        ("node", 4, ["01", "23", "45", "67"]),
        ("node", 1, ["01234567"]),
        ("node", 3, ["01", "23", "45"]),
        ("equal", None, ["04", "15", "26", "37"]),
        ("equal", 2, ["0246", "1357"]),
        ("equal", 3, ["04", "15", "26"]),  # the fourth device of each node is left over
        ("equal", 8, ["0", "1", "2", "3", "4", "5", "6", "7"]),
    ],
)
def test_devices_are_dealt_out_by_node_or_equally(allocation, workers, expected):
    cluster = load_cluster(TWO_BY_FOUR)
    found = ["".join(map(str, worker)) for worker in virtual_workers(cluster, workers, allocation)]
    assert found == expected


def test_nodes_of_different_size_leave_devices_over():
    devices = [Device(f"gpu{i}", "any", "big" if i < 3 else "small") for i in range(5)]
    links = [Link(a.name, b.name, 1e9) for a, b in pairwise(devices)]
    cluster = Cluster("uneven", tuple(devices), tuple(links))
    assert virtual_workers(cluster, None, "node") == [[0, 1], [3, 4]]
    assert virtual_workers(cluster, None, "equal") == [[0, 3], [1, 4]]


def test_fewer_layers_than_devices_leave_the_others_idle():
    plan = plan_of(even_trace(2), load_cluster(TWO_BY_FOUR), 4)
    assert [stage.devices for stage in plan.stages] == [("node0.gpu0", "node1.gpu0"), ("node0.gpu1", "node1.gpu1")]


def test_a_position_is_balanced_for_its_slowest_member():
    """The second device of one worker is three times slower: of 8 layers, the second stage takes 2 on both."""
    layers = even_trace(8).layers
    both = {name: np.concatenate([values, values]) for name, values in layers.items()}
    both["device_kind"] = np.repeat(np.array(["slow", "fast"], object), 8)
    both["output_bytes"] = np.zeros(16)
    for name in ("forward_s", "backward_s"):
        both[name] = both[name] * np.repeat([3.0, 1.0], 8)
    kinds = ["fast", "slow", "fast", "fast"]
    devices = tuple(Device(f"gpu{i}", kind, f"node{i // 2}") for i, kind in enumerate(kinds))
    links = tuple(Link(a.name, b.name, 1e9) for a, b in pairwise(devices))
    plan = plan_of(dataclasses.replace(even_trace(8), layers=both), Cluster("mixed", devices, links), 6)
    assert plan.cuts == (6,)
    assert plan.objective_s == pytest.approx(3 * 6 * 3e-3)


@given(traces(kinds=("any",)), clusters(), st.integers(1, 6))
def test_bytes_of_parameters_are_ignored(trace, cluster, microbatches):
    none = trace.layers | {"parameter_bytes": np.zeros_like(trace.layers["parameter_bytes"])}
    light = dataclasses.replace(trace, layers=none)
    assert plan_of(light, cluster, microbatches) == plan_of(trace, cluster, microbatches)


@pytest.mark.parametrize("workers", [0, -1, 9])
def test_more_virtual_workers_than_devices_are_refused(workers):
    with pytest.raises(InputError, match=rf"workers = {workers} found; 1 to 8 was expected \(8 devices\)"):
        plan_of(even_trace(8), load_cluster(TWO_BY_FOUR), 8, workers=workers)


def test_an_unknown_allocation_is_refused():
    with pytest.raises(InputError, match="allocation 'hybrid' found; 'node' or 'equal' was expected"):
        plan_of(even_trace(8), load_cluster(TWO_BY_FOUR), 8, allocation="hybrid")
