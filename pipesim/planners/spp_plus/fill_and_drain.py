"""Plans that keep fill, drain and bottleneck small together: a parametric dynamic program.

    head_n = sum over k < n of ( F_k + cF_k + cB_k + B_k )
    T      = max over stages n of  M (F_n + B_n) + max( head_n , A_n ),   and of  M (cF_n + cB_n) + head_n  for channels

For a guessed T the program finds the least head with which every stage keeps its inequality; T is bisected. Where PRM
sees only the slowest machine, this sees what passes before it starts and after it ends.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.kernels import compiled
from pipesim.planners.spp.bottlenecks import GroupTables, Shorts
from pipesim.planners.spp.prm import Partition, least_areas

STEPS = 18  # of bisection: a quarter of a millionth of the first interval
UP = 1.25  # from one T that is tried to the next, until one is enough
LAST = 3  # plans that are given


class HeadTable(NamedTuple):
    """The table of one T: kept for the next, since to ask for its memory takes as long as to fill it."""

    head: Floats  # [l, i, r]: the least F + B and channels of layers 0 .. l-1 on devices 0 .. i-1, r in the last stage
    start: Shorts  # where `head` is finite: the first layer of that last stage
    before: Shorts  # ... and the devices of the stage before it

    @classmethod
    def of(cls, tables: GroupTables) -> "HeadTable":
        """With room for these layers and devices."""
        shape = len(tables.cut), len(tables.kinds) + 1, len(tables.kinds) + 1
        return cls(np.empty(shape), np.zeros(shape, np.uint16), np.zeros(shape, np.uint16))


def solutions(tables: GroupTables, microbatches: int, upper: float) -> list[Partition]:
    """The last plans found on the way down from T = upper, the last of them the best; none where it is out of reach.

    Whatever can be done in T can be done in more, and what T is tried takes longer the greater it is. So a T that is
    enough is found from below, and greater ones are tried only where their plans are asked for.
    """
    known, room = dict[float, Partition | None](), HeadTable.of(tables)
    enough = min(max(float(least_areas(tables.seconds)[0]) / len(tables.kinds), upper / 2**STEPS), upper)
    while True:
        known[enough] = _solve(tables, microbatches, enough, room)
        if known[enough] is not None:
            break
        if enough == upper:
            return []
        enough = min(enough * UP, upper)

    def solution(target: float) -> Partition | None:
        if target not in known:
            known[target] = _solve(tables, microbatches, target, room)
        return known[target]

    low, high, found = 0.0, upper, [upper]
    for _ in range(STEPS - 1):
        middle = (low + high) / 2
        too_little = max((T for T, plan in known.items() if plan is None), default=0.0)
        if middle > too_little and (middle >= enough or solution(middle) is not None):
            high, enough = middle, min(middle, enough)
            found.append(middle)
        else:
            low = middle
    return [plan for T in found[-LAST:] if (plan := solution(T)) is not None]


def _solve(tables: GroupTables, microbatches: int, target: float, room: HeadTable) -> Partition | None:
    """A partition that keeps every inequality for T = target, if there is one."""
    compiled(least_heads)(tables, least_areas(tables.seconds), microbatches, target, room)
    heads, starts, before = room
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


def least_heads(  # noqa: C901, PLR0912 - one loop over groups: calls inside of it cost more than they do
    tables: GroupTables, area: Floats, microbatches: int, target: float, found: HeadTable
) -> None:
    """Fill the table for T = target.

    A head is infinite also where the devices that are left cannot do the layers that are left: each stage to come has
    at most `target` less the head for its work, and `area` is the least that layers take, on any kind and number of
    devices, times the devices.
    """
    seconds, kinds, reduce, parameters = tables.seconds, tables.kinds, tables.reduce, tables.parameters
    cut, channel = tables.cut, tables.channel
    layers, devices = len(cut) - 1, len(kinds)
    heads, starts, before = found.head, found.start, found.before
    heads.fill(np.inf)
    last = np.zeros(devices + 1, np.int64)
    for l in range(layers):  # noqa: E741 - the letter of the formulas
        for i in range(devices):
            if (l == 0) != (i == 0):
                continue
            count = 0  # numbers of devices that the last stage of a plan up to here may have
            for r in range(1, i + 1):
                if heads[l, i, r] < np.inf:
                    last[count] = r
                    count += 1
            if l > 0 and count == 0:
                continue
            for k in range(1, devices - i + 1):
                head, previous = (0.0, 0) if l == 0 else (np.inf, 0)
                for at in range(count):
                    r = last[at]
                    pass_over = cut[l] * channel[i, r, k]
                    if heads[l, i, r] + pass_over > target:
                        continue  # the channel's own inequality
                    through = heads[l, i, r] + pass_over / microbatches
                    if through < head:
                        head, previous = through, r
                left = devices - i - k
                if head == np.inf or area[l] > (left + k) * (target - head):
                    continue
                begin, stop = (l + 1, layers) if left > 0 else (layers, layers + 1)
                while begin < stop and area[begin] > left * (target - head):
                    begin += 1
                for end in range(begin, stop):
                    work = 0.0
                    for kind in range(len(seconds)):
                        if kinds[i, k, kind]:
                            work = max(work, seconds[kind, k, end] - seconds[kind, k, l])
                    if work + max(head, reduce[i, k] * (parameters[end] - parameters[l])) > target:
                        break  # more layers only make it worse
                    total = head + work / microbatches
                    if area[end] <= left * (target - total) and total < heads[end, i + k, k]:
                        heads[end, i + k, k] = total
                        starts[end, i + k, k] = l
                        before[end, i + k, k] = previous
