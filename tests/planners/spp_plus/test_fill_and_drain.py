"""Plans that keep fill, drain and bottleneck small: the program against brute force over all splits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.splits import every_split
from helpers.strategies import clusters, even_trace, traces
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.planners.spp.prm import tables_of
from pipesim.planners.spp_plus.fill_and_drain import _solve, least_heads, solutions
from pipesim.studies import loading


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


@settings(max_examples=40)
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


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8), st.floats(0.2, 3))
def test_the_compiled_program_is_its_plain_twin(trace, cluster, microbatches, share):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    target = share * float(tables.seconds[0, 1, -1])
    plain = least_heads(tables, microbatches, target)
    fast = compiled(least_heads)(tables, microbatches, target)
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8), st.floats(0.1, 2))
def test_a_target_has_a_partition_where_brute_force_has_one_and_it_keeps_it(trace, cluster, microbatches, share):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    layers, target = len(costs.model), share * float(tables.seconds[0, 1, -1])
    every = [split for x in range(1, min(layers, len(order)) + 1) for split in every_split(layers, len(order), x)]
    least = min(filled(tables, *split, microbatches) for split in every)
    found = _solve(tables, microbatches, target)
    if found is not None:
        assert found.bottleneck == target
        assert filled(tables, found.starts, found.replicas, microbatches) <= target * (1 + 1e-9)
    if abs(target - least) > 1e-9 * least:
        assert (found is not None) == (least < target)


def test_partitions_come_with_falling_targets_from_one_that_is_within_reach():
    costs, cluster = costs_of(even_trace(8)), loading.load_cluster('flat(4, bandwidth="1GB/s")')
    tables = tables_of(costs, cluster, [0, 1, 2, 3], 8)
    upper = float(tables.seconds[0, 1, -1])
    targets = [found.bottleneck for found in solutions(tables, 8, upper)]
    assert targets[0] == upper
    assert targets == sorted(targets, reverse=True)
    assert solutions(tables, 8, upper / 1000) == []
