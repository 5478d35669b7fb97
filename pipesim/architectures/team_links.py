"""The GPUs of a team, and a cluster's links between them -> the bandwidth and latency of the team's collectives.

    ring    2(t - 1) steps for an all-reduce, t - 1 to gather or to scatter; each step takes the latency, and
            all bytes pass every GPU once per (t - 1) / t: 2(t - 1)/t · bytes / bandwidth, or half of it
    tree    all-reduces across nodes: 2(m - 1 + log2 n) steps for n nodes of m GPUs, 2 · bytes / bandwidth

A collective takes the faster of the two, as NCCL chooses. Inside a node, a ring uses all links of a GPU to others of
the team; across nodes, it has as many channels as the team reaches NICs of a node, so that their bandwidths add up.
NCCL reaches a part of what links carry, and each step takes a little longer than the links' delay; both constants are
fitted in experiments/efficiency, on one node.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipesim.base.checks import check_not_negative
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Route
from pipesim.core.work import Collective

NCCL_EFFICIENCY = 0.74
"""The part of the links' bandwidth that collectives reach."""
NETWORK_EFFICIENCY = 0.93
"""The same of the bandwidth between nodes; not fitted, but checked on five runs of 16 GPUs per team over HDR links."""
NCCL_STEP_S = 4.8e-6
"""Seconds of a step beside the delay of the links."""


@dataclass(frozen=True, slots=True)
class TeamLink:
    """What one GPU of a team has to the others: bytes/s in each direction, seconds of a step, nodes of the team."""

    bandwidth: float
    latency: float = 0.0
    nodes: int = 1

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth = {self.bandwidth} found; more than 0 bytes/s was expected")
        check_not_negative("latency", self.latency)

    def seconds(self, collective: Collective, size: float, width: int) -> float:
        """The time of a collective of `width` GPUs, over `size` bytes of the whole tensor; 0 alone or without bytes."""
        if width == 1 or not size:
            return 0.0
        passes = 2 if collective == "all_reduce" else 1
        ring = passes * ((width - 1) / width * size / self.bandwidth + (width - 1) * self.latency)
        if passes == 1 or self.nodes == 1:
            return ring
        steps = 2 * (math.ceil(width / self.nodes) - 1 + math.ceil(math.log2(self.nodes)))
        return min(ring, 2 * size / self.bandwidth + steps * self.latency)


def team_link(
    cluster: Cluster,
    members: Sequence[str],
    *,
    efficiency: float = NCCL_EFFICIENCY,
    network: float = NETWORK_EFFICIENCY,
) -> TeamLink:
    """The link of a team, from the routes between its members."""
    if len(members) < 2:
        raise InputError(f"{len(members)} members found; a team of at least 2 was expected")
    nodes: dict[str, list[str]] = {}
    for name in members:
        nodes.setdefault(cluster.device(name).node, []).append(name)
    groups = list(nodes.values())
    inside = min([_inside(cluster, group) for group in groups if len(group) > 1], default=math.inf)
    bandwidth = inside * efficiency
    if len(groups) > 1:
        bandwidth = min(bandwidth, *(network * _between(cluster, a, b) for a, b in _in_turn(groups)))
    delay = max(cluster.route(a, b).delay for a, b in _in_turn([name for group in groups for name in group]))
    return TeamLink(bandwidth, delay + NCCL_STEP_S, len(groups))


def _in_turn(items: list[Any]) -> list[tuple[Any, Any]]:
    """Each with the next one, the last with the first."""
    return list(zip(items, [*items[1:], items[0]], strict=True))


def _inside(cluster: Cluster, group: list[str]) -> float:
    """Bytes/s that each of the group can send to the others over all its links together; the least of the group."""
    cluster.find_routes((a, b) for a in group for b in group if a != b)
    leaving = {name: _ways_out(cluster, name, group) for name in group}
    users = Counter(medium for ways in leaving.values() for medium in ways)
    return min(sum(rate / users[medium] for medium, rate in ways.items()) for ways in leaving.values())


def _ways_out(cluster: Cluster, name: str, group: list[str]) -> dict[int, float]:
    """The media on which routes to the others begin, with their bytes/s; those through GPUs if there are no others."""
    ways: dict[int, float] = {}
    detours: dict[int, float] = {}
    for other in group:
        if other != name:
            route = cluster.route(name, other)
            found = detours if _passes_devices(cluster, route) else ways
            found[route.media[0]] = max(found.get(route.media[0], 0.0), route.bandwidth)
    return ways or detours


def _passes_devices(cluster: Cluster, route: Route) -> bool:
    ends = Counter(end for link in route.links for end in (cluster.links[link].source, cluster.links[link].target))
    return any(count > 1 and name in cluster.index for name, count in ends.items())


def _between(cluster: Cluster, group: list[str], following: list[str]) -> float:
    """Bytes/s from all of one node together to those of the next, each to its counterpart."""
    pairs = zip(group, following, strict=False)
    routes = [cluster.route(a, b) for a, b in pairs]
    users = Counter(medium for route in routes for medium in route.media)
    capacity = cluster.media_bandwidth
    return sum(min(capacity[medium] / users[medium] for medium in route.media) for route in routes)
