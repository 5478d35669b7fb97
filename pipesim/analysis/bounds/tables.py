"""What stages cost, layer by layer, everything at its best: prefix sums that the dynamic program reads."""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Replicas

# Parts of an iteration after which all-reduces are counted apart.
LATE = (0.0, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)


class Tables(NamedTuple):
    """Seconds and bytes of the first l layers, on k devices."""

    busy: Floats  # [k, l]: all microbatches, both ways, on the replica that has most of them
    passage: Floats  # [k, l]: one microbatch, both ways: there on one replica, perhaps, and back on another
    forward: Floats  # [k, l]: one microbatch, forward
    backward: Floats  # [k, l]: one microbatch, backward
    passing: Floats  # [k]: microbatches on the replica that has most of them
    many: Ints  # [k]: replicas that have so many, each others; 1 if they split each
    rest: Floats  # [v, l]: one microbatch through layers l to the last and back, on v devices or fewer to a stage
    cut: Floats  # [l]: bytes one way across the cut before layer l
    parameters: Floats  # [l]: bytes
    area: Floats  # [l]: devices' seconds that layers l to the last take at least, all microbatches
    early: float  # the least part of a microbatch's way that is forward
    late: Floats  # [t]: parts of T; what starts later has only the rest


def tables_of(costs: Costs, cluster: Cluster, microbatches: int, replicas: Replicas) -> Tables:
    """For replicas that split each microbatch, or that take them whole in turn."""
    devices, model = len(cluster.devices), costs.model
    busy, passage, forward, backward, rest = (np.zeros((devices + 1, len(model) + 1)) for _ in range(5))
    passing, many = np.zeros(devices + 1), np.ones(devices + 1, np.int64)
    least, work = np.full(len(model), np.inf), np.full(len(model), np.inf)
    early = 0.5  # a channel takes as long both ways
    for k in range(1, devices + 1):
        share, turns = (1 / k, microbatches) if replicas == "split" else (1.0, -(-microbatches // k))
        times = [(costs.forward(kind, share), both_ways(costs, kind, share)) for kind in kinds_of(cluster)]
        one = np.min([both for _, both in times], axis=0)
        ahead, back = np.min([f for f, _ in times], axis=0), np.min([both - f for f, both in times], axis=0)
        forward[k, 1:], backward[k, 1:], passage[k, 1:] = np.cumsum(ahead), np.cumsum(back), np.cumsum(ahead + back)
        passing[k], many[k] = turns, 1 if replicas == "split" else microbatches - k * (turns - 1)
        busy[k, 1:] = np.cumsum(turns * one)
        least = np.minimum(least, ahead + back)
        work = np.minimum(work, k * turns * one)
        rest[k, :-1] = np.cumsum(least[::-1])[::-1]
        early = min(early, *(float((f[both > 0] / both[both > 0]).min(initial=0.5)) for f, both in times))
    cut = np.concatenate([[0.0], model.cut_bytes])[: len(model) + 1]
    parameters = np.concatenate([[0.0], np.cumsum(model.parameter_bytes, dtype=float)])
    area = np.concatenate([np.cumsum(work[::-1])[::-1], [0.0]])
    return Tables(busy, passage, forward, backward, passing, many, rest, cut, parameters, area, early, np.array(LATE))


def kinds_of(cluster: Cluster) -> list[str]:
    """The kinds of devices there are."""
    return list(dict.fromkeys(device.kind for device in cluster.devices))


def both_ways(costs: Costs, kind: str, share: float) -> Floats:
    """Seconds of each layer's forward and whole backward, the first or a later one."""
    backward = np.minimum(costs.backward(kind, share), costs.seconds("backward_first", kind, share))
    return costs.forward(kind, share) + backward
