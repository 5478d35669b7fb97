"""Costs of plans by simulation: what planners are given, and that it is the time of the best schedule."""

import functools
from dataclasses import replace

import pytest

from helpers.strategies import even_trace
from pipesim.analysis import metrics
from pipesim.base import lookup
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.engines import event
from pipesim.lowering import Setup, lower
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import loading, pricing

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
