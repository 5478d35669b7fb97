"""docs/certificate.md: no simulation breaks one of its inequalities, and the code keeps no other."""

import functools
import random

import numpy as np
import pytest

from helpers.certificate import broken, model_of, rounding, terms
from helpers.instances import SCHEDULERS, any_order, case_of, drawn, every_plan, seconds
from pipesim.analysis import bounds
from pipesim.analysis.bounds.forms import by_form, by_shape
from pipesim.analysis.bounds.guesses import Guesses
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import by_island
from pipesim.base.errors import DeadlockError, ScheduleError
from pipesim.core.scenario import CALM
from pipesim.core.schedule import BACKWARD, FORWARD
from pipesim.studies import certified


def covered(instance):
    """Whether the inequalities are about such an instance."""
    options = instance.options
    calm = instance.scenario == CALM and options.transfers == "eager"
    return calm and certified.reduces_in_one_ring(options) and not certified.exchanges_beside(options)


def drawn_case(rng):
    """An instance without a scenario, a plan for it, any partition into islands.

    Its replicas reduce as the inequalities have it; for other options, the bound is taken without what they exchange.
    """
    instance = drawn(rng)
    while not covered(instance):
        instance = drawn(rng)
    plan = rng.choice(list(every_plan(instance)))
    label = np.unique([rng.randrange(2) for _ in instance.cluster.devices], return_inverse=True)[1]
    if instance.options.sharing in {"none", "channel"}:
        label = np.zeros_like(label)
    return instance, plan, label


def test_no_simulation_breaks_an_inequality_and_each_is_nearly_reached():
    """Every inequality on its own, with the plan's own stages and channels, on any partition of the devices.

    A simulation that takes 0.1 % less would break each of them, so an error of 0.1 % would be seen.
    """
    rng, reached, tried = random.Random(7), set(), 0
    while tried < 300:
        instance, plan, label = drawn_case(rng)
        make = rng.choice([*SCHEDULERS.values(), lambda plan, _, rng: any_order(plan, rng)])
        try:
            case = case_of(instance, plan, make(plan, instance, rng))
            time = seconds(case)
        except (ScheduleError, DeadlockError):
            continue
        if any(kind not in {FORWARD, BACKWARD} for kind in case.schedule.kind):
            continue
        tried += 1
        in_step = plan.replicas == "whole" or bounds._in_step(plan, case.schedule)
        model = model_of(instance.cluster, label, instance.options.sharing, in_step=in_step)
        found = terms(plan, instance.costs, instance.cluster, model, label)
        wrong = broken(found, time + rounding(plan, instance.cluster))
        assert not wrong, f"{wrong} for {time} s: {plan}, {instance.options}, {case.schedule}"
        reached |= broken(found, 0.999 * time)
    assert reached >= {"B23", "B24", "B25", "B27", "B28", "B29", "B30", "B31", "B32", "B34"}


@pytest.mark.parametrize("seed", range(3))
def test_what_keeps_every_inequality_is_reachable(seed):
    """So that the bound is no higher than the document derives, for the exact moves and the coarser ones."""
    rng = random.Random(100 + seed)
    for _ in range(20):
        instance, plan, label = drawn_case(rng)
        model = model_of(instance.cluster, label, instance.options.sharing, in_step=True)
        found = terms(plan, instance.costs, instance.cluster, model, label)
        target = least(found)
        sums = layer_sums(instance.costs, instance.cluster, plan.microbatches, plan.replicas)
        for moves_of in (by_island, by_form, *([by_shape] if len(model.sizes) > 1 else [])):
            build = functools.partial(moves_of, model, plan.replicas, plan.microbatches)
            for grain in (2.0, 0.02):
                assert Guesses(sums, build).reaches(target * (1 + 1e-9) + 1e-12, grain), (moves_of, grain, plan)


@pytest.mark.parametrize("seed", range(3))
def test_it_stays_reachable_by_way_of_what_greater_guesses_have_left(seed):
    """With what a coarser description leaves, too, and however often a guess is repeated (L6, L7)."""
    rng = random.Random(300 + seed)
    for _ in range(20):
        instance, plan, label = drawn_case(rng)
        model = model_of(instance.cluster, label, instance.options.sharing, in_step=True)
        target = least(terms(plan, instance.costs, instance.cluster, model, label)) * (1 + 1e-9) + 1e-12
        sums = layer_sums(instance.costs, instance.cluster, plan.microbatches, plan.replicas)
        by = [functools.partial(one, model, plan.replicas, plan.microbatches) for one in (by_form, by_island)]
        for search in (Guesses(sums, by[1]), Guesses(sums, by[1], Guesses(sums, by[0]))):
            for factor, grain in ((1.3, 2.0), (1.05, 0.02), (1.01, 2.0), (1, 0.1), (1, 0.02), (1, 0.002), (1, 0.002)):
                assert search.reaches(factor * target, grain), (factor, grain, plan)


def least(found):
    """The least T that breaks no inequality, nearly: B35 alone may be broken by more than one T apart."""
    low, high = 0.0, 1e-6
    while broken(found, high):
        low, high = high, 1.1 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if broken(found, middle) else (low, middle)
    return high


def test_the_code_keeps_all_of_them():
    """Where the best plan breaks an inequality for a T that is 1 % less, the search finds no plan either, mostly."""
    rng, searched, kept = random.Random(200), 0, 0
    while searched < 25:
        instance, _, label = drawn_case(rng)
        plans = [plan for plan in every_plan(instance) if plan.replicas == "split"]
        if len(plans) > 120:
            continue
        searched += 1
        model = model_of(instance.cluster, label, instance.options.sharing, in_step=True)
        best = min(least(terms(plan, instance.costs, instance.cluster, model, label)) for plan in plans)
        sums = layer_sums(instance.costs, instance.cluster, instance.microbatches, "split")
        build = functools.partial(by_island, model, "split", instance.microbatches)
        kept += not Guesses(sums, build).reaches(0.99 * best, 0.001)
    assert kept >= 20
