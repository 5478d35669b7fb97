"""Plans that keep fill, drain and bottleneck small: the program against brute force over all splits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.splits import every_split
from helpers.strategies import clusters, even_trace, traces
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.planners.spp.prm import least_areas, tables_of
from pipesim.planners.spp_plus.fill_and_drain import LAST, STEPS, HeadTable, _solve, least_heads, solutions
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


def tables_and_times(trace, cluster, microbatches):
    """The tables of the program, and T of every plan."""
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables, layers = tables_of(costs, cluster, order, microbatches), len(costs.model)
    every = [split for x in range(1, min(layers, len(order)) + 1) for split in every_split(layers, len(order), x)]
    return tables, [filled(tables, *split, microbatches) for split in every]


@settings(max_examples=40)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_the_parametric_program_equals_brute_force(trace, cluster, microbatches):
    tables, every = tables_and_times(trace, cluster, microbatches)
    least, upper = min(every), max(every) * 1.5 + 1e-9
    found = solutions(tables, microbatches, upper)
    best = min(filled(tables, s.starts, s.replicas, microbatches) for s in found)
    assert best == pytest.approx(least, rel=1e-3, abs=upper * 1e-5)


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8), st.floats(0.2, 3))
def test_the_compiled_program_is_its_plain_twin(trace, cluster, microbatches, share):
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    target = share * float(tables.seconds[0, 1, -1])
    area = least_areas(tables.seconds)
    plain, fast = HeadTable.of(tables), HeadTable.of(tables)
    least_heads(tables, area, microbatches, target, plain)
    compiled(least_heads)(tables, area, microbatches, target, fast)
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8), st.floats(0.1, 2))
def test_a_target_has_a_partition_where_brute_force_has_one_and_it_keeps_it(trace, cluster, microbatches, share):
    tables, every = tables_and_times(trace, cluster, microbatches)
    least, target = min(every), share * float(tables.seconds[0, 1, -1])
    found = _solve(tables, microbatches, target, HeadTable.of(tables))
    if found is not None:
        assert found.bottleneck == target
        assert filled(tables, found.starts, found.replicas, microbatches) <= target * (1 + 1e-9)
    if abs(target - least) > 1e-9 * least:
        assert (found is not None) == (least < target)


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_the_last_plans_of_a_bisection_end_at_the_least_target(trace, cluster, microbatches):
    tables, every = tables_and_times(trace, cluster, microbatches)
    least, upper = min(every), filled(tables, (0,), (len(cluster.devices),), microbatches)
    targets = [found.bottleneck for found in solutions(tables, microbatches, upper)]
    assert least * (1 - 1e-9) <= targets[-1] <= least + upper / 2 ** (STEPS - 1) + 1e-9 * upper
    assert len(targets) <= LAST
    assert all(high > low > high / 4 for high, low in pairwise(targets))  # each half of the interval before, or nearer


def test_what_is_out_of_reach_has_no_plans():
    costs, cluster = costs_of(even_trace(8)), loading.load_cluster('flat(4, bandwidth="1GB/s")')
    tables = tables_of(costs, cluster, [0, 1, 2, 3], 8)
    upper = float(tables.seconds[0, 1, -1])
    assert solutions(tables, 8, upper)[0].bottleneck <= upper
    assert solutions(tables, 8, upper / 1000) == []
