"""Costs of plans by simulation: what planners are given, and that it is the time of the best schedule."""

import functools
import inspect
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from helpers.strategies import even_trace
from pipesim.analysis import metrics
from pipesim.base import lookup
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.granularity import Blocks
from pipesim.core.plan import Plan, Stage
from pipesim.core.trace import Trace
from pipesim.engines import event
from pipesim.lowering import Setup, lower, redraw
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import loading, pricing, setups

COSTS = costs_of(even_trace(4))
CLUSTER = loading.load_cluster('flat(2, bandwidth="1GB/s")')
NAMES = [device.name for device in CLUSTER.devices]
PLAN = Plan("even", 4, 6, (Stage(0, 1, (NAMES[0],)), Stage(1, 4, (NAMES[1],))))


def seconds(plan, schedule):
    scheduler = lookup.resolve(schedule, SCHEDULERS, "scheduler")
    return metrics.iteration_time(event.run(lower(Setup(plan, scheduler(plan, COSTS, CLUSTER), COSTS, CLUSTER))))


def test_a_planner_is_given_the_prices_that_it_has_options_for():
    def both(model, cluster, costs, microbatches, *, estimate=None, exact=None): ...
    def one(model, cluster, costs, microbatches, *, exact=None): ...
    def none(model, cluster, costs, microbatches): ...

    assert [sorted(pricing.prices(planner, COSTS, CLUSTER)) for planner in (both, one, none)] == [
        ["estimate", "exact"],
        ["exact"],
        [],
    ]
    chosen = functools.partial(both, exact=seconds)
    assert sorted(pricing.prices(chosen, COSTS, CLUSTER)) == ["estimate"], "a price that the user gave stays"


def test_the_exact_price_is_the_time_of_the_best_schedule():
    price = pricing.prices(lambda exact=None: None, COSTS, CLUSTER)["exact"]  # noqa: ARG005 - only its signature counts
    assert price(PLAN) == min(seconds(PLAN, name) for name in pricing.SCHEDULES)
    assert pricing.simulated_seconds(COSTS, CLUSTER, PLAN, ["gpipe"]) == seconds(PLAN, "gpipe")


def test_an_estimate_is_exact_up_to_twice_the_few_and_extrapolated_beyond():
    """After the pipeline is full, each further microbatch takes as long as the slowest stage."""
    few = replace(PLAN, microbatches=2 * pricing.FEW)
    assert pricing.estimated_seconds(COSTS, CLUSTER, few) == pricing.simulated_seconds(
        COSTS, CLUSTER, few, pricing.SCHEDULES[:2]
    )
    many = replace(PLAN, microbatches=10 * pricing.FEW)
    exact = pricing.simulated_seconds(COSTS, CLUSTER, many, pricing.SCHEDULES[:2])
    assert pricing.estimated_seconds(COSTS, CLUSTER, many) == pytest.approx(exact, rel=1e-9)


def test_a_price_is_infinite_where_it_is_more_than_the_limit_and_unchanged_elsewhere():
    price = pricing.prices(lambda estimate=None: None, COSTS, CLUSTER)["estimate"]  # noqa: ARG005 - as above
    blocks = Blocks(COSTS, np.arange(5))
    of_blocks = pricing.prices(lambda estimate=None: None, COSTS, CLUSTER, blocks=blocks)["estimate"]  # noqa: ARG005 - as above
    for one in (price, of_blocks):
        seconds = one(PLAN)
        assert one(PLAN, below=seconds) == one(PLAN, below=2 * seconds) == seconds
        assert one(PLAN, below=seconds * (1 - 1e-12)) == one(PLAN, below=0.1 * seconds) == math.inf


# --- objectives ------------------------------------------------------------------------------------------------------


def varying(joint="microbatch"):
    """Four layers; the first takes 1 ms, and 12 ms in every fourth sample."""
    even = even_trace(4).layers
    layers = {name: np.repeat(values, 20) for name, values in even.items()} | {"sample": np.tile(np.arange(20), 4)}
    long = np.where((layers["sample"] % 4 == 0) & (layers["layer"] == 0), 12.0, 1.0)
    layers |= {name: layers[name] * long for name in ("forward_s", "backward_s")}
    return costs_of(Trace("varying", "test", 1, layers, samples=joint))


