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

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import RefusedError
from pipesim.base.kernels import suited
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.planners.groups import prefix
from pipesim.planners.spp.bottlenecks import GroupTables, Scope, Shorts, least_bottlenecks

MANY_STATES = 50_000  # up to so many, the table takes a tenth of a second as plain Python
MOST_BYTES = 8e9  # of back-pointers
FEW_STATES = 20_000_000  # up to so many, the table takes less than a second
FIRST, STEP = 1.1, 1.3  # the first limit of the bottleneck, over the least work of a device; the next over it


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLimit:
    """What a stage must hold, and what devices have: bytes per layer, and per microbatch in flight."""

    static: Floats  # parameters, gradients, optimizer state of each layer
    stash: Floats  # kept of each layer per microbatch
    capacity: Floats  # of each device, in the given order
    in_flight: Ints  # microbatches in flight of a stage that is the x-th from the end: in_flight[x]


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


def partitions(tables: GroupTables, most_stages: int | None = None, within: float = np.inf) -> dict[int, Partition]:
    """The same, from tables; with `within` of those with a bottleneck of at most so many seconds."""
    devices, layers = len(tables.kinds), len(tables.cut) - 1
    most = min(devices, layers, most_stages or devices)
    size = _all_states(tables, most) * 4
    if size > MOST_BYTES:
        raise RefusedError(
            f"{layers} layers on {devices} devices in up to {most} stages would need {size / 1e9:.0f} GB of tables; "
            "limit the number of stages with most_stages=..."
        )
    best, cuts, takes = bottlenecks(tables, most, within)
    found = {}
    for x in range(1, most + 1):
        replicas = int(np.argmin(best[x]))
        if np.isfinite(best[x, replicas]):
            starts, counts = _trace_back(cuts, takes, (layers, devices), x, replicas)
            found[x] = Partition(float(best[x, replicas]), starts, counts)
    return found


def bottlenecks(tables: GroupTables, most: int, within: float = np.inf) -> tuple[Floats, Shorts, Shorts]:
    """W for x = 1 .. most at layer 0 and device 0, as [x, r], with the choices l' and r' of every state."""
    scope = scope_of(tables, within)
    large = _all_states(tables, most) > MANY_STATES
    return suited(least_bottlenecks, large=large)(tables, most, scope)


def best_partitions(tables: GroupTables, count: int) -> list[Partition]:
    """The so many best, of different numbers of stages."""
    within = np.inf if is_small(tables) else FIRST * _least_work(tables)
    while True:
        found = sorted(partitions(tables, within=within).values())[:count]
        enough = len(found) == count and found[-1].bottleneck <= within
        if enough or within == np.inf:
            return found
        within = next_limit(tables, within)


def even_partitions(tables: GroupTables) -> list[Partition]:
    """Of 1, 2, 4, ... stages with about equal work on about equally many devices; their bottlenecks are left out."""
    devices, layers = len(tables.kinds), len(tables.cut) - 1
    area = least_areas(tables.seconds)
    found, stages = [], 1
    while stages <= min(devices, layers):
        inner = np.arange(1, stages)
        starts = np.maximum.accumulate(np.searchsorted(area[0] - area, area[0] * inner / stages) - inner) + inner
        ends = np.linspace(0, devices, stages + 1).astype(np.int64)
        cuts = np.clip(starts, inner, layers - stages + inner)
        found.append(Partition(np.inf, (0, *cuts.tolist()), tuple(np.diff(ends).tolist())))
        stages *= 2
    return found


def is_small(tables: GroupTables) -> bool:
    """Whether all states are computed in a second, so that there is no need to find out which of them matter.

    Of plans with the same bottleneck, which one is found may depend on what else is computed.
    """
    return _all_states(tables, min(len(tables.kinds), len(tables.cut) - 1)) <= FEW_STATES


def next_limit(tables: GroupTables, within: float) -> float:
    """The next, where there is no plan up to this one: none at all from the work of all layers on one device on."""
    more = within * STEP
    return more if more < len(tables.kinds) * _least_work(tables) else np.inf


def _least_work(tables: GroupTables) -> float:
    """Seconds that no plan is quicker than: the work of all layers, over all devices."""
    return float(least_areas(tables.seconds)[0]) / len(tables.kinds)


def least_areas(seconds: Floats) -> Floats:
    """[l]: what layers from l on take at least, times devices; a little less, since sums are rounded."""
    devices = np.arange(1, seconds.shape[1])[:, None]
    least = (np.diff(seconds[:, 1:]) * devices).min(axis=(0, 1))
    area: Floats = np.append(np.cumsum(least[::-1])[::-1], 0.0) * (1 - 1e-9)
    return area


def scope_of(tables: GroupTables, within: float) -> Scope:
    """What plans with such a bottleneck can be.

    Their stages do no earlier layers with the devices that are left, and no later ones with those before.
    """
    devices, layers = len(tables.kinds), len(tables.cut) - 1
    if within == np.inf:
        return Scope(np.zeros(devices + 1, np.int64), np.full(devices + 1, layers), np.inf)
    area, most = least_areas(tables.seconds), within * np.arange(devices + 1)
    first = np.searchsorted(-area, -most[::-1], side="left")
    last = np.searchsorted((area[0] - area) * (1 - 1e-9), most, side="right") - 1
    return Scope(first, last, float(np.nextafter(within, np.inf)))


def _all_states(tables: GroupTables, most: int) -> int:
    """Of up to so many stages."""
    devices, layers = len(tables.kinds), len(tables.cut) - 1
    return sum(_states(devices, layers, x) for x in range(1, most + 1))


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
    channel = _channels(between)
    ring = 2 * (np.arange(count + 1) - 1) / np.maximum(np.arange(count + 1), 1)
    nothing = np.zeros(0)
    return GroupTables(
        seconds=seconds,
        kinds=present,
        reduce=np.maximum(ring, 0)[None, :] / inside,
        parameters=prefix(model.trained_bytes),
        cut=np.concatenate([[0.0], 2 * microbatches * model.cut_bytes]),
        channel=channel,
        floor=channel,
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
