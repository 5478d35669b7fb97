"""What the tests of planners draw: chains of layers with distinct times and sizes, from a seed."""

import numpy as np

from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace


def drawn_costs(rng, layers, *, seconds=1.0, parameters=1.0, activations=1.0):
    """Costs of a chain; the factors scale times, parameters and activations of what the seed gives."""
    forward, backward = rng.uniform(1e-3, 5e-3, layers), rng.uniform(1e-3, 9e-3, layers)
    outputs, weights = rng.integers(10**3, 10**6, layers), rng.integers(0, 10**6, layers)
    columns = {
        "layer": np.arange(layers),
        "name": np.array([f"layer{i}" for i in range(layers)], object),
        "forward_s": seconds * forward,
        "backward_s": seconds * backward,
        "output_bytes": (activations * outputs).astype(np.int64),
        "stash_bytes": np.zeros(layers, np.int64),
        "parameter_bytes": (parameters * weights).astype(np.int64),
    }
    return costs_of(Trace("drawn", "test", 1, columns))


def compositions(total, parts):
    """All ways to write a number as so many positive ones, in order."""
    if parts == 1:
        return [(total,)] if total > 0 else []
    return [(a, *rest) for a in range(1, total) for rest in compositions(total - a, parts - 1)]
