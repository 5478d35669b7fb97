"""The plans that spp_plus begins with: SPP's first, and the same however many processes make them."""

import pytest

from helpers.strategies import even_trace
from pipesim.base import forked
from pipesim.base.errors import DoesNotFitError
from pipesim.core.costs import costs_of
from pipesim.core.plan import REPLICAS
from pipesim.planners.data_parallel import data_parallel
from pipesim.planners.spp import spp
from pipesim.planners.spp_plus.candidates import candidates
from pipesim.studies import loading

CLUSTER = loading.load_cluster('servers(2, 3, intra="25GB/s", inter="10Gb/s")')
COSTS = costs_of(even_trace(7, output_bytes=3_000_000, parameter_bytes=1_000_000))


def made(processes, most=10, ways=REPLICAS):
    return candidates(COSTS, CLUSTER, 6, ways, 0, "", most, processes)


def test_they_are_the_same_from_any_number_of_processes(monkeypatch):
    monkeypatch.setattr(forked, "core_count", lambda: 3)
    assert made(1) == made(2) == made(3)


def test_spps_plans_come_first_and_others_are_among_them():
    found = made(1)
    assert found[:2] == [spp(COSTS.model, CLUSTER, COSTS, 6, bandwidth=each) for each in ("shared", "nominal")]
    assert data_parallel(COSTS.model, CLUSTER, COSTS, 6) in found
    assert {plan.replicas for plan in found} == set(REPLICAS)
    whole = [sum(plan.replicas == "whole" for plan in each) for each in (found, made(1, ways=("split",)))]
    assert whole[0] > whole[1], "fewer over islands; other planners may have some"


def test_of_orders_there_are_at_most_so_many():
    few, many = made(1, most=1), made(1, most=50)
    assert few == many[: len(few)]
    assert len({plan.stages for plan in many[len(few) - 1 :]}) == len(many) - len(few) + 1 > 1


def test_what_spp_refuses_is_refused():
    cluster = loading.load_cluster('flat(2, bandwidth="1GB/s", memory=1)')
    with pytest.raises(DoesNotFitError):
        candidates(COSTS, cluster, 6, REPLICAS, 0, "gpipe", 10, 2)
