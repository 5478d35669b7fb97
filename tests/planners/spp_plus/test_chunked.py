"""Several stages on each device: in a loop or a wave, with the slowest stage as fast as it can be."""

import itertools

import pytest

import pipesim as ps
from helpers.strategies import even_trace
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.planners.spp_plus.chunked import chunked
from pipesim.schedulers.layouts import has_layout

CLUSTER = ps.load_cluster('flat(3, bandwidth="1GB/s")')
A, B, C = (device.name for device in CLUSTER.devices)
PLAN = Plan("even", 12, 4, (Stage(0, 8, (A, B)), Stage(8, 12, (C,))))


def test_each_number_of_chunks_in_each_layout():
    made = list(chunked(PLAN, costs_of(even_trace(12)), CLUSTER, 4))
    layouts = [(len(plan.stages), [one for one in ("loop", "wave") if has_layout(plan, one)]) for plan in made]
    assert layouts == [(4, ["loop"]), (4, ["wave"]), (6, ["loop"]), (8, ["loop"]), (8, ["wave"])]


def test_the_slowest_stage_is_as_fast_as_in_the_best_of_all_cuts():
    costs = costs_of(even_trace(12))
    kind = CLUSTER.devices[0].kind
    layer = (costs.forward(kind) + costs.backward(kind)).tolist()

    def slowest(bounds, lanes):
        parts = zip(itertools.pairwise(bounds), lanes, strict=True)
        return max(sum(layer[a:b]) / len(group) for (a, b), group in parts)

    for plan in list(chunked(PLAN, costs, CLUSTER, 2)):
        lanes = [stage.devices for stage in plan.stages]
        every = [(0, *cuts, 12) for cuts in itertools.combinations(range(1, 12), len(lanes) - 1)]
        found = slowest((0, *(stage.stop for stage in plan.stages)), lanes)
        assert found == pytest.approx(min(slowest(bounds, lanes) for bounds in every))


def test_no_chunks_where_there_is_one_stage_or_too_few_layers_or_replicas_take_whole_microbatches():
    costs = costs_of(even_trace(12))
    one = Plan("even", 12, 4, (Stage(0, 12, (A, B, C)),))
    whole = Plan("even", 12, 4, PLAN.stages, "whole")
    few = Plan("even", 3, 4, (Stage(0, 2, (A, B)), Stage(2, 3, (C,))))
    assert not [*chunked(one, costs, CLUSTER, 4), *chunked(whole, costs, CLUSTER, 4)]
    assert not list(chunked(few, costs_of(even_trace(3)), CLUSTER, 4))
