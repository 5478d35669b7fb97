"""Islands of devices, and how many bytes a second leave each: what stages on different ones share.

    gpu0 ══╗              ╔══ gpu2         an island: devices that are close to each other
           sw0 ── core ── sw1              its capacity: the least cut between them and all others, over the links that
    gpu1 ══╝              ╚══ gpu3         routes between the two use

Any partition gives a valid bound; a good one has islands that can send out much less than their devices.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import suited
from pipesim.core.cluster import Cluster, Route
from pipesim.core.sharing import Sharing, sharing_rule

Pair = tuple[int, int]

TINY = 1e-300
_MOST = 1e300  # bytes/s; by a table a message may take no time
EXACT_RINGS = 16  # devices; of more there are too many sets
FEW = 10  # devices of which all sets take some milliseconds as plain Python


def loosened(cluster: Cluster) -> Cluster:
    """The cluster with all bandwidths raised by the most that any message is faster than them, and no token buckets.

    A message can be faster by its link's table, or at the peak of a bucket. Alone it then uses up less of the bandwidth
    than its bytes: at least its bytes over this factor. So no more bytes than these pass any link. All are raised by
    one factor, so that routes stay the same.
    """
    factor = max((link.fastest / link.bandwidth for link in cluster.links), default=1.0)
    if factor == 1.0:
        return cluster
    links = (replace(link, bandwidth=min(link.bandwidth * factor, _MOST), burst=0, peak=0) for link in cluster.links)
    return replace(cluster, links=tuple(links))


@dataclass(frozen=True)
class Network:
    """What the bounds need of a cluster: bandwidth, delay and hops between all pairs of devices, and their routes."""

    cluster: Cluster

    @cached_property
    def routes(self) -> dict[Pair, Route]:
        """The route between each two devices that have one."""
        names, reached = [device.name for device in self.cluster.devices], self.cluster.bandwidth_matrix
        return {
            (a, b): self.cluster.route(names[a], names[b])
            for a, b in permutations(range(len(names)), 2)
            if reached[a, b] > 0
        }

    @cached_property
    def bandwidth(self) -> Floats:
        """Bytes a second between two devices, in the direction where that is more: a bound holds for both."""
        return np.maximum(self.cluster.bandwidth_matrix, self.cluster.bandwidth_matrix.T)

    @cached_property
    def delay(self) -> Floats:
        """Seconds before the first byte, in the direction where that is less; infinite without a route."""
        return self._of_routes(lambda route: route.delay)

    @cached_property
    def hops(self) -> Floats:
        """Links on the way, in the direction where they are fewer; infinite without a route."""
        return self._of_routes(lambda route: float(len(route.links)))

    def _of_routes(self, value: Callable[[Route], float]) -> Floats:
        count = len(self.cluster.devices)
        found = np.full((count, count), np.inf)
        for (a, b), route in self.routes.items():
            found[a, b] = value(route)
        least: Floats = np.minimum(found, found.T)
        return least

    def device_capacity(self, label: Ints) -> tuple[float, float]:
        """Bytes a second that any device sends or receives at most: within its island, and in all."""
        near = [(a, b) for a, b in self.routes if label[a] == label[b]]
        return self._ends_capacity(near), self._device_capacity

    @cached_property
    def _device_capacity(self) -> float:
        return self._ends_capacity(list(self.routes))

    def _ends_capacity(self, pairs: list[Pair]) -> float:
        ends: dict[tuple[int, int], set[int]] = {}
        for a, b in pairs:
            media = self.routes[a, b].media
            ends.setdefault((0, a), set()).add(media[0])
            ends.setdefault((1, b), set()).add(media[-1])
        rate = self.cluster.media_bandwidth
        return max((sum(rate[medium] for medium in sorted(media)) for media in ends.values()), default=np.inf)

    def alike(self, label: Ints) -> Bools:
        """[island]: whether its devices can change places: they are of one kind and have the same routes to others."""
        kinds = [device.kind for device in self.cluster.devices]
        members = [np.flatnonzero(label == island).tolist() for island in range(int(label.max()) + 1)]
        return np.array(
            [
                all(kinds[one] == kinds[other] and self._changed(one, other) for other in others)
                for one, *others in members
            ]
        )

    def _changed(self, one: int, other: int) -> bool:
        """Whether all routes stay what they are if two devices change places, and perhaps some of their links.

        Routes between two other devices stay, so their media must; only those with one of the two at an end may change.
        """
        swap, rate = {one: other, other: one}, self.cluster.media_bandwidth
        changed, uses = dict[int, int](), Counter[int]()
        for a, b in self._pairs_with(one, other):
            before, after = self.routes.get((a, b)), self.routes.get((swap.get(a, a), swap.get(b, b)))
            if before is None or after is None:
                if before is not after:
                    return False
                continue
            if len(before.media) != len(after.media) or before.delay != after.delay:
                return False
            for x, y in zip(before.media, after.media, strict=True):
                if changed.setdefault(x, y) != y or rate[x] != rate[y]:
                    return False
            if self._tables(before) != self._tables(after):
                return False
            uses.update(before.media)
        moved = [x for x, y in changed.items() if x != y]
        return len(set(changed.values())) == len(changed) and all(uses[x] == self._uses[x] for x in moved)

    def _pairs_with(self, one: int, other: int) -> Iterator[Pair]:
        for a in range(len(self.cluster.devices)):
            yield from ((x, y) for b in (one, other) if a != b for x, y in ((a, b), (b, a)) if a != one or b != other)

    @cached_property
    def _uses(self) -> "Counter[int]":
        """How often each medium is on a route."""
        return Counter(medium for route in self.routes.values() for medium in route.media)

    def _tables(self, route: Route) -> list[object]:
        return [self.cluster.links[link].table for link in route.links] if self.cluster.has_tables else []

    def island_capacity(self, label: Ints) -> Floats:
        """[island]: bytes a second that leave or enter it at most, whichever is more."""
        cuts, known = [label == g for g in range(label.max() + 1)], self._cuts
        for inside in cuts:
            if inside.tobytes() not in known:  # partitions have islands in common, and are asked for more than once
                known[inside.tobytes()] = max(self._cut(inside, outwards=o) for o in (True, False))
        return np.array([known[inside.tobytes()] for inside in cuts])

    @cached_property
    def _cuts(self) -> dict[bytes, float]:
        """What is known of island capacities, by the devices of the island."""
        return {}

    def _cut(self, inside: NDArray[np.bool_], *, outwards: bool) -> float:
        """The least cut of the links on routes that leave the island (or enter it)."""
        import networkx as nx  # noqa: PLC0415 - slow to import, and only needed where there are islands

        graph: nx.DiGraph[object] = nx.DiGraph()
        for (a, b), route in self.routes.items():
            if inside[a] and not inside[b] if outwards else inside[b] and not inside[a]:
                graph.add_edge("from", a)  # no capacity: infinite
                graph.add_edge(b, "to")
                at = self.cluster.devices[a].name
                vertex: object = a
                for link in route.links:
                    ends = self.cluster.links[link]
                    at = ends.target if ends.source == at else ends.source
                    after = self.cluster.index.get(at, at)
                    graph.add_edge(vertex, after, capacity=ends.bandwidth)
                    vertex = after
        return float(nx.maximum_flow_value(graph, "from", "to")) if graph else 0.0


def partitions(network: Network) -> Iterator[Ints]:
    """[device] -> island, for every level at which devices hang together: by bandwidth, then by hops."""
    count = len(network.cluster.devices)
    rows, columns = np.triu_indices(count, 1)
    wide, hops = network.bandwidth[rows, columns], network.hops[rows, columns]
    order = np.lexsort((hops, -wide))
    label = np.arange(count)
    level = None
    for at in order.tolist():
        if (wide[at], hops[at]) != level:
            level = (wide[at], hops[at])
            yield _numbered(label)
        a, b = label[rows[at]], label[columns[at]]
        label[label == max(a, b)] = min(a, b)


def _numbered(label: Ints) -> Ints:
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def best_partitions(network: Network, most: int = 2) -> list[Ints]:
    """Those whose devices could send most beyond what leaves their islands; all devices in one if none can."""
    count = len(network.cluster.devices)
    found: list[tuple[float, Ints]] = []
    for label in partitions(network):
        sizes = np.bincount(label)
        if 1 < len(sizes) <= count / 2:
            near, _ = network.device_capacity(label)
            with np.errstate(over="ignore"):  # nothing leaves it
                excess = sizes * near / np.maximum(network.island_capacity(label), TINY)
            found.append((float(np.median(excess)), label))
    found = sorted((one for one in found if one[0] > 1.5), key=lambda one: -one[0])[:most]
    return [label for _, label in found] or [np.zeros(count, np.int64)]


class IslandModel(NamedTuple):
    """Islands, and what transfers reach at most inside one and between two. Equal islands are next to each other."""

    order: Ints  # [island] -> its label
    sizes: Ints  # [island]
    capacity: Floats  # [island]: bytes a second that leave or enter it
    across: Floats  # [island]: bytes a second of the widest pair with one end in it and one outside
    near: Floats  # [r]: a bandwidth that no r devices of one island exceed between all of them
    far: Floats  # [r]: the same for any r devices
    ring_near: Floats  # [r]: what no ring of r devices of one island exceeds on all its edges
    ring_far: Floats  # [r]: the same for any r devices
    device_near: float  # bytes a second that a device sends or receives within its island
    device: float  # and in all
    delay_near: float  # seconds before the first byte, within an island
    delay_across: float  # and between two
    shared: bool  # whether transfers share links
    in_step: bool  # whether all replicas of a stage have its microbatches in the same order
    together: Bools  # [island]: whether devices of one stage there do everything at the same time

    @property
    def group(self) -> Ints:
        """[island] -> which of the `groups` it is of."""
        return np.repeat(np.arange(len(self.groups)), [many for _, many in self.groups])

    @property
    def groups(self) -> list[tuple[int, int]]:
        """(size, number) of islands that are equal."""
        kinds = zip(
            self.sizes.tolist(), self.capacity.tolist(), self.across.tolist(), self.together.tolist(), strict=True
        )
        return [(kind[0], len(list(group))) for kind, group in itertools.groupby(kinds)]

    def widest(self) -> "IslandModel":
        """All islands as wide as the widest."""
        count = len(self.sizes)
        return self._replace(
            capacity=np.full(count, self.capacity.max()),
            across=np.full(count, self.across.max()),
            together=np.full(count, self.together.all()),
        )

    def across_of(self, a: Ints, b: Ints) -> Floats:
        """[row]: bytes a second of the widest pair between two stages in different islands."""
        ends = [np.where(stage > 0, self.across, 0.0).max(axis=1) for stage in (a, b)]
        least: Floats = np.minimum(*ends)
        return least


def island_model(network: Network, label: Ints, sharing: Sharing = "fair", *, in_step: bool = True) -> IslandModel:
    """What the bounds need of islands; where links are not shared, there is no limit to what leaves them.

    `in_step`: whether all replicas of a stage do the same in the same order, and nothing delays only some of them.
    Under a rule by which one transfer waits for another they are not in step in any case.
    """
    rule = sharing_rule(sharing)
    shared, in_step = rule.contended and rule.has_links, in_step and rule.rated
    same = label[:, None] == label[None, :]
    sizes = np.bincount(label)
    limited = shared and len(sizes) > 1
    capacity = network.island_capacity(label) if limited else np.full(len(sizes), np.inf)
    apart = np.where(same, 0.0, network.bandwidth)
    across = np.array([apart[label == g].max() for g in range(len(sizes))])
    together = network.alike(label) & in_step
    order = np.lexsort((together, across, capacity, sizes))
    device_near, device = network.device_capacity(label) if shared else (np.inf, np.inf)
    return IslandModel(
        order,
        sizes[order],
        capacity[order],
        across[order],
        group_bandwidths(np.where(same, network.bandwidth, 0.0)),
        group_bandwidths(network.bandwidth),
        ring_bandwidths(np.where(same, network.cluster.bandwidth_matrix, 0.0)),
        ring_bandwidths(network.cluster.bandwidth_matrix),
        device_near,
        device,
        float(network.delay[same & ~np.eye(len(label), dtype=bool)].min(initial=np.inf)),
        float(network.delay[~same].min(initial=np.inf)),
        shared,
        in_step or not shared,
        together[order],
    )


def ring_bandwidths(bandwidth: Floats) -> Floats:
    """[r]: bytes a second that no ring of r devices exceeds on all its edges; infinite for one."""
    if len(bandwidth) > EXACT_RINGS:
        return group_bandwidths(np.maximum(bandwidth, bandwidth.T))
    kernel = suited(widest_rings, large=len(bandwidth) > FEW)
    found: Floats = kernel(bandwidth.copy())  # machine code for a read-only array would be another
    return found


def widest_rings(bandwidth: Floats) -> Floats:
    """The widest of all rings of r devices: over all sets of devices, paths from the first of them to each other."""
    count = len(bandwidth)
    widest = np.zeros((1 << count, count))
    found = np.zeros(count + 1)
    found[:2] = np.inf
    for s in range(count):
        widest[1 << s, s] = np.inf
    for chosen in range(1, 1 << count):
        s, many = 0, 0
        while not chosen >> s & 1:
            s += 1
        for v in range(s, count):
            many += chosen >> v & 1
        for v in range(s, count):
            if widest[chosen, v] == 0:
                continue
            if many > 1:
                found[many] = max(found[many], min(widest[chosen, v], bandwidth[v, s]))
            for u in range(s + 1, count):
                if not chosen >> u & 1:
                    after = chosen | 1 << u
                    widest[after, u] = max(widest[after, u], min(widest[chosen, v], bandwidth[v, u]))
    return found


def group_bandwidths(bandwidth: Floats) -> Floats:
    """[r]: a bandwidth that no r devices exceed between all of them; infinite for one.

    Links are added from the widest down. Devices that all reach each other at some bandwidth or more are then in one
    component, so r of them cannot before a component has r.
    """
    count = len(bandwidth)
    found = np.full(count + 1, np.inf)
    component = [{i} for i in range(count)]
    reached = 1
    rows, columns = np.triu_indices(count, 1)
    for at in np.argsort(-bandwidth[rows, columns], kind="stable").tolist():
        a, b = component[rows[at]], component[columns[at]]
        if a is not b:
            a |= b
            for device in b:
                component[device] = a
            if len(a) > reached:
                found[reached + 1 : len(a) + 1] = bandwidth[rows[at], columns[at]]
                reached = len(a)
    return found