def test_an_objective_is_that_of_drawn_iterations_with_the_best_schedule():
    costs, name = varying(), "gpipe"
    price = pricing.prices(lambda cost=None: None, costs, CLUSTER, objective=pricing.Objective("p95"))["cost"]  # noqa: ARG005 - only its signature counts
    setup = Setup(PLAN, lookup.resolve(name, SCHEDULERS, "scheduler")(PLAN, costs, CLUSTER), costs, CLUSTER)
    others = [pricing.drawn_seconds(pricing.Objective(each), costs, CLUSTER, PLAN) for each in ("p50", "p99")]
    assert others[0] < price(PLAN) <= others[1]
    drawn = [
        metrics.iteration_time(event.run(redraw(lower(setup), setup, rng=np.random.default_rng(n), draw="independent")))
        for n in range(pricing.ITERATIONS)
    ]
    assert price(PLAN) == pytest.approx(np.percentile(drawn, 95), rel=0.25), "another schedule, other draws"
    assert price(PLAN) == price(PLAN), "every plan has the same draws"


def test_a_planner_minimises_the_objective():
    costs = varying()
    objective = pricing.Objective("p95")
    found = setups.plan_with("brute", costs, CLUSTER, 6, objective=objective)
    usual = setups.plan_with("brute", costs, CLUSTER, 6)
    assert found.objective_s == pricing.drawn_seconds(objective, costs, CLUSTER, found)
    assert found.objective_s <= pricing.drawn_seconds(objective, costs, CLUSTER, usual)


@pytest.mark.parametrize(
    ("planner", "costs", "message"),
    [
        ("uniform", varying(), "has no effect on this planner, which is given no cost of plans; annealing, brute"),
        ("brute", COSTS, "one sample per layer, so that all iterations are the same"),
    ],
)
def test_an_objective_that_has_no_effect_is_refused(planner, costs, message):
    with pytest.raises(InputError, match=message):
        setups.plan_with(planner, costs, CLUSTER, 6, objective=pricing.Objective("p95"))


def test_the_planners_that_are_named_as_given_a_cost_are_those_that_are():
    takes = {
        name
        for name in PLANNERS
        if {"cost", "estimate", "exact"} & set(inspect.signature(lookup.resolve(name, PLANNERS, "planner")).parameters)
    }
    assert takes == {"annealing", "brute", "spp_plus"}


def test_an_estimate_is_asked_for_again_only_where_more_may_be_found(monkeypatch):
    asked = []

    def estimate(*_, below=math.inf, split=False, **_more):
        assert not split
        asked.append(below)
        return 2.0 if below >= 2.0 else math.inf

    monkeypatch.setattr(pricing, "estimated_seconds", estimate)
    price = pricing.prices(lookup.resolve("spp_plus", PLANNERS, "planner"), COSTS, CLUSTER)["estimate"]
    mirrored = replace(PLAN, stages=(Stage(0, 1, (NAMES[1],)), Stage(1, 4, (NAMES[0],))))
    assert price(PLAN, below=1.0) == math.inf
    assert price(mirrored, below=0.5) == math.inf
    assert asked == [1.0], "more than 1 is more than 0.5, on whichever of two equal devices"
    assert [price(mirrored, below=3.0), price(PLAN), price(PLAN, below=1.5)] == [2.0, 2.0, math.inf]
    assert asked == [1.0, 3.0]


def test_large_programs_that_run_beside_each_other_have_the_least_of_their_times(monkeypatch):
    alone = [pricing.simulated_seconds(COSTS, CLUSTER, PLAN, below=below) for below in (inf, 1e-9)]
    monkeypatch.setattr(pricing, "LARGE", 0)
    for threads in (None, ThreadPoolExecutor(2)):
        monkeypatch.setattr(pricing, "kernel_threads", lambda threads=threads: threads)
        found = [pricing.simulated_seconds(COSTS, CLUSTER, PLAN, below=below) for below in (inf, 1e-9)]
        assert found == alone
    assert alone[1] == inf
