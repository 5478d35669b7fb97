"""Simulated annealing over cuts, replication and placing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import KINDS, clusters, even_trace, traces
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.planners import annealing as module
from pipesim.planners.abstract_cost import abstract_cost
from pipesim.planners.annealing import State, annealing
from pipesim.planners.balanced import balanced
from pipesim.planners.brute import brute
from pipesim.studies.loading import load_cluster

SERVERS = 'servers(2, 2, intra="10GB/s", inter="1GB/s")'


def uneven(layers, seed):
    """Layers of different seconds and bytes."""
    rng = np.random.default_rng(seed)
    trace = even_trace(layers)
    for name in ("forward_s", "backward_s", "output_bytes", "parameter_bytes"):
        trace.layers[name] = (trace.layers[name] * rng.uniform(0.2, 4, layers)).astype(trace.layers[name].dtype)
    return costs_of(trace)


@pytest.mark.parametrize("seed", range(6))
def test_a_tiny_problem_is_solved(seed):
    """As well as by trying every plan on every order of the devices."""
    costs, cluster = uneven(5, seed), load_cluster(SERVERS)
    least = brute(costs.model, cluster, costs, 6, orders="all", cost=abstract_cost(costs, cluster, 1)).objective_s
    assert annealing(costs.model, cluster, costs, 6).objective_s == least


@settings(max_examples=30)
@given(traces(kinds=KINDS), clusters(), st.integers(1, 5), st.integers(0, 3))
def test_a_larger_budget_is_never_worse_and_the_same_seed_gives_the_same_plan(trace, cluster, microbatches, seed):
    costs = costs_of(trace)
    budgets = (1, 2, 3, 10, 60)
    found = [annealing(costs.model, cluster, costs, microbatches, seed=seed, evaluations=n) for n in budgets]
    assert all(later.objective_s <= earlier.objective_s for earlier, later in pairwise(found))
    assert found[-1] == annealing(costs.model, cluster, costs, microbatches, seed=seed, evaluations=60)
    seconds = abstract_cost(costs, cluster, 1)
    assert found[-1].objective_s == seconds(found[-1]), "what the plan states is what it costs"
    assert found[1].objective_s <= seconds(balanced(costs.model, cluster, costs, microbatches))


def test_a_larger_budget_goes_on_where_a_smaller_one_stops():
    """The same plans are asked for in the same order, and the best of them is kept."""
    costs, cluster = uneven(20, 1), load_cluster('servers(2, 4, intra="10GB/s", inter="1GB/s")')
    pipelined, asked, found = abstract_cost(costs, cluster, 1), [], []

    def seconds(plan):
        return 1 + pipelined(plan)  # differences of some percent, so that the temperature decides

    for budget in (20, 60, 150, 210, 260):
        seen = []
        plan = annealing(
            costs.model, cluster, costs, 6, evaluations=budget, cost=lambda p, s=seen: s.append(p) or seconds(p)
        )
        assert seen[: len(asked)] == asked
        assert plan.objective_s == min(map(seconds, seen))
        asked, found = seen, [*found, plan.objective_s]
    assert found == sorted(found, reverse=True)


def test_each_round_begins_at_the_best_state(monkeypatch):
    """Costs that are nearly equal let the search drift away from its start, which is the best."""
    start, visited = State((0, 9), ((0, 1, 2, 3),)), []
    near = module._near
    monkeypatch.setattr(module, "_near", lambda state, rng: visited.append(state) or near(state, rng))
    rng = np.random.default_rng(0)
    best = module._search(start, lambda state: 1.0 if state == start else 1.000001, rng, 2 * module.ROUND + 1)
    assert best == start
    assert visited[module.ROUND - 1] != start
    assert visited[module.ROUND] == visited[2 * module.ROUND] == start


def test_seeds_lead_different_ways():
    costs, cluster = uneven(20, 1), load_cluster('servers(2, 4, intra="10GB/s", inter="1GB/s")')
    found = {annealing(costs.model, cluster, costs, 6, seed=seed, evaluations=25).stages for seed in range(8)}
    assert len(found) > 1


def test_the_budget_is_a_number_of_evaluations():
    costs, cluster = uneven(20, 1), load_cluster(SERVERS)
    for budget in (1, 2, 17):
        asked = []
        annealing(costs.model, cluster, costs, 6, evaluations=budget, cost=lambda p, a=asked: a.append(p) or 1.0)
        assert 1 <= len(asked) <= budget
        assert len({plan.stages for plan in asked}) == len(asked), "no plan is asked for twice"


def test_the_cost_is_what_is_minimised():
    """The product of the numbers of layers is least where all stages but one have one; one first device is cheap."""
    costs, cluster = uneven(9, 1), load_cluster(SERVERS)

    def cost(plan):
        counts = [b - a for a, b in pairwise([0, *plan.cuts, 9])]
        return float(np.prod(counts)) + counts[0] + 10 * (plan.stages[0].devices != ("node1.gpu1",))

    plan = annealing(costs.model, cluster, costs, 6, cost=cost)
    assert plan.objective_s == cost(plan) == 6 + 1
    assert plan.stages[0].devices == ("node1.gpu1",)


def test_a_plan_of_infinite_cost_is_left_alone():
    costs, cluster = uneven(9, 1), load_cluster(SERVERS)
    plan = annealing(costs.model, cluster, costs, 6, cost=lambda plan: float("inf") if len(plan.stages) > 1 else 2.0)
    assert plan.replication == (4,)


@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 1000))
def test_every_move_leads_from_a_plan_to_another(layers, devices, seed):
    """Layers stay covered in order, each device stays in one place, and no stage goes without either."""
    rng = np.random.default_rng(seed)
    state = State((0, layers), (tuple(range(devices)),))
    for _ in range(60):
        for move in module.MOVES:
            near = move(state, rng)
            if near is None:
                continue
            assert near != state
            assert (near.bounds[0], near.bounds[-1]) == (0, layers)
            assert all(a < b for a, b in pairwise(near.bounds))
            assert len(near.groups) == len(near.bounds) - 1
            assert all(near.groups)
            assert sorted(d for group in (*near.groups, near.idle) for d in group) == list(range(devices))
            state = near


def test_one_layer_on_one_device_leaves_nothing_to_search():
    costs, cluster = uneven(1, 1), load_cluster('flat(1, bandwidth="1GB/s")')
    assert module._near(State((0, 1), ((0,),)), np.random.default_rng(0)) is None
    assert annealing(costs.model, cluster, costs, 6).replication == (1,)


@pytest.mark.parametrize(
    ("move", "start", "expected"),
    [
        ("_shifted", State((0, 2, 3), ((0,), (1,))), State((0, 1, 3), ((0,), (1,)))),
        ("_split", State((0, 2), ((3, 5),)), State((0, 1, 2), ((3,), (5,)))),
        ("_split", State((0, 2), ((3,),), (5,)), State((0, 1, 2), ((3,), (5,)))),
        ("_merged", State((0, 1, 2), ((5,), (3,))), State((0, 2), ((3, 5),))),
        ("_moved", State((0, 1), ((4,),), (2,)), State((0, 1), ((2, 4),))),
        ("_swapped", State((0, 1, 2), ((4,), (2,))), State((0, 1, 2), ((2,), (4,)))),
        ("_swapped", State((0, 1), ((4,),), (2,)), State((0, 1), ((2,),), (4,))),
        ("_shifted", State((0, 1, 2), ((0,), (1,))), None),
        ("_split", State((0, 1), ((0, 1),)), None),
        ("_split", State((0, 2), ((0,),)), None),
        ("_merged", State((0, 2), ((0,),)), None),
        ("_moved", State((0, 1, 2), ((0,), (1,))), None),
        ("_swapped", State((0, 2), ((0, 1),)), None),
    ],
)
def test_a_move_does_this_or_is_impossible(move, start, expected):
    assert getattr(module, move)(start, np.random.default_rng(0)) == expected


def test_no_evaluations_are_refused():
    costs = uneven(3, 1)
    with pytest.raises(InputError, match="evaluations = 0 found; at least 1 was expected"):
        annealing(costs.model, load_cluster(SERVERS), costs, 6, evaluations=0)
