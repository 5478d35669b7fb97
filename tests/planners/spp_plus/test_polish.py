"""Local moves: what each gives, that they only improve, and what they are allowed to cost."""

import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.splits import every_split
from helpers.strategies import even_trace
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.planners.abstract_cost import with_limit
from pipesim.planners.spp_plus.polish import moves, polished
from pipesim.studies import loading, setups


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 5), st.randoms(use_true_random=False))
def test_every_move_gives_a_plan_on_the_same_devices(layers, devices, rng):
    splits = [s for x in range(1, min(layers, devices) + 1) for s in every_split(layers, devices, x)]
    starts, replicas = rng.choice(splits)
    ends = [0, *itertools.accumulate(replicas)]
    names = [f"g{i}" for i in range(devices)]
    bounds = [*starts, layers]
    stages = tuple(Stage(bounds[n], bounds[n + 1], tuple(names[ends[n] : ends[n + 1]])) for n in range(len(replicas)))
    plan = Plan("m", layers, 1, stages)
    for moved in moves(plan.stages):
        assert set(Plan("m", layers, 1, moved).devices) == set(names)


def start_and_cost(asked):
    """A plan that can be improved, and its time on the abstract pipeline; what it is asked for is put into `asked`."""
    costs, cluster = costs_of(even_trace(8)), loading.load_cluster('flat(4, bandwidth="1GB/s")')

    def cost(plan):
        asked.append(plan)
        pipeline = pipeline_of(plan, costs, cluster)
        return execute(pipeline).time(pipeline) / 1e9

    return setups.plan_with("uniform(stages=2)", costs, cluster, 4), cost


def test_polishing_stops_at_its_budget_and_never_makes_worse():
    asked = []
    start, cost = start_and_cost(asked)
    least = cost(start)
    better, price, used = polished(start, with_limit(cost), lambda _: 0.0, 7, least)
    assert len(asked) == 1 + used <= 8
    assert price <= least
    assert price == cost(better)


def test_the_plan_that_comes_next_is_begun_and_changes_nothing():
    asked, begun = [], []
    start, cost = start_and_cost(asked)
    least = cost(start)
    plain = polished(start, with_limit(cost), lambda _: 0.0, 40, least)
    without, asked[:] = list(asked), asked[:1]
    assert polished(start, with_limit(cost), lambda _: 0.0, 40, least, lambda *each: begun.append(each[0])) == plain
    assert asked == without
    followed = sum(plan in begun for plan in asked[1:])
    assert len(begun) > followed > len(asked) // 2, "where a plan is better, what was begun is not asked for"


def test_what_a_floor_rules_out_is_not_asked_for_and_changes_nothing():
    """With the cost itself as the floor, every plan that is asked for is an improvement."""
    asked, free = [], []
    start, cost = start_and_cost(asked)
    _, exact = start_and_cost(free)
    least = exact(start)
    best, price, used = polished(start, with_limit(cost), lambda _: 0.0, 1000, least)
    same, as_low, fewer = polished(start, with_limit(cost), exact, 1000, least)
    assert (same, as_low) == (best, price)
    assert fewer < used
    prices = [least, *map(exact, asked[used:])]
    assert len(prices) == 1 + fewer
    assert all(a > b for a, b in itertools.pairwise(prices))


def text(stages):
    """0-3 a b | 3-6 c: layers and devices of each stage."""
    return " | ".join(f"{stage.start}-{stage.stop} {' '.join(stage.devices)}" for stage in stages)


def test_the_moves_of_two_stages():
    stages = (Stage(0, 3, ("a", "b")), Stage(3, 6, ("c",)))
    assert [text(moved) for moved in moves(stages)] == [
        "0-4 a b | 4-6 c",  # a cut by one, by two
        "0-2 a b | 2-6 c",
        "0-5 a b | 5-6 c",
        "0-1 a b | 1-6 c",
        "0-3 a | 3-6 b c",  # a replica to its neighbour
        "0-6 a b c",  # one stage of both
        "0-1 a | 1-3 b | 3-6 c",  # two stages of one
        "0-3 a c | 3-6 b",  # two devices change places
    ]


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 5), st.randoms(use_true_random=False))
def test_no_move_leaves_a_plan_as_it_is_and_small_ones_can_be_taken_back(layers, devices, rng):
    """But for splits and merges, which deal out devices in their own way."""
    splits = [s for x in range(1, min(layers, devices) + 1) for s in every_split(layers, devices, x)]
    starts, replicas = rng.choice(splits)
    ends, bounds = [0, *itertools.accumulate(replicas)], [*starts, layers]
    stages = tuple(
        Stage(bounds[n], bounds[n + 1], tuple(f"g{i}" for i in range(ends[n], ends[n + 1])))
        for n in range(len(replicas))
    )
    for moved in moves(stages):
        assert moved != stages
        if len(moved) == len(stages) and [len(s.devices) for s in moved] == [len(s.devices) for s in stages]:
            layers_moved = [s.start for s in moved] != [s.start for s in stages]
            assert stages in moves(moved) or not layers_moved


def test_polishing_ends_where_no_move_helps():
    asked = []
    start, cost = start_and_cost(asked)
    best, price, used = polished(start, with_limit(cost), lambda _: 0.0, 10_000, cost(start))
    assert used < 10_000
    assert all(cost(replace(best, stages=stages)) >= price for stages in moves(best.stages))


def test_a_cost_that_stops_at_a_limit_leads_to_the_same_plan():
    asked, stopped = [], []
    start, cost = start_and_cost(asked)

    def stops(plan, below=float("inf")):
        seconds = cost(plan)
        stopped.append(seconds > below)
        return seconds if seconds <= below else float("inf")

    least = cost(start)
    whole = polished(start, with_limit(cost), lambda _: 0.0, 100, least)
    assert polished(start, with_limit(stops), lambda _: 0.0, 100, least) == whole
    assert sum(stopped) > len(stopped) / 2
