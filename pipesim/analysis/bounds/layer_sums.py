"""What stages cost, layer by layer, everything at its best: prefix sums that the dynamic programs read."""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Replicas

# Parts of an iteration after which all-reduces are counted apart.
LATE = (0.0, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
WORK, FORWARD, BACKWARD, BOTH = range(4)  # columns of `seconds`


class LayerSums(NamedTuple):
    """Seconds and bytes of the first l layers, on k devices."""

    seconds: Floats  # [k, l, column]: WORK: all microbatches, both ways, on the replica that has most of them;
    #   FORWARD, BACKWARD: one microbatch; BOTH: one microbatch, perhaps forward on one replica and backward on another
    most: Floats  # [k]: microbatches on the replica that has most of them
    with_most: Ints  # [k]: how many replicas have so many each; 1 if they split each microbatch
    rest: Floats  # [v, l]: one microbatch through layers l to the last and back, on v devices or fewer to a stage
    cut: Floats  # [l]: bytes one way across the cut before layer l
    parameters: Floats  # [l]: bytes
    area: Floats  # B4: [l]: devices' seconds that layers l to the last take at least, all microbatches
    forward_part: float  # the least part of a microbatch's way that is forward
    late: Floats  # [t]: parts of T; what starts later has only the rest

    @property
    def work(self) -> Floats:
        """[k, l]: all microbatches, both ways."""
        return self.seconds[..., WORK]

    @property
    def both(self) -> Floats:
        """[k, l]: one microbatch, both ways."""
        return self.seconds[..., BOTH]

    def at(self, layers: Ints) -> "LayerSums":
        """With only these prefixes of the layers."""
        return self._replace(
            seconds=np.ascontiguousarray(self.seconds[:, layers]),
            rest=np.ascontiguousarray(self.rest[:, layers]),
            cut=self.cut[layers],
            parameters=self.parameters[layers],
            area=self.area[layers],
        )


def layer_sums(costs: Costs, cluster: Cluster, microbatches: int, replicas: Replicas) -> LayerSums:
    """For replicas that split each microbatch, or that take them whole in turn."""
    devices, model = len(cluster.devices), costs.model
    seconds, rest = np.zeros((devices + 1, len(model) + 1, 4)), np.zeros((devices + 1, len(model) + 1))
    most, with_most = np.zeros(devices + 1), np.ones(devices + 1, np.int64)
    least, work = np.full(len(model), np.inf), np.full(len(model), np.inf)
    forward_part = 0.5  # a channel takes as long both ways
    for k in range(1, devices + 1):
        share, rounds = (1 / k, microbatches) if replicas == "split" else (1.0, -(-microbatches // k))
        times = [(costs.forward(kind, share), both_ways(costs, kind, share)) for kind in kinds_of(cluster)]
        one = np.min([both for _, both in times], axis=0)
        ahead, back = np.min([f for f, _ in times], axis=0), np.min([both - f for f, both in times], axis=0)
        for column, layer in ((WORK, rounds * one), (FORWARD, ahead), (BACKWARD, back), (BOTH, ahead + back)):
            seconds[k, 1:, column] = np.cumsum(layer)
        most[k], with_most[k] = rounds, 1 if replicas == "split" else microbatches - k * (rounds - 1)
        least = np.minimum(least, ahead + back)
        work = np.minimum(work, k * rounds * one)
        rest[k, :-1] = np.cumsum(least[::-1])[::-1]
        parts = (float((f[both > 0] / both[both > 0]).min(initial=0.5)) for f, both in times)
        forward_part = min(forward_part, *parts)
    cut = np.concatenate([[0.0], model.cut_bytes])[: len(model) + 1]
    parameters = np.concatenate([[0.0], np.cumsum(model.parameter_bytes, dtype=float)])
    area = np.concatenate([np.cumsum(work[::-1])[::-1], [0.0]])
    return LayerSums(seconds, most, with_most, rest, cut, parameters, area, forward_part, np.array(LATE))


def kinds_of(cluster: Cluster) -> list[str]:
    """The kinds of devices there are."""
    return list(dict.fromkeys(device.kind for device in cluster.devices))


def both_ways(costs: Costs, kind: str, share: float) -> Floats:
    """Seconds of each layer's forward and whole backward, the first or a later one."""
    backward = np.minimum(costs.backward(kind, share), costs.seconds("backward_first", kind, share))
    return costs.forward(kind, share) + backward
