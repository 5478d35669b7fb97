"""What channels and rings cost when their messages share links, for devices in a given order.

All pairs of two neighbouring groups send at once. Each link carries the pairs whose routes cross it; the busiest link
sets the pace. SPP's own tables take the least bandwidth of any pair and let all pairs have it.

    contended         PRM's tables with such channels and rings
    shared_bandwidths RDO's weights: what each pair has while all pairs of the cluster send
    shared_pipeline   PE's pipeline of a plan
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipesim.analysis.channels import Known, Pipeline, pipeline_of
from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import suited
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.lowering.reductions import in_ring
from pipesim.planners.spp.bottlenecks import GroupTables

Pairs = list[tuple[str, str]]

FEW = 16  # devices: up to so many, kernels take milliseconds as plain Python


class Routes(NamedTuple):
    """The links that messages take."""

    media: Ints  # [from, to, hop]: which, -1 after the last
    pace: Floats  # [medium]: seconds per byte


def contended(tables: GroupTables, cluster: Cluster, order: list[int]) -> GroupTables:
    """The same tables with channels and rings at the pace of their busiest link."""
    media, pace = routes_of(cluster)
    routes = Routes(media[np.ix_(order, order)], pace)
    channel, reduce = (suited(kernel, large=len(order) > FEW) for kernel in (busiest_channels, busiest_rings))
    found = channel(routes)
    return tables._replace(channel=found, floor=found, reduce=reduce(routes))


def shared_bandwidths(cluster: Cluster) -> Floats:
    """Bytes/s that each two devices have while all pairs send, each link divided among those that cross it."""
    names = [device.name for device in cluster.devices]
    pairs = [(a, b) for a in names for b in names if a != b]
    use = _crossing(cluster, pairs)
    found, place = np.zeros((len(names), len(names))), cluster.index
    for a, b in pairs:
        each = [cluster.media_bandwidth[medium] / use[medium] for medium in cluster.route(a, b).media]
        found[place[a], place[b]] = min(each)
    weights: Floats = np.minimum(found, found.T)
    return weights


def shared_pipeline(plan: Plan, costs: Costs, cluster: Cluster, known: Known | None = None) -> Pipeline:
    """The abstract pipeline, its channels and rings no faster than their busiest link; `known` as in `pipeline_of`."""
    nominal = pipeline_of(plan, costs, cluster, known)
    ahead, back, stages = [], [], plan.stages
    for n in range(len(stages) - 1):
        size = float(costs.model.cut_bytes[stages[n].stop - 1]) * plan.share(n) * plan.share(n + 1)
        pairs = [(a, b) for a in stages[n].devices for b in stages[n + 1].devices if a != b]
        ahead.append(_busiest_ns(cluster, pairs, size))
        back.append(_busiest_ns(cluster, [(b, a) for a, b in pairs], size))
    rings = []
    for stage in stages:
        k = len(stage.devices)
        edges = _edges(in_ring(stage.devices, cluster)) if k > 1 else []
        size = costs.model.parameters_of(stage.start, stage.stop) * 2 * (k - 1) / k
        rings.append(_busiest_ns(cluster, edges, size))
    return replace(
        nominal,
        ahead=np.maximum(nominal.ahead, np.array(ahead, np.int64)),
        back=np.maximum(nominal.back, np.array(back, np.int64)),
        all_reduce=_rings_ns(nominal, cluster, plan, np.array(rings, np.int64)),
    )


def _rings_ns(nominal: Pipeline, cluster: Cluster, plan: Plan, busiest: Ints) -> Ints:
    """A ring goes over its own edges: the worst pair inside of a stage, which SPP takes, need not be one of them."""
    delays = [0] * len(plan.stages)
    for n, stage in enumerate(plan.stages):
        edges = _edges(in_ring(stage.devices, cluster)) if len(stage.devices) > 1 else []
        worst = max((cluster.route(a, b).delay for a, b in edges), default=0.0)
        delays[n] = units.ns_of(2 * (len(stage.devices) - 1) * worst)
    found: Ints = np.where(nominal.all_reduce > 0, busiest + np.array(delays, np.int64), 0)
    return found


def _edges(devices: list[str]) -> Pairs:
    return [(a, devices[(n + 1) % len(devices)]) for n, a in enumerate(devices)]


def _busiest_ns(cluster: Cluster, pairs: Pairs, size: float) -> int:
    """Nanoseconds in which the busiest link carries a message of so many bytes for each pair that crosses it."""
    use = _crossing(cluster, pairs)
    seconds = max((count * size / cluster.media_bandwidth[medium] for medium, count in use.items()), default=0.0)
    return units.ns_of(seconds)


def _crossing(cluster: Cluster, pairs: Iterable[tuple[str, str]]) -> "Counter[int]":
    """How many pairs cross each medium."""
    return Counter(medium for a, b in pairs for medium in cluster.route(a, b).media)


def routes_of(cluster: Cluster) -> Routes:
    """The routes between all pairs of devices."""
    names = [device.name for device in cluster.devices]
    routes = {(a, b): cluster.route(x, y).media for a, x in enumerate(names) for b, y in enumerate(names) if a != b}
    media = np.full((len(names), len(names), max(map(len, routes.values()), default=1)), -1)
    for (a, b), route in routes.items():
        media[a, b, : len(route)] = route
    return Routes(media, 1 / np.array(cluster.media_bandwidth, dtype=float))


def busiest_channels(routes: Routes) -> Floats:
    """[b, r, r']: seconds per byte of the cut from the r devices before b to the r' from b on, forward or backward.

    carried[k, medium]    seconds of the r messages to, or from, the k-th device from b on; `used` lists those media
    total[medium]         seconds of all messages to, or from, the r' devices from b on
    """
    media, pace = routes
    count, links = len(media), len(pace)
    channel = np.full((count + 1, count + 1, count + 1), np.inf)
    carried, total = np.zeros((count, links)), np.zeros(links)
    used, many = np.zeros((count, links), np.int32), np.zeros(count, np.int64)
    for b in range(1, count):
        channel[b, 1 : b + 1, 1 : count - b + 1] = 0.0
        for way in range(2):
            carried[:] = 0.0
            many[:] = 0
            for r in range(1, b + 1):
                total[:] = 0.0
                worst = 0.0
                for k in range(count - b):
                    route = media[b - r, b + k] if way == 0 else media[b + k, b - r]
                    for medium in route:
                        if medium < 0:
                            break
                        if carried[k, medium] == 0.0:
                            used[k, many[k]] = medium
                            many[k] += 1
                        carried[k, medium] += pace[medium]
                    for n in range(many[k]):
                        medium = used[k, n]
                        total[medium] += carried[k, medium]
                        worst = max(worst, total[medium])
                    channel[b, r, k + 1] = max(channel[b, r, k + 1], worst / (r * (k + 1)))
    return channel


def busiest_rings(routes: Routes) -> Floats:
    """[i, r]: seconds of all-reduce per byte of parameters on the ring of devices i .. i+r-1."""
    media, pace = routes
    count = len(media)
    reduce, chain = np.zeros((count, count + 1)), np.zeros(len(pace))
    for i in range(count):
        chain[:] = 0.0
        slowest = 0.0
        for r in range(2, count - i + 1):
            for medium in media[i + r - 2, i + r - 1]:
                if medium >= 0:
                    chain[medium] += pace[medium]
                    slowest = max(slowest, chain[medium])
            worst = slowest
            for medium in media[i + r - 1, i]:
                if medium >= 0:
                    worst = max(worst, chain[medium] + pace[medium])
            reduce[i, r] = 2 * (r - 1) / r * worst
    return reduce
