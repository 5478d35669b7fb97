"""GPipe's balance against every choice of cuts."""

import itertools

import numpy as np
import pytest

from helpers.rivals import drawn_costs
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace
from pipesim.planners.gpipe import gpipe
from pipesim.studies.loading import load_cluster


def largest(sizes, cuts):
    return max(sizes[a:b].sum() for a, b in itertools.pairwise([0, *cuts, len(sizes)]))


@pytest.mark.parametrize("balance", ["time", "parameters"])
@pytest.mark.parametrize("seed", range(20))
def test_no_other_cuts_have_a_smaller_largest_stage(balance, seed):
    rng = np.random.default_rng(seed)
    layers, stages = int(rng.integers(4, 9)), int(rng.integers(1, 5))
    costs = drawn_costs(rng, layers)
    plan = gpipe(costs.model, load_cluster('flat(4, bandwidth="1GB/s")'), costs, 8, stages=stages, balance=balance)
    sizes = costs.forward("any") + costs.backward("any") if balance == "time" else costs.model.parameter_bytes
    least = min(largest(sizes, cuts) for cuts in itertools.combinations(range(1, layers), stages - 1))
    assert largest(sizes, plan.cuts) == pytest.approx(least, rel=1e-12)
    assert plan.replication == (1,) * stages
    assert plan.objective_s == (pytest.approx(8 * least, rel=1e-12) if balance == "time" else None)


def test_twice_the_seconds_give_the_same_cuts_and_twice_the_objective():
    cluster = load_cluster('flat(3, bandwidth="1GB/s")')
    once, twice = (drawn_costs(np.random.default_rng(3), 7, seconds=factor) for factor in (1, 2))
    plan, slow = (gpipe(costs.model, cluster, costs, 4) for costs in (once, twice))
    assert slow.cuts == plan.cuts
    assert slow.objective_s == pytest.approx(2 * plan.objective_s, rel=1e-12)


def test_how_devices_and_links_differ_is_ignored():
    """The second device is three times slower, and behind a slow link; still both get four of eight equal layers."""
    columns = {
        "layer": np.tile(np.arange(8), 2),
        "name": np.array([f"layer{i}" for i in range(8)] * 2, object),
        "device_kind": np.repeat(np.array(["v100-16gb", "a100-40gb"], object), 8),
        "microbatch_size": np.ones(16, np.int64),
        "forward_s": np.repeat([3e-3, 1e-3], 8),
        "backward_s": np.repeat([6e-3, 2e-3], 8),
        "output_bytes": np.full(16, 10**6),
        "stash_bytes": np.zeros(16, np.int64),
        "parameter_bytes": np.full(16, 10**6),
    }
    costs = costs_of(Trace("two kinds", "test", 1, columns))
    cluster = Cluster("two", (Device("fast", "a100-40gb"), Device("slow", "v100-16gb")), (Link("fast", "slow", 1.0),))
    plan = gpipe(costs.model, cluster, costs, 4)
    assert plan.cuts == (4,)
    assert plan.objective_s == pytest.approx(4 * 4 * 9e-3)


def test_another_balance_is_refused():
    costs = drawn_costs(np.random.default_rng(0), 3)
    with pytest.raises(InputError, match="balance 'bytes' found; 'time' or 'parameters' was expected"):
        gpipe(costs.model, load_cluster('flat(2, bandwidth="1GB/s")'), costs, 4, balance="bytes")
