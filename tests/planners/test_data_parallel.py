"""Data parallelism has nothing to choose; its objective is a formula."""

import numpy as np
import pytest

from helpers.rivals import drawn_costs
from pipesim.planners.data_parallel import data_parallel
from pipesim.studies.loading import load_cluster


def planned(costs, cluster, microbatches=8):
    return data_parallel(costs.model, load_cluster(cluster), costs, microbatches)


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_the_objective_is_shared_work_and_a_ring(devices):
    """M (f + b) / V, then 2 (V - 1) / V of the parameters at the bandwidth of the one pair there is."""
    costs = drawn_costs(np.random.default_rng(devices), 6)
    plan = planned(costs, f'flat({devices}, bandwidth="2GB/s")')
    work = costs.forward("any").sum() + costs.backward("any").sum()
    ring = 2 * (devices - 1) / devices * costs.model.parameter_bytes.sum() / 2e9
    assert plan.objective_s == pytest.approx(8 * work / devices + ring, rel=1e-12)
    assert plan.replication == (devices,)
    assert plan.replicas == "split"
    assert plan.cuts == ()


def test_the_slowest_pair_sets_the_pace_of_the_ring():
    """Between servers all pairs have 1 GB/s at most, so the 10 GB/s inside them do not help."""
    costs = drawn_costs(np.random.default_rng(0), 6)
    two_levels = planned(costs, 'servers(2, 2, intra="10GB/s", inter="1GB/s")')
    assert two_levels.objective_s == pytest.approx(planned(costs, 'flat(4, bandwidth="1GB/s")').objective_s, rel=1e-12)


def test_twice_the_seconds_and_bytes_take_twice_the_time():
    once = planned(drawn_costs(np.random.default_rng(1), 5), 'flat(3, bandwidth="1GB/s")')
    twice = planned(drawn_costs(np.random.default_rng(1), 5, seconds=2, parameters=2), 'flat(3, bandwidth="1GB/s")')
    assert twice.objective_s == pytest.approx(2 * once.objective_s, rel=1e-12)


def test_latency_and_activations_are_ignored():
    costs = drawn_costs(np.random.default_rng(2), 5)
    larger = drawn_costs(np.random.default_rng(2), 5, activations=100)
    near, far = ('flat(3, bandwidth="1GB/s")', 'flat(3, bandwidth="1GB/s", latency="1s")')
    assert planned(costs, near).objective_s == planned(costs, far).objective_s == planned(larger, near).objective_s
