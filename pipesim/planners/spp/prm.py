"""Partition, replication and mapping: a dynamic program, exact for its recurrence, over devices in a given order.

    own(Y; D)     = M * seconds of layers Y on group D, split + ring all-reduce of Y inside D
    W(l, x, r, i) = least bottleneck when layers l .. L form x stages on devices i .. V, the first on r devices
    W(l, 1, r, i) = own(l .. L; all of i .. V)
    W(l, x, r, i) = min over l', r' of max( own(l .. l'; i .. i+r), M * cut bytes at l' / (r r' Bmin),
                                            W(l', x-1, r', i+r) )

Seen from the back, so that the number of stages that follow, and with it the microbatches in flight, is known to each
state: a stage that does not fit its memory is no option. Without a memory limit this is the same recurrence seen from
the front.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import RefusedError
from pipesim.base.kernels import suited
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.planners.groups import prefix

Shorts = NDArray[np.uint16]

MANY_STATES = 50_000  # up to so many, the table takes a tenth of a second as plain Python
MOST_BYTES = 8e9  # of back-pointers


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLimit:
    """What a stage must hold, and what devices have: bytes per layer, and per microbatch in flight."""

    static: Floats  # parameters, gradients, optimizer state of each layer
    stash: Floats  # kept of each layer per microbatch
    capacity: Floats  # of each device, in the given order
    in_flight: Ints  # microbatches in flight of a stage that is the x-th from the end: in_flight[x]


class GroupTables(NamedTuple):
    """What the dynamic program reads, for devices in order and layers in order."""

    seconds: Floats  # [kind, r, l]: seconds of all microbatches on layers 0 .. l-1, for a group of r such devices
    kinds: NDArray[np.bool_]  # [i, r, kind]: whether devices i .. i+r-1 have one of this kind
    reduce: Floats  # [i, r]: seconds of all-reduce per byte of parameters inside devices i .. i+r-1
    parameters: Floats  # [l]: bytes of layers 0 .. l-1
    cut: Floats  # [l]: bytes across the cut before layer l, all microbatches, both ways
    channel: Floats  # [b, r, r']: seconds per byte from devices b-r .. b-1 to devices b .. b+r'-1
    static: Floats  # [l], prefix sums; empty without a memory limit
    stash: Floats
    capacity: Floats  # [i, r]: the least of devices i .. i+r-1
    in_flight: Ints


class Partition(NamedTuple):
    """For x stages: the bottleneck in seconds, the first layer of each stage, and how many devices each takes."""

    bottleneck: float
    starts: tuple[int, ...]
    replicas: tuple[int, ...]


def prm(  # noqa: PLR0917 - a problem has its parts
    costs: Costs, cluster: Cluster, order: list[int], microbatches: int, most_stages: int | None = None,
    memory: MemoryLimit | None = None,
) -> dict[int, Partition]:  # fmt: skip
    """The best plan for each number of stages up to `most_stages`; none where nothing fits in memory."""
    return partitions(tables_of(costs, cluster, order, microbatches, memory), most_stages)


def partitions(tables: GroupTables, most_stages: int | None = None) -> dict[int, Partition]:
    """The same, from tables."""
    devices, layers = len(tables.kinds), len(tables.cut) - 1
    most = min(devices, layers, most_stages or devices)
    states = sum(_states(devices, layers, x) for x in range(1, most + 1))
    size = states * 4
    if size > MOST_BYTES:
        raise RefusedError(
            f"{layers} layers on {devices} devices in up to {most} stages would need {size / 1e9:.0f} GB of tables; "
            "limit the number of stages with most_stages=..."
        )
    best, cuts, takes = suited(bottlenecks, large=states > MANY_STATES)(tables, most)
    found = {}
    for x in range(1, most + 1):
        replicas = int(np.argmin(best[x]))
        if np.isfinite(best[x, replicas]):
            starts, counts = _trace_back(cuts, takes, (layers, devices), x, replicas)
            found[x] = Partition(float(best[x, replicas]), starts, counts)
    return found


def _states(devices: int, layers: int, x: int) -> int:
    """How many (i, r, l) there are with x stages to come: each takes a device and a layer."""
    n = devices - x + 1
    return n * (n + 1) // 2 * (layers - x + 1)


def tables_of(
    costs: Costs, cluster: Cluster, order: list[int], microbatches: int, memory: MemoryLimit | None = None
) -> GroupTables:
    """Prefix sums and least bandwidths for devices in this order."""
    devices = [cluster.devices[i] for i in order]
    kinds = list(dict.fromkeys(device.kind for device in devices))
    model, count = costs.model, len(order)
    between = cluster.bandwidth_matrix[np.ix_(order, order)]
    between = np.minimum(between, between.T)
    seconds = np.zeros((len(kinds), count + 1, len(model) + 1))
    for k, kind in enumerate(kinds):
        for r in range(1, count + 1):
            both = costs.forward(kind, 1 / r) + costs.backward(kind, 1 / r)
            seconds[k, r, 1:] = microbatches * np.cumsum(both)
    inside, capacity = np.full((count, count + 1), np.inf), np.full((count, count + 1), np.inf)
    present = np.zeros((count, count + 1, len(kinds)), np.bool_)
    for i in range(count):
        for r in range(1, count - i + 1):
            newest = i + r - 1
            inside[i, r] = min(inside[i, r - 1], between[newest, i:newest].min(initial=np.inf))
            present[i, r] = present[i, r - 1]
            present[i, r, kinds.index(devices[newest].kind)] = True
            if memory is not None:
                capacity[i, r] = min(capacity[i, r - 1], memory.capacity[newest])
    ring = 2 * (np.arange(count + 1) - 1) / np.maximum(np.arange(count + 1), 1)
    nothing = np.zeros(0)
    return GroupTables(
        seconds=seconds,
        kinds=present,
        reduce=np.maximum(ring, 0)[None, :] / inside,
        parameters=prefix(model.trained_bytes),
        cut=np.concatenate([[0.0], 2 * microbatches * model.cut_bytes]),
        channel=_channels(between),
        static=nothing if memory is None else prefix(memory.static),
        stash=nothing if memory is None else prefix(memory.stash),
        capacity=capacity,
        in_flight=np.zeros(0, np.int64) if memory is None else memory.in_flight,
    )


def _channels(between: Floats) -> Floats:
    """[b, r, r']: 1 / (r r' Bmin) between the r devices before b and the r' from b on; r r' pairs send at once."""
    count = len(between)
    channel = np.full((count + 1, count + 1, count + 1), np.inf)
    for b in range(1, count):
        least = np.minimum.accumulate(np.minimum.accumulate(between[b - 1 :: -1, b:], axis=0), axis=1)
        pairs = np.outer(np.arange(1, b + 1), np.arange(1, count - b + 1))
        channel[b, 1 : b + 1, 1 : count - b + 1] = 1 / (pairs * least)
    return channel


def _trace_back(
    cuts: Shorts, takes: Shorts, shape: tuple[int, int], x: int, replicas: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Follow the choices from the first stage to the last."""
    layers, devices = shape
    first = np.concatenate([[0], np.cumsum([_states(devices, layers, y) for y in range(1, x + 1)])])
    layer = device = 0
    starts, counts = [0], [replicas]
    for y in range(x, 1, -1):
        n = devices - y + 1
        row = device * n - device * (device - 1) // 2 + replicas - 1
        at = int(first[y - 1]) + row * (layers - y + 1) + layer
        device += replicas
        layer, replicas = int(cuts[at]), int(takes[at])
        starts.append(layer)
        counts.append(replicas)
    return tuple(starts), tuple(counts)


