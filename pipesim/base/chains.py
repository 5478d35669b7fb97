"""Chains-on-chains partitioning: contiguous parts of a chain, one per worker, that minimise the slowest part."""

from collections.abc import Sequence

import numpy as np

from pipesim.base.arrays import Floats


def chains_on_chains(work: Sequence[Floats] | Floats) -> tuple[list[int], float]:
    """Boundaries of the contiguous stages that minimise the slowest, and its seconds. `work[s][l]`: layer l on stage s.

    best[l] = least bottleneck of layers 0 .. l-1 on the stages so far, each with at least one layer
    next[l] = min over l' < l of max( best[l'], seconds of layers l' .. l-1 on the next stage )

    Ties go to the first l'. Memory: one `best` per stage; time: layers x log(layers) per stage.
    """
    before = _prefix(work[0])
    best = [np.where(np.arange(len(before)) >= 1, before, np.inf)]
    for seconds in work[1:]:
        best.append(_next(best[-1], _prefix(seconds)))
    bounds = [len(best[0]) - 1]
    for stage in range(len(best) - 1, 0, -1):
        end, before = bounds[-1], _prefix(work[stage])
        bounds.append(int(np.argmin(np.maximum(best[stage - 1][:end], before[end] - before[:end]))))
    return [0, *bounds[::-1]], float(best[-1][-1])


def chain_bytes(parts: int, length: int) -> int:
    """What `chains_on_chains` takes at most: `best` for every part, and what a part needs while it is computed."""
    return 8 * (parts + 50) * length


def _prefix(seconds: Floats) -> Floats:
    """[l]: seconds of layers 0 .. l-1."""
    return np.concatenate([[0.0], np.cumsum(seconds)])


def _next(best: Floats, before: Floats) -> Floats:
    """[l]: min over l' < l of max( best[l'], before[l] - before[l'] ), without a table of l' and l.

    best ──╮    ╭──    `best` need not increase, since a layer may be slow on one stage and fast on the next. But if
           ╰──╮ │      l'' > l' has a smaller best, l'' is the better choice, as its stage is shorter too. So best[l']
    l'  ...   ╰─╯  l   may be replaced by min(best[l' .. l-1]), which increases with l', while the seconds of the
                       stage decrease. The minimum is where they cross: at `at`, the first l' from which on the
                       former is the larger, or just before it.

    least[k][l'] = min(best[l' .. l' + 2^k - 1]), so that `at` is found in log(layers) steps from l leftwards.
    """
    least = [best]
    while 2 ** len(least) <= len(best):
        half = 2 ** (len(least) - 1)
        least.append(np.minimum(least[-1][:-half], least[-1][half:]))
    ends = np.arange(1, len(best))
    at, bottleneck = ends.copy(), np.full(len(ends), np.inf)
    for k in range(len(least) - 1, -1, -1):
        start = np.maximum(at - 2**k, 0)
        lower = np.minimum(bottleneck, least[k][np.minimum(start, len(least[k]) - 1)])
        further = (at >= 2**k) & (lower >= before[ends] - before[start])
        at, bottleneck = np.where(further, start, at), np.where(further, lower, bottleneck)
    longer = np.where(at > 0, before[ends] - before[at - 1], np.inf)
    return np.concatenate([[np.inf], np.minimum(bottleneck, longer)])
