"""PRM's dynamic program: against brute force over all splits, with and without a limit of memory; its tables."""

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.splits import every_split
from helpers.strategies import clusters, even_trace, traces
from pipesim.base.errors import RefusedError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace
from pipesim.planners.spp.prm import (
    MemoryLimit,
    best_partitions,
    even_partitions,
    is_small,
    partitions,
    prm,
    tables_of,
)
from pipesim.studies import loading


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


@settings(max_examples=80)
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


@settings(max_examples=40)
@given(traces(kinds=("fast", "slow")), clusters(), st.integers(1, 8), st.data())
def test_prm_equals_brute_force_where_devices_are_of_two_kinds_and_memory_is_short(trace, cluster, microbatches, data):
    """Of the splits whose stages all fit; in any order of the devices."""
    kinds = data.draw(st.lists(st.sampled_from(["fast", "slow"]), min_size=5, max_size=5))
    devices = tuple(replace(device, kind=kinds[i % 5]) for i, device in enumerate(cluster.devices))
    cluster, costs = replace(cluster, devices=devices), costs_of(trace)
    count, layers = len(devices), len(costs.model)
    order = data.draw(st.permutations(range(count)))
    some = st.lists(st.integers(0, 9), min_size=layers, max_size=layers)
    static, stash = (np.array(data.draw(some), float) for _ in range(2))
    capacity = np.array(data.draw(st.lists(st.integers(5, 60), min_size=count, max_size=count)), float)
    limit = MemoryLimit(static, stash, capacity, np.minimum(np.arange(count + 1), microbatches))
    tables = tables_of(costs, cluster, order, microbatches)
    found = prm(costs, cluster, order, microbatches, memory=limit)
    for x in range(1, min(layers, count) + 1):
        fitting = [split for split in every_split(layers, count, x) if fits(limit, *split)]
        assert (x in found) == bool(fitting)
        if fitting:
            least = min(bottleneck(tables, *split) for split in fitting)
            assert found[x].bottleneck == pytest.approx(least, rel=1e-12)
            assert fits(limit, found[x].starts, found[x].replicas)
            assert bottleneck(tables, found[x].starts, found[x].replicas) == pytest.approx(least, rel=1e-12)


def fits(limit, starts, replicas):
    """Whether every stage has room for its layers, and for its share of the microbatches in flight, on each device."""
    bounds, device = [*starts, len(limit.static)], 0
    for n, r in enumerate(replicas):
        layers = slice(bounds[n], bounds[n + 1])
        held = limit.stash[layers].sum() / r * limit.in_flight[len(replicas) - n] + limit.static[layers].sum()
        if held > limit.capacity[device : device + r].min():
            return False
        device += r
    return True


@settings(max_examples=60)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8), st.floats(0.05, 1.2))
def test_plans_within_a_bottleneck_are_those_of_all_that_keep_it(trace, cluster, microbatches, part):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    within = part * float(tables.seconds[:, 1, -1].max())
    every, some = partitions(tables), partitions(tables, within=within)
    expected = {x: found.bottleneck for x, found in every.items() if found.bottleneck <= within}
    assert {x: found.bottleneck for x, found in some.items()} == expected
    for solution in some.values():
        assert bottleneck(tables, solution.starts, solution.replicas) == pytest.approx(solution.bottleneck)


@given(traces(kinds=("any",)), clusters())
def test_even_partitions_are_partitions(trace, cluster):
    costs, count = costs_of(trace), len(cluster.devices)
    tables = tables_of(costs, cluster, list(range(count)), 4)
    found = even_partitions(tables)
    assert [len(one.starts) for one in found] == [n for n in (1, 2, 4, 8, 16) if n <= min(count, len(costs.model))]
    for one in found:
        assert (one.starts, one.replicas) in {
            (tuple(starts), tuple(replicas))
            for starts, replicas in every_split(len(costs.model), count, len(one.starts))
        }  # fmt: skip


def test_even_partitions_share_the_work():
    tables = tables_of(
        costs_of(even_trace(12)), loading.load_cluster('flat(8, bandwidth="1GB/s")'), list(range(8)), 4
    )  # fmt: skip
    assert [one.starts for one in even_partitions(tables)] == [(0,), (0, 6), (0, 3, 6, 9), (0, 2, 3, 5, 6, 8, 9, 11)]
    assert [one.replicas for one in even_partitions(tables)] == [(8,), (4,) * 2, (2,) * 4, (1,) * 8]


def test_the_best_few_of_large_tables_are_those_of_all(monkeypatch):
    costs, cluster = costs_of(even_trace(12)), loading.load_cluster('servers(2, 4, "25GB/s", "1GB/s")')
    tables = tables_of(costs, cluster, list(range(8)), 4)
    every = sorted(partitions(tables).values())
    assert [found.bottleneck for found in best_partitions(tables, 3)] == [found.bottleneck for found in every[:3]]
    monkeypatch.setattr(sys.modules["pipesim.planners.spp.prm"], "FEW_STATES", 0)
    assert not is_small(tables)
    for count in (1, 2, 3, 100):
        found = [one.bottleneck for one in best_partitions(tables, count)]
        assert found == [one.bottleneck for one in every[:count]]


@settings(max_examples=25)
@given(clusters(), st.data())
def test_tables_hold_the_least_bandwidths_of_groups_in_their_order(cluster, data):
    order = data.draw(st.permutations(range(len(cluster.devices))))
    costs, count = costs_of(even_trace(3)), len(order)
    tables = tables_of(costs, cluster, order, 2)
    width = np.minimum(cluster.bandwidth_matrix, cluster.bandwidth_matrix.T)[np.ix_(order, order)]
    for i, r in itertools.product(range(count), range(2, count + 1)):
        if i + r <= count:
            least = min(width[a, b] for a, b in itertools.combinations(range(i, i + r), 2))
            assert tables.reduce[i, r] == pytest.approx(2 * (r - 1) / r / least)
    for b, r, k in itertools.product(range(1, count), range(1, count), range(1, count)):
        if r <= b and b + k <= count:
            least = width[b - r : b, b : b + k].min()
            assert tables.channel[b, r, k] == pytest.approx(1 / (r * k * least))
    assert tables.cut.tolist() == [0, *(4 * costs.model.cut_bytes)]
    for r in range(1, count + 1):
        both = costs.forward("any", 1 / r) + costs.backward("any", 1 / r)
        assert tables.seconds[0, r].tolist() == pytest.approx([0, *(2 * np.cumsum(both))])


def test_no_more_stages_are_made_than_asked_for():
    costs, cluster = costs_of(even_trace(6)), loading.load_cluster('flat(4, bandwidth="1GB/s")')
    every, few = prm(costs, cluster, [0, 1, 2, 3], 4), prm(costs, cluster, [0, 1, 2, 3], 4, most_stages=2)
    assert list(few) == [1, 2]
    assert few == {x: every[x] for x in few}


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
        prm(costs_of(even_trace(6)), loading.load_cluster('flat(4, bandwidth="1GB/s")'), [0, 1, 2, 3], 1)