class BackPointers(NamedTuple):
    """What each state chooses: states by number of stages, then i, then r, then l."""

    cuts: Shorts  # l'
    takes: Shorts  # r'


def bottlenecks(tables: GroupTables, most: int) -> tuple[Floats, Shorts, Shorts]:
    """W for x = 1 .. most at layer 0 and device 0, as [x, r], with the choices l' and r' of every state.

    later[b, r', l']    W(l', x-1, r', b)
    now[i, r, l]        W(l, x, r, i)
    """
    layers, devices = len(tables.cut) - 1, len(tables.kinds)
    begin = np.zeros(most + 2, np.int64)  # of the states with x stages
    for x in range(1, most + 1):
        begin[x + 1] = begin[x] + (devices - x + 1) * (devices - x + 2) // 2 * (layers - x + 1)
    pointers = BackPointers(np.zeros(begin[most + 1], np.uint16), np.zeros(begin[most + 1], np.uint16))
    best = np.full((most + 1, devices + 1), np.inf)
    later = np.full((devices + 1, devices + 1, layers + 1), np.inf)
    now = np.full((devices + 1, devices + 1, layers + 1), np.inf)
    for x in range(1, most + 1):
        if x == 1:
            last_stages(tables, now)
        else:
            one_more_stage(tables, later, now, pointers, x, begin[x])
        for r in range(1, devices - x + 2):
            best[x, r] = now[0, r, 0]
        later, now = now, later
        now.fill(np.inf)
    return best, pointers.cuts, pointers.takes


