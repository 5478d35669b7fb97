"""Plans that keep fill, drain and bottleneck small together: a parametric dynamic program.

    head_n = sum over k < n of ( F_k + cF_k + cB_k + B_k )
    T      = max over stages n of  M (F_n + B_n) + max( head_n , A_n ),   and of  M (cF_n + cB_n) + head_n  for channels

For a guessed T the program finds the least head with which every stage keeps its inequality; T is bisected. Where PRM
sees only the slowest machine, this sees what passes before it starts and after it ends.
"""

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats
from pipesim.base.kernels import compiled
from pipesim.planners.spp.prm import GroupTables, Partition

Shorts = NDArray[np.uint16]

STEPS = 18  # of bisection: a quarter of a millionth of the first interval


def solutions(tables: GroupTables, microbatches: int, upper: float) -> list[Partition]:
    """The plans found on the way down from T = upper, the last of them the best; none where upper is out of reach."""
    low, high, found = 0.0, upper, list[Partition]()
    for _ in range(STEPS):
        middle = (low + high) / 2 if found else high
        solution = _solve(tables, microbatches, middle)
        if solution is None:
            if not found:
                return []
            low = middle
        else:
            high = min(middle, solution.bottleneck)
            found.append(solution)
    return found


def _solve(tables: GroupTables, microbatches: int, target: float) -> Partition | None:
    """A partition that keeps every inequality for T = target, if there is one."""
    heads, starts, before = compiled(least_heads)(tables, microbatches, target)
    layers, devices = heads.shape[0] - 1, heads.shape[1] - 1
    layer, device, replicas = layers, devices, int(np.argmin(heads[layers, devices]))
    if not np.isfinite(heads[layer, device, replicas]):
        return None
    cuts, counts = list[int](), list[int]()
    while layer:
        start, previous = int(starts[layer, device, replicas]), int(before[layer, device, replicas])
        cuts.append(start)
        counts.append(replicas)
        layer, device, replicas = start, device - replicas, previous
    return Partition(target, tuple(cuts[::-1]), tuple(counts[::-1]))


def least_heads(tables: GroupTables, microbatches: int, target: float) -> tuple[Floats, Shorts, Shorts]:  # noqa: C901, PLR0912 - one loop over groups: calls inside of it cost more than they do
    """[l, i, r]: the least F + B and channels of layers 0 .. l-1 on devices 0 .. i-1, r of them in the last stage.

    With the first layer of that last stage, and the devices of the stage before it.
    """
    seconds, kinds, reduce, parameters = tables.seconds, tables.kinds, tables.reduce, tables.parameters
    cut, channel = tables.cut, tables.channel
    layers, devices = len(cut) - 1, len(kinds)
    heads = np.full((layers + 1, devices + 1, devices + 1), np.inf)
    starts = np.zeros((layers + 1, devices + 1, devices + 1), np.uint16)
    before = np.zeros((layers + 1, devices + 1, devices + 1), np.uint16)
    for l in range(layers):  # noqa: E741 - the letter of the formulas
        for i in range(devices):
            if (l == 0) != (i == 0):
                continue
            for k in range(1, devices - i + 1):
                head, previous = (0.0, 0) if l == 0 else (np.inf, 0)
                for r in range(1, i + 1):
                    pass_over = cut[l] * channel[i, r, k]
                    if heads[l, i, r] + pass_over > target:
                        continue  # the channel's own inequality
                    through = heads[l, i, r] + pass_over / microbatches
                    if through < head:
                        head, previous = through, r
                if head == np.inf:
                    continue
                for end in range(l + 1, layers + 1):
                    work = 0.0
                    for kind in range(len(seconds)):
                        if kinds[i, k, kind]:
                            work = max(work, seconds[kind, k, end] - seconds[kind, k, l])
                    if work + max(head, reduce[i, k] * (parameters[end] - parameters[l])) > target:
                        break  # more layers only make it worse
                    total = head + work / microbatches
                    if total < heads[end, i + k, k]:
                        heads[end, i + k, k] = total
                        starts[end, i + k, k] = l
                        before[end, i + k, k] = previous
    return heads, starts, before
