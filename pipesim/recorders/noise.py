"""The scatter of samples: their median, and the median absolute deviation from it (MAD)."""

from dataclasses import dataclass

import numpy as np

from pipesim.analysis import spread
from pipesim.base.arrays import Floats
from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """The scatter of one layer at one microbatch size, in seconds."""

    microbatch_size: int
    layer: int
    name: str
    samples: int
    forward_s: float
    forward_mad_s: float
    backward_s: float
    backward_mad_s: float

    @property
    def scatter(self) -> float:
        """The larger of the two MADs, as a share of its median."""
        pairs = ((self.forward_mad_s, self.forward_s), (self.backward_mad_s, self.backward_s))
        return max(apart / middle if middle else 0.0 for apart, middle in pairs)

    def seconds(self) -> tuple[float, float, float, float]:
        """Forward and backward, each with its MAD."""
        return self.forward_s, self.forward_mad_s, self.backward_s, self.backward_mad_s


def mad(samples: Floats) -> Floats:
    """The median distance from the median, over the first axis."""
    distance: Floats = np.median(np.abs(samples - np.median(samples, axis=0)), axis=0)
    return distance


def scatter(samples: Floats) -> Floats:
    """The same as a share of the median; 0 where all is 0."""
    middle = np.median(samples, axis=0)
    return np.divide(mad(samples), middle, out=np.zeros_like(middle), where=middle > 0)


def noise(trace: Trace) -> list[LayerNoise]:
    """The noise of each layer of a recorded trace, size after size."""
    costs = costs_of(trace)
    found = []
    for group, (_, size) in enumerate(costs.groups):
        forward, backward = (spread.noise(costs, phase, group) for phase in ("forward", "backward"))
        columns = (forward.count, forward.median, forward.mad, backward.median, backward.mad)
        rows = zip(costs.model.layers, *(column.tolist() for column in columns), strict=True)
        found += [LayerNoise(size, index, layer.name, *values) for index, (layer, *values) in enumerate(rows)]
    return found
