"""Prices that another process computes beside this one: the same, whatever becomes of it, and of what was begun."""

import os
from math import inf

import pytest

from helpers.strategies import even_trace
from pipesim.base import forked
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.studies import loading, pricing, remembered_prices

COSTS = costs_of(even_trace(4))
CLUSTER = loading.load_cluster('flat(2, bandwidth="1GB/s")')
NAMES = [device.name for device in CLUSTER.devices]


def cuts(stop=4):
    """Plans of two stages, cut behind each layer."""
    return [Plan("even", 4, 6, (Stage(0, at, (NAMES[0],)), Stage(at, stop, (NAMES[1],)))) for at in range(1, stop)]


@pytest.fixture
def beside(monkeypatch):
    """An estimate whose next price another process computes; how many of its answers were waited for."""
    monkeypatch.setattr(forked, "core_count", lambda: 2)
    monkeypatch.setattr(remembered_prices, "WORTH_A_PROCESS_S", -1.0)
    if not forked.is_possible():
        pytest.skip("a system without fork, or a process of a pool")
    answered, answer = [], forked.Forked.answer

    def counted(process, number):
        answered.append(number)
        return answer(process, number)

    monkeypatch.setattr(forked.Forked, "answer", counted)
    return pricing.prices(lambda estimate=None: None, COSTS, CLUSTER)["estimate"], answered  # noqa: ARG005 - only its signature counts


def test_a_price_that_was_begun_is_the_same(beside):
    price, answered = beside
    plain = [pricing.estimated_seconds(COSTS, CLUSTER, plan) for plan in cuts()]
    first, second, third = cuts()
    price.begin(second)
    assert [price(first), price(second)] == plain[:2]
    assert len(answered) == 1
    price.begin(third, plain[2] / 2)
    price.begin(first)  # is known, and does not come in between
    assert price(third, plain[2] / 2) == inf
    assert price(third) == plain[2], "only that it is above a lower limit was known"
    assert len(answered) == 2


def test_what_was_begun_and_is_not_asked_for_is_passed_over(beside):
    price, answered = beside
    plain = [pricing.estimated_seconds(COSTS, CLUSTER, plan) for plan in cuts()]
    first, second, third = cuts()
    price.begin(second)
    assert price(first) == plain[0]
    assert price(third) == plain[2], "the first was better, so that others than the second come now"
    assert price(second) == plain[1]
    assert not answered


def test_without_the_process_prices_are_computed_here(beside, monkeypatch):
    price, answered = beside
    monkeypatch.setattr(price._beside, "_price", lambda *_: os._exit(1))
    first, second, _ = cuts()
    price.begin(second)
    assert [price(first), price(second)] == [pricing.estimated_seconds(COSTS, CLUSTER, plan) for plan in cuts()[:2]]
    assert len(answered) == 1
