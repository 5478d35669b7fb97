"""The kernel of PRM beside plain Python; test_prm.py has what it finds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters, traces
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.planners.spp.bottlenecks import BackPointers, last_stages, no_plans, one_more_stage
from pipesim.planners.spp.prm import scope_of, tables_of


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8), st.data())
def test_the_compiled_program_is_its_plain_twin(trace, cluster, microbatches, data):
    """One pass for each number of stages, from the last stage on."""
    costs, order = costs_of(trace), list(range(len(cluster.devices)))
    tables = tables_of(costs, cluster, order, microbatches)
    layers, count = len(costs.model), len(order)
    limit = data.draw(st.sampled_from([np.inf, float(tables.seconds[0, 1, -1])]))
    plain, fast = no_plans(layers, count), no_plans(layers, count)
    last_stages(tables, plain, limit)
    compiled(last_stages)(tables, fast, limit)
    assert all(map(np.array_equal, plain, fast))
    size, scope = count**2 * layers, scope_of(tables, limit)
    for x in range(2, min(layers, count) + 1):
        later, plain, fast = fast, no_plans(layers, count), no_plans(layers, count)
        there, here = (BackPointers(np.zeros(size, np.uint16), np.zeros(size, np.uint16)) for _ in range(2))
        one_more_stage(tables, later, plain, there, x, 0, scope)
        compiled(one_more_stage)(tables, later, fast, here, x, 0, scope)
        assert all(map(np.array_equal, plain, fast))
        assert all(map(np.array_equal, there, here))
