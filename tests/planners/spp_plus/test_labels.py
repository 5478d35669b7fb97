"""The best plan up to each state: compiled as plain, and within every inequality that it keeps."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.islands import SLOW, program_of, with_a_slow_server
from helpers.strategies import traces
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.planners.spp_plus.labels import best_labels, extended
from pipesim.studies import loading


@settings(max_examples=30)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.floats(0.2, 3))
def test_the_compiled_labels_are_their_plain_twin(trace, replicas, microbatches, share):
    costs, cluster = costs_of(trace), with_a_slow_server(loading.load_cluster(SLOW), 4)
    tables, moves, _ = program_of(costs, cluster, microbatches, replicas)
    target = share * float(tables.work[1, -1])
    plain, fast = (best_labels(tables, moves, target, kernel) for kernel in (extended, compiled(extended)))
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


@settings(max_examples=30)
@given(traces(kinds=("any",)), st.sampled_from(["split", "whole"]), st.integers(1, 8), st.floats(0.2, 1))
def test_a_greater_target_never_loses_a_plan(trace, replicas, microbatches, share):
    """What keeps every inequality for T keeps it for twice T."""
    costs, cluster = costs_of(trace), with_a_slow_server(loading.load_cluster(SLOW), 4)
    tables, moves, _ = program_of(costs, cluster, microbatches, replicas)
    target = share * float(tables.work[1, -1])
    near, far = (best_labels(tables, moves, times * target).worst[-1] for times in (1, 100))
    assert np.isfinite(far).any()
    assert np.isfinite(far).any() >= np.isfinite(near).any()
    assert (near[np.isfinite(near)] <= 1.01 * target).all()
