"""All plans, one after the other."""

from itertools import combinations, pairwise, permutations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import KINDS, clusters, even_trace, traces
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.errors import InputError, RefusedError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.planners.brute import brute, plan_count
from pipesim.studies.loading import load_cluster


def seen_by(layers, devices, orders):
    """All plans that brute asks the cost of."""
    costs, seen = costs_of(even_trace(layers)), []
    cluster = load_cluster(f'flat({devices}, bandwidth="1GB/s")')
    brute(costs.model, cluster, costs, 2, orders=orders, cost=lambda plan: seen.append(plan) or 1.0)
    return seen


@pytest.mark.parametrize("orders", ["given", "all"])
@pytest.mark.parametrize("layers", [1, 2, 3, 5])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_every_plan_is_seen_once_and_their_number_is_known_before(layers, devices, orders):
    seen = seen_by(layers, devices, orders)
    stages = {tuple((s.start, s.stop, frozenset(s.devices)) for s in plan.stages) for plan in seen}
    assert len(seen) == len(stages) == plan_count(layers, devices, orders)
    assert stages == plainly(layers, [f"gpu{i}" for i in range(devices)], orders)
    assert all(len(plan.devices) == devices for plan in seen)


def plainly(layers, devices, orders):
    """As a set: cuts of layers times cuts of every permutation of the devices."""
    found = set()
    for order in [devices] if orders == "given" else permutations(devices):
        for x in range(1, min(layers, len(devices)) + 1):
            for cuts in combinations(range(1, layers), x - 1):
                for ends in combinations(range(1, len(devices)), x - 1):
                    groups = [frozenset(order[i:j]) for i, j in pairwise([0, *ends, len(devices)])]
                    bounds = pairwise([0, *cuts, layers])
                    found.add(tuple((a, b, group) for (a, b), group in zip(bounds, groups, strict=True)))
    return found


@given(traces(kinds=KINDS), clusters(), st.integers(1, 5))
def test_by_default_the_cost_is_the_time_of_the_abstract_pipeline(trace, cluster, microbatches):
    costs = costs_of(trace)
    plan = brute(costs.model, cluster, costs, microbatches)
    pipeline = pipeline_of(plan, costs, cluster)
    assert plan.objective_s == execute(pipeline).time(pipeline) / 1e9

    def seconds(other):
        alike = pipeline_of(other, costs, cluster)
        assert execute(alike).time(alike) / 1e9 >= plan.objective_s, "nothing that was seen is faster"
        return 0.0

    brute(costs.model, cluster, costs, microbatches, cost=seconds)


def test_any_order_is_better_where_the_given_one_is_bad():
    """Fast links join a with c and b with d; in the order a b c d each neighbour is far."""
    names = "abcd"
    fast, slow = [("a", "c"), ("b", "d")], [("a", "b"), ("c", "d"), ("a", "d"), ("b", "c")]
    links = [Link(u, v, 1e10) for u, v in fast] + [Link(u, v, 1e7) for u, v in slow]
    cluster = Cluster("crossed", tuple(Device(name, "any") for name in names), tuple(links))
    costs = costs_of(even_trace(4, parameter_bytes=1_000_000))
    given, every = (brute(costs.model, cluster, costs, 8, orders=orders) for orders in ("given", "all"))
    assert every.objective_s < given.objective_s
    assert any(set(stage.devices) in [{"a", "c"}, {"b", "d"}] for stage in every.stages)


def test_among_equals_the_fewest_stages_win():
    costs = costs_of(even_trace(3))
    plan = brute(costs.model, load_cluster('flat(3, bandwidth="1GB/s")'), costs, 2, cost=lambda _: 1.0)
    assert plan.replication == (3,)


def test_too_many_plans_are_refused_with_their_number():
    costs = costs_of(even_trace(20))
    with pytest.raises(
        RefusedError, match=f"{comb(34, 15)} plans of 20 layers on 16 devices .* at most 20000 are tried"
    ):
        brute(costs.model, load_cluster('flat(16, bandwidth="1GB/s")'), costs, 2)


def test_the_limit_itself_is_allowed():
    costs = costs_of(even_trace(3))
    cluster = load_cluster('flat(3, bandwidth="1GB/s")')
    assert brute(costs.model, cluster, costs, 2, limit=plan_count(3, 3))
    with pytest.raises(RefusedError, match="6 plans of 3 layers on 3 devices"):
        brute(costs.model, cluster, costs, 2, limit=plan_count(3, 3) - 1)


def test_an_unknown_choice_of_orders_is_refused():
    costs = costs_of(even_trace(3))
    with pytest.raises(InputError, match="orders 'some' found; 'given' or 'all' was expected"):
        brute(costs.model, load_cluster('flat(3, bandwidth="1GB/s")'), costs, 2, orders="some")
