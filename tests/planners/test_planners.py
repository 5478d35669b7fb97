"""Every planner before the one judge, and each against what it promises."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.contracts import check_planner
from helpers.strategies import clusters, even_trace, for_drawn, traces
from pipesim.base import lookup
from pipesim.base.chains import chains_on_chains
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.planners import PLANNERS
from pipesim.planners.balanced import balanced
from pipesim.planners.uniform import uniform
from pipesim.studies.loading import load_cluster

PROBLEMS = st.tuples(traces(kinds=("any",)).map(costs_of), clusters(), st.integers(1, 5))


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_gives_a_plan_that_fits(name):
    planner = lookup.function_named(PLANNERS[name], {}, "planner")
    for_drawn(PROBLEMS, 100, lambda problem: check_planner(planner, *problem))


@pytest.mark.parametrize("name", PLANNERS)
def test_no_planner_plans_for_no_microbatches(name):
    planner = lookup.function_named(PLANNERS[name], {}, "planner")
    costs = costs_of(even_trace(2))
    with pytest.raises(InputError, match="microbatches = 0 found"):
        planner(costs.model, load_cluster('flat(2, bandwidth="1GB/s")'), costs, 0)


@pytest.mark.parametrize("planner", [uniform, balanced])
@pytest.mark.parametrize("stages", [0, 4, -1])
def test_more_stages_than_devices_or_layers_are_refused(planner, stages):
    costs = costs_of(even_trace(5))
    with pytest.raises(InputError, match=rf"stages = {stages} found; 1 to 3 was expected \(3 devices, 5 layers\)"):
        planner(costs.model, load_cluster('flat(3, bandwidth="1GB/s")'), costs, 1, stages=stages)


@given(layers=st.integers(1, 12), devices=st.integers(1, 12))
def test_uniform_gives_every_stage_as_many_layers_to_within_one(layers, devices):
    costs = costs_of(even_trace(layers))
    plan = uniform(costs.model, load_cluster(f'flat({devices}, bandwidth="1GB/s")'), costs, 4)
    counts = [stage.stop - stage.start for stage in plan.stages]
    assert len(counts) == min(layers, devices)
    assert max(counts) - min(counts) <= 1


@settings(max_examples=200)
@given(
    st.integers(1, 4).flatmap(
        lambda s: st.lists(st.lists(st.integers(0, 9), min_size=s, max_size=s), min_size=s, max_size=8)
    )
)
def test_chains_on_chains_finds_the_least_bottleneck_of_all_cuts(columns):
    """Against every choice of cuts; each stage may take another time for the same layer."""
    work = np.array(columns, float).T
    stages, layers = work.shape
    bounds, bottleneck = chains_on_chains(work)

    def slowest(cuts):
        edges = [0, *cuts, layers]
        return max(work[s, a:b].sum() for s, (a, b) in enumerate(itertools.pairwise(edges)))

    least = min(slowest(cuts) for cuts in itertools.combinations(range(1, layers), stages - 1))
    assert bottleneck == least
    assert slowest(bounds[1:-1]) == least
    assert all(a < b for a, b in itertools.pairwise(bounds)), "every stage has a layer"


def test_balanced_gives_a_slow_device_less():
    """The second device is three times slower: of 8 equal layers it takes 2."""
    layers = even_trace(8).layers
    both = {name: np.concatenate([values, values]) for name, values in layers.items()}
    both["device_kind"] = np.repeat(np.array(["v100-16gb", "a100-40gb"], object), 8)
    for name in ("forward_s", "backward_s"):
        both[name] = both[name] * np.repeat([3.0, 1.0], 8)
    from pipesim.core.cluster import Cluster, Device, Link
    from pipesim.core.trace import Trace

    costs = costs_of(Trace("two kinds", "test", 1, both))
    cluster = Cluster("two", (Device("fast", "a100-40gb"), Device("slow", "v100-16gb")), (Link("fast", "slow", 1e9),))
    plan = balanced(costs.model, cluster, costs, 4)
    assert plan.cuts == (6,)
    assert plan.objective_s == pytest.approx(4 * 6 * 3e-3)