def last_stages(tables: GroupTables, now: Floats) -> None:
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
            now[i, r, l] = worst


def one_more_stage(tables: GroupTables, later: Floats, now: Floats, pointers: BackPointers, x: int, base: int) -> None:  # noqa: C901, PLR0912, PLR0917 - one loop over groups: calls inside of it cost more than they do
    """W for x stages from that for x - 1.

    joined[l']    min over r' of max( the channel at b, later[b, r', l'] ): what follows a stage that ends there
    now[i, r, l]  min over l' of max( own(l .. l'; i .. i+r), joined[l'] ),   b = i + r

    The search for l' starts where it ended for l + 1. Going right it ends where own, which grows, reaches the best so
    far; going left, where the least of joined up to there does.
    """
    seconds, kinds, reduce, parameters = tables.seconds, tables.kinds, tables.reduce, tables.parameters
    cut, channel, static, stash, capacity = tables.cut, tables.channel, tables.static, tables.stash, tables.capacity
    layers, devices, limited = len(cut) - 1, len(kinds), len(static) > 0
    n, ends = devices - x + 1, layers - x + 1
    joined, least_joined, chosen = np.zeros(layers + 1), np.zeros(layers + 1), np.zeros(layers + 1, np.int64)
    own = np.zeros((len(seconds), layers + 1))
    row = base
    for i in range(n):
        for r in range(1, n - i + 1):
            b = i + r
            joined.fill(np.inf)
            for r2 in range(1, n - b + 2):
                pace = channel[b, r, r2]
                for l2 in range(1, ends + 1):
                    slower = max(later[b, r2, l2], cut[l2] * pace)
                    better = slower < joined[l2]
                    chosen[l2] = r2 if better else chosen[l2]
                    joined[l2] = slower if better else joined[l2]
            least_joined[0] = np.inf
            for l2 in range(1, ends + 1):
                least_joined[l2] = min(least_joined[l2 - 1], joined[l2])
            present = 0
            for k in range(len(seconds)):
                if kinds[i, r, k]:
                    for l2 in range(layers + 1):
                        own[present, l2] = seconds[k, r, l2] + reduce[i, r] * parameters[l2]
                    present += 1
            at = end = ends
            for l in range(ends - 1, -1, -1):  # noqa: E741 - the letter of the formulas
                if limited:
                    most, depth = capacity[i, r], tables.in_flight[x]
                    while end > l and (stash[end] - stash[l]) / r * depth + static[end] - static[l] > most:
                        end -= 1
                start = max(l + 1, min(at, end))
                least = np.inf
                for l2 in range(start, end + 1):
                    mine = 0.0
                    for k in range(present):
                        mine = max(mine, own[k, l2] - own[k, l])
                    if mine >= least:
                        break
                    if max(mine, joined[l2]) < least:
                        least, at = max(mine, joined[l2]), l2
                for l2 in range(start - 1, l, -1):
                    if least_joined[l2] >= least:
                        break
                    worst = joined[l2]
                    for k in range(present):
                        worst = max(worst, own[k, l2] - own[k, l])
                    if worst < least:
                        least, at = worst, l2
                now[i, r, l] = least
                is_plan = least < np.inf
                pointers.cuts[row + l] = at if is_plan else 0
                pointers.takes[row + l] = chosen[at] if is_plan else 0
            row += ends
