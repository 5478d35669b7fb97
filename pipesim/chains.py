"""Chains on chains: a chain of layers cut into contiguous parts, one per worker, the slowest as fast as can be."""

import numpy as np
from numpy.typing import NDArray


def chains_on_chains(work: NDArray[np.float64]) -> tuple[list[int], float]:
    """Bounds of contiguous stages that minimise the slowest, and its seconds. `work[s, l]`: layer l on stage s.

    best[l] = least bottleneck of layers 0 .. l-1 on the stages so far, every one with a layer or more
    next[l] = min over l' < l of max( best[l'], seconds of layers l' .. l-1 on the next stage )
    """
    stages, layers = work.shape
    before = np.concatenate([np.zeros((stages, 1)), np.cumsum(work, axis=1)], axis=1)
    best = np.where(np.arange(layers + 1) >= 1, before[0], np.inf)
    starts = [np.zeros(layers + 1, np.int64)]
    begins_earlier = np.arange(layers + 1)[:, None] < np.arange(layers + 1)
    for stage in range(1, stages):
        seconds = before[stage][None, :] - before[stage][:, None]  # [l', l]
        slowest = np.where(begins_earlier, np.maximum(best[:, None], seconds), np.inf)
        starts.append(np.argmin(slowest, axis=0))
        best = slowest.min(axis=0)
    bounds = [layers]
    for stage in range(stages - 1, -1, -1):
        bounds.append(int(starts[stage][bounds[-1]]))
    return bounds[::-1], float(best[layers])
