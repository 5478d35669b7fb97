"""The kernel of PRM: the dynamic program from the last stage on, and the tables that it reads.

It looks at plans in a `Scope` alone: states that no plan with a lesser bottleneck can have are skipped.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing

Shorts = NDArray[np.uint16]


class GroupTables(NamedTuple):
    """What the dynamic program reads, for devices in order and layers in order."""

    seconds: Floats  # [kind, r, l]: seconds of all microbatches on layers 0 .. l-1, for a group of r such devices
    kinds: NDArray[np.bool_]  # [i, r, kind]: whether devices i .. i+r-1 have one of this kind
    reduce: Floats  # [i, r]: seconds of all-reduce per byte of parameters inside devices i .. i+r-1
    parameters: Floats  # [l]: bytes of layers 0 .. l-1
    cut: Floats  # [l]: bytes across the cut before layer l, all microbatches, both ways
    channel: Floats  # [b, r, r']: seconds per byte from devices b-r .. b-1 to devices b .. b+r'-1
    floor: Floats  # the same, for what is compared with the limit of a scope
    static: Floats  # [l], prefix sums; empty without a memory limit
    stash: Floats
    capacity: Floats  # [i, r]: the least of devices i .. i+r-1
    in_flight: Ints


class BackPointers(NamedTuple):
    """What each state chooses: states by number of stages, then i, then r, then l."""

    cuts: Shorts  # l'
    takes: Shorts  # r'


class Later(NamedTuple):
    """W for one number of stages, where it is less than the limit."""

    worst: Floats  # [i, r, l]: W(l, x, r, i)
    first: Ints  # [i, r]: the first l with a plan
    last: Ints  # the last; less than the first where there is none


class Scope(NamedTuple):
    """Which plans are looked at."""

    first: Ints  # [i]: the first layer that a stage on devices from i on may begin with
    last: Ints
    limit: float  # W is less


def least_bottlenecks(tables: GroupTables, most: int, scope: Scope) -> tuple[Floats, Shorts, Shorts]:
    """W for x = 1 .. most at layer 0 and device 0, as [x, r], with the choices l' and r' of every state.

    later[b, r', l']    W(l', x-1, r', b)
    now[i, r, l]        W(l, x, r, i); what is left in it from x - 2 is where more devices or layers remain than is read
    """
    layers, devices = len(tables.cut) - 1, len(tables.kinds)
    begin = np.zeros(most + 2, np.int64)  # of the states with x stages
    for x in range(1, most + 1):
        begin[x + 1] = begin[x] + (devices - x + 1) * (devices - x + 2) // 2 * (layers - x + 1)
    pointers = BackPointers(np.zeros(begin[most + 1], np.uint16), np.zeros(begin[most + 1], np.uint16))
    best = np.full((most + 1, devices + 1), np.inf)
    if scope.first[0] > 0 or scope.last[devices] < layers:
        return best, pointers.cuts, pointers.takes  # the work of all layers is too long for all devices
    later, now = no_plans(layers, devices), no_plans(layers, devices)
    for x in range(1, most + 1):
        if x == 1:
            last_stages(tables, now, scope.limit)
        else:
            one_more_stage(tables, later, now, pointers, x, begin[x], scope)
        for r in range(1, devices - x + 2):
            best[x, r] = now.worst[0, r, 0]
        later, now = now, later
    return best, pointers.cuts, pointers.takes


def no_plans(layers: int, devices: int) -> Later:
    """Of any number of devices."""
    shape = devices + 1, devices + 1
    return Later(np.full((devices + 1, devices + 1, layers + 1), np.inf), np.zeros(shape, np.int64), np.full(shape, -1))


def last_stages(tables: GroupTables, now: Later, limit: float) -> None:
    """W for one stage: all layers that are left on all devices that are left."""
    seconds, kinds, reduce, parameters = tables.seconds, tables.kinds, tables.reduce, tables.parameters
    static, stash, capacity = tables.static, tables.stash, tables.capacity
    layers, devices, limited = len(parameters) - 1, len(kinds), len(static) > 0
    for i in range(devices):
        r = devices - i
        for l in range(layers):  # noqa: E741 - the letter of the formulas
            worst = 0.0
            for k in range(len(seconds)):
                if kinds[i, r, k]:
                    until = seconds[k, r, layers] + reduce[i, r] * parameters[layers]
                    worst = max(worst, until - (seconds[k, r, l] + reduce[i, r] * parameters[l]))
            if limited:
                held = (stash[layers] - stash[l]) / r * tables.in_flight[1] + static[layers] - static[l]
                worst = np.inf if held > capacity[i, r] else worst
            if worst < limit:
                now.worst[i, r, l] = worst
                now.first[i, r] = min(l, now.first[i, r]) if now.last[i, r] >= 0 else l
                now.last[i, r] = l


def one_more_stage(  # noqa: C901, PLR0912, PLR0917 - one loop over groups: calls inside of it cost more than they do
    tables: GroupTables, later: Later, now: Later, pointers: BackPointers, x: int, base: int, scope: Scope
) -> None:
    """W for x stages from that for x - 1.

    joined[l']    min over r' of max( the channel at b, later[b, r', l'] ): what follows a stage that ends there
    now[i, r, l]  min over l' of max( own(l .. l'; i .. i+r), joined[l'] ),   b = i + r

    The search for l' starts where it ended for l + 1. Going right it ends where own, which grows, reaches the best so
    far; going left, where the least of joined up to there does.
    """
    seconds, kinds, reduce, parameters = tables.seconds, tables.kinds, tables.reduce, tables.parameters
    cut, static, stash, capacity = tables.cut, tables.static, tables.stash, tables.capacity
    layers, devices, limited = len(cut) - 1, len(kinds), len(static) > 0
    n, ends = devices - x + 1, layers - x + 1
    joined, least_joined, chosen = np.zeros(layers + 1), np.zeros(layers + 1), np.zeros(layers + 1, np.int64)
    own = np.zeros((len(seconds), layers + 1))
    row = base
    for i in range(n):
        for r in range(1, n - i + 1):
            b = i + r
            low, high = max(1, scope.first[b]), min(ends, scope.last[b])
            joined.fill(np.inf)
            is_reached = join(tables, later, (b, r, n - b + 1), (low, high), scope.limit, joined, chosen)
            now.first[i, r], now.last[i, r] = layers, -1
            begin, end = scope.first[i], min(ends - 1, scope.last[i])
            if not is_reached:
                now.worst[i, r, begin : end + 1] = np.inf
                row += ends
                continue
            least_joined[low - 1] = np.inf
            for l2 in range(low, high + 1):
                least_joined[l2] = min(least_joined[l2 - 1], joined[l2])
            present = 0
            for k in range(len(seconds)):
                if kinds[i, r, k]:
                    for l2 in range(layers + 1):
                        own[present, l2] = seconds[k, r, l2] + reduce[i, r] * parameters[l2]
                    present += 1
            at = fits = max(low, high)
            for l in range(end, begin - 1, -1):  # noqa: E741 - the letter of the formulas
                if limited:
                    most, depth = capacity[i, r], tables.in_flight[x]
                    while fits > l and (stash[fits] - stash[l]) / r * depth + static[fits] - static[l] > most:
                        fits -= 1
                start = max(l + 1, min(at, fits))
                least = scope.limit
                for l2 in range(start, fits + 1):
                    mine = 0.0
                    for k in range(present):
                        mine = max(mine, own[k, l2] - own[k, l])
                    if mine >= least:
                        break
                    if max(mine, joined[l2]) < least:
                        least, at = max(mine, joined[l2]), l2
                for l2 in range(start - 1, max(l, low - 1), -1):
                    if least_joined[l2] >= least:
                        break
                    worst = joined[l2]
                    for k in range(present):
                        worst = max(worst, own[k, l2] - own[k, l])
                    if worst < least:
                        least, at = worst, l2
                is_plan = least < scope.limit
                now.worst[i, r, l] = least if is_plan else np.inf
                if is_plan:
                    now.first[i, r], now.last[i, r] = l, max(l, now.last[i, r])
                pointers.cuts[row + l] = at if is_plan else 0
                pointers.takes[row + l] = chosen[at] if is_plan else 0
            row += ends


@borrowing
def join(  # noqa: PLR0917 - a part of the loop above
    tables: GroupTables, later: Later, place: tuple[int, int, int], ends: tuple[int, int], limit: float,
    joined: Floats, chosen: Ints,
) -> bool:  # fmt: skip
    """Lower `joined` between these ends by the stages that can follow; whether any can.

    `place` is b, the r devices before it, and how many from b on the next stage has at most.
    """
    b, r, most = place
    found = False
    for r2 in range(1, most + 1):
        begin, end = max(ends[0], later.first[b, r2]), min(ends[1], later.last[b, r2])
        if end < begin:
            continue
        found = True
        # Slices: a loop from 0 on is a vector loop.
        after, size = later.worst[b, r2, begin : end + 1], tables.cut[begin : end + 1]
        pace, floor = tables.channel[b, r, r2], tables.floor[b, r, r2]
        best, by = joined[begin : end + 1], chosen[begin : end + 1]
        for m in range(len(best)):
            slower = max(after[m], size[m] * pace)
            better = slower < best[m] and size[m] * floor < limit
            by[m] = r2 if better else by[m]
            best[m] = slower if better else best[m]
    return found
