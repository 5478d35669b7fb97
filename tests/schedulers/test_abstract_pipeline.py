"""The abstract pipeline has each action on its lane, with the costs of the plan."""

import numpy as np
import pytest

from helpers.splits import straight
from helpers.strategies import even_trace
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import FORWARD
from pipesim.schedulers.abstract_pipeline import abstract_pipeline

NAMES = [f"g{n}" for n in range(6)]
CLUSTER = Cluster(
    "pairs",
    tuple(Device(name, "a100-40gb") for name in NAMES),
    tuple(Link(a, b, 1e9, 1e-6) for n, a in enumerate(NAMES) for b in NAMES[n + 1 :]),
)


def pipeline_of(plan):
    return abstract_pipeline(plan, costs_of(even_trace(plan.layers)), CLUSTER)


def test_replicas_that_split_microbatches_are_one_lane():
    made = pipeline_of(straight(2, 4, [2, 1]))
    assert made.ranks == ((0, 1), (2,))
    assert (made.lanes, made.stages, made.microbatches) == (2, 2, 4)
    assert made.place.tolist() == [[0] * 4, [1] * 4]


def test_replicas_that_take_whole_microbatches_are_lanes_that_take_turns():
    made = pipeline_of(straight(2, 4, [2, 1], "whole"))
    assert made.ranks == ((0,), (1,), (2,))
    assert made.place.tolist() == [[0, 1, 0, 1], [2] * 4]


def test_chunks_of_a_device_are_slots_of_one_lane():
    plan = Plan("m", 4, 2, tuple(Stage(n, n + 1, (f"g{n % 2}",)) for n in range(4)))
    made = pipeline_of(plan)
    assert made.lanes == 2
    assert made.lane_of.tolist() == [0, 1, 0, 1]
    assert made.stage_of.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("layers", [2, 4])
def test_durations_are_those_of_the_layers_and_messages_take_latency_and_bytes(layers):
    plan = Plan("m", layers, 2, (Stage(0, layers // 2, ("g0",)), Stage(layers // 2, layers, ("g1",))))
    costs, made = costs_of(even_trace(layers)), pipeline_of(plan)
    kind = CLUSTER.devices[0].kind
    expected = [round(costs.forward(kind)[s.start : s.stop].sum() * 1e9) for s in plan.stages]
    assert made.forward.tolist() == expected
    assert (made.input + made.weight == made.backward).all()
    hop = round((1e-6 + costs.model.cut_bytes[layers // 2 - 1] / 1e9) * 1e9)
    assert made.ahead.tolist() == [hop, 0]
    assert made.back.tolist() == [0, hop]


def test_all_ranks_of_a_lane_have_its_actions():
    made = pipeline_of(straight(2, 2, [2, 1]))
    rows = [np.array([[n, FORWARD, m] for m in range(2)]) for n in range(2)]
    assert str(made.schedule(rows)).split("\n") == ["0F0,0F1", "0F0,0F1", "1F0,1F1"]
