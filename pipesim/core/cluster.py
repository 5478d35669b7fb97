"""Clusters: devices, and links over any graph, including switches and NICs.

    gpu0 ══╗                        ╔══ gpu2        vertices: devices, switches, NICs
           switch0 ── nic0 ── core ─ ...            links:    bandwidth, latency, duplex
    gpu1 ══╝                                        media:    what transfers occupy; a full-duplex link has two

A route has the fewest hops; among those the greatest bottleneck bandwidth; among equals the
destinations are distributed over the parallel links in turn, so that a fat tree uses all its cores. Routes depend only
on the cluster.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base import widest_paths
from pipesim.base.errors import InputError
from pipesim.base.shown_values import Displayed
from pipesim.core.cluster_parts import Device, Link, Points, Route, directions
from pipesim.core.route_table import RouteRow, RouteTable

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

__all__ = ["MANY_ROUTES", "Cluster", "Device", "Link", "Points", "Route"]


@dataclass(frozen=True, repr=False)
class Cluster(Displayed):
    """Devices, and links between them, over any graph; validated on construction.

    >>> pair = ps.Cluster("pair", (ps.Device("a", "gpu"), ps.Device("b", "gpu")), (ps.Link("a", "b", bandwidth=1e9),))
    >>> pair.media
    ('a->b', 'b->a')
    """

    FORMAT: ClassVar[str] = "pipesim.cluster"
    VERSION: ClassVar[int] = 1

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        if not self.devices:
            raise InputError("devices: a cluster needs at least one")
        names = [device.name for device in self.devices]
        if len(set(names)) < len(names):
            double = next(name for name in names if names.count(name) > 1)
            raise InputError(f"devices: duplicate name {double!r}")
        seen: set[tuple[str, str]] = set()
        for index, link in enumerate(self.links):
            directions = {(link.source, link.target)} | (
                set() if link.duplex == "one_way" else {(link.target, link.source)}
            )
            if directions & seen:
                raise InputError(f"links[{index}]: {link.source} and {link.target} are already connected by a link")
            seen |= directions
        self._check_media()

    def _check_media(self) -> None:
        capacity: dict[str, tuple[float, float, float]] = {}
        own = {medium for link in self.links if not link.medium for _, _, medium in directions(link)}
        for index, link in enumerate(self.links):
            if link.medium in own:
                raise InputError(
                    f"links[{index}].medium: {link.medium!r} is also the name of the medium of another link"
                )
            rates = link.bandwidth, link.burst, link.peak
            if link.medium and capacity.setdefault(link.medium, rates) != rates:
                expected = capacity[link.medium]
                name = next(n for n, a, b in zip(_RATES, rates, expected, strict=True) if a != b)
                raise InputError(
                    f"links[{index}].{name}: {getattr(link, name)} found; the other links on medium {link.medium!r} "
                    f"have {expected[_RATES.index(name)]}"
                )

    def frame(self) -> "pd.DataFrame":
        """A row for each link."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        names = ("source", "target", "bandwidth", "latency", "duplex", "medium")
        return pd.DataFrame({name: [getattr(link, name) for link in self.links] for name in names})

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each device."""
        return {device.name: position for position, device in enumerate(self.devices)}

    def device(self, name: str) -> Device:
        """The device of this name, which must exist."""
        return self.devices[self.index[name]]

    @cached_property
    def has_tables(self) -> bool:
        """Whether any link has recorded times."""
        return any(link.table for link in self.links)

    @cached_property
    def is_plain(self) -> bool:
        """Whether the time of any message alone follows from the bandwidth of its route."""
        return not self.has_tables and not self.buckets

    @cached_property
    def buckets(self) -> dict[str, tuple[float, float]]:
        """Burst, in bytes, and peak, in bytes/s, of each medium that a token bucket shapes."""
        shaped = (link for link in self.links if link.burst)
        return {medium: (link.burst, link.peak) for link in shaped for _, _, medium in directions(link)}

    @cached_property
    def vertices(self) -> tuple[str, ...]:
        """Devices first, then switches and NICs in order of first appearance."""
        names = dict.fromkeys(device.name for device in self.devices)
        for link in self.links:
            names |= dict.fromkeys((link.source, link.target))
        return tuple(names)

    @cached_property
    def media(self) -> tuple[str, ...]:
        """The media that transfers occupy: "a->b" (one direction), "a<->b" (both), or the name of a shared one."""
        return tuple(self._media_capacity)

    @cached_property
    def media_bandwidth(self) -> tuple[float, ...]:
        """Bytes/s of each medium."""
        return tuple(self._media_capacity.values())

    @cached_property
    def media_peak(self) -> tuple[float, ...]:
        """The most bytes/s of each medium: more than its bandwidth where a token bucket shapes it."""
        return tuple(self.buckets.get(name, (0.0, rate))[1] for name, rate in self._media_capacity.items())

    @cached_property
    def _media_capacity(self) -> dict[str, float]:
        return {medium: link.bandwidth for link in self.links for _, _, medium in directions(link)}

    @cached_property
    def _arcs(self) -> "_Arcs":
        """All arcs, sorted by tail, head, link and medium."""
        position = {name: i for i, name in enumerate(self.vertices)}
        medium_index = {name: i for i, name in enumerate(self.media)}
        every = sorted(
            (position[source], position[target], number, medium_index[medium])
            for number, link in enumerate(self.links)
            for source, target, medium in directions(link)
        )
        source, head, link, medium = np.array(every, np.int64).reshape(-1, 4).T
        first = np.searchsorted(source, np.arange(len(self.vertices) + 1)).astype(np.int64)
        bandwidth = np.array([link.bandwidth for link in self.links], np.float64)[link]
        head = np.ascontiguousarray(head)
        return _Arcs(first, head, bandwidth, link, medium, *widest_paths.reversed_arcs(first, head))

    @property
    def arc_columns(self) -> widest_paths.ArcColumns:
        """All arcs, as searches take them; vertices by their place in `vertices`."""
        arcs = self._arcs
        return widest_paths.ArcColumns(arcs.first, arcs.head, arcs.bandwidth, arcs.first_in, arcs.tail)

    def _tree(self, target: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """For each vertex the arc to take towards this device, and the bottleneck of its route (0: no route)."""
        arcs = self._arcs
        return widest_paths.tree(arcs.first, arcs.head, arcs.bandwidth, arcs.first_in, arcs.tail, target)

    @cached_property
    def _trees(self) -> dict[int, NDArray[np.int64]]:
        """Cached trees, by target."""
        return {}

    def route(self, source: str, target: str) -> Route:
        """The route from one device to another."""
        for name in (source, target):
            if name not in self.index:
                raise InputError(f"cluster {self.name!r} has no device {name!r}")
        ends = self.index[source], self.index[target]
        if ends not in self._routes:
            self._routes[ends] = self._make_route(*ends)
        return self._routes[ends]

    @cached_property
    def _routes(self) -> dict[tuple[int, int], Route]:
        return {}

    def _make_route(self, source: int, target: int) -> Route:
        if target not in self._trees:
            if len(self._trees) >= _TREES:
                self._trees.clear()
            self._trees[target] = self._tree(target)[0]
        tree, arcs = self._trees[target], self._arcs
        passed: list[int] = []
        vertex = source
        while vertex != target:
            arc = int(tree[vertex])
            if arc == widest_paths.NOWHERE:
                raise InputError(
                    f"cluster {self.name!r}: no route from {self.vertices[source]!r} to {self.vertices[target]!r}"
                )
            passed.append(arc)
            vertex = int(arcs.head[arc])
        return self._route_over(arcs.link[passed].tolist(), arcs.medium[passed].tolist())

    def _route_over(self, links: list[int], media: list[int]) -> Route:
        passed = [self.links[link] for link in links]
        return Route(
            tuple(links),
            tuple(dict.fromkeys(media)),  # two hops over one shared medium occupy it once
            sum(link.delay for link in passed),
            min((link.bandwidth for link in passed), default=np.inf),
        )

    def find_routes(self, ends: Iterable[tuple[str, str]]) -> None:
        """Find many routes at once, in less time than one after the other; `route` then has them."""
        index, known = self.index, self._routes
        wanted = [pair for a, b in dict.fromkeys(ends) if (pair := (index[a], index[b])) not in known]
        if not wanted:
            return
        arcs, (sources, targets) = self._arcs, np.array(wanted, np.int64).T
        starts, passed = widest_paths.paths(
            self.arc_columns, np.ascontiguousarray(sources), np.ascontiguousarray(targets)
        )
        links, media = arcs.link[passed].tolist(), arcs.medium[passed].tolist()
        for pair, (a, b) in zip(wanted, pairwise(starts.tolist()), strict=True):
            if b > a or pair[0] == pair[1]:  # otherwise there is none, as `route` reports
                known[pair] = self._route_over(links[a:b], media[a:b])

    @cached_property
    def route_table(self) -> RouteTable:
        """Routes in columns, for many messages at once."""
        return RouteTable(len(self.devices), self._rows_of_routes)

    def _rows_of_routes(self, pairs: list[tuple[int, int]]) -> list[RouteRow]:
        ends = [(self.devices[a].name, self.devices[b].name) for a, b in pairs]
        if len(ends) > MANY_ROUTES:
            self.find_routes(ends)
        routes = [self.route(*each) for each in ends]
        others = set() if self.is_plain else {n for n, link in enumerate(self.links) if link.table or link.burst}
        return [RouteRow(r.delay, r.bandwidth, others.isdisjoint(r.links), r.media) for r in routes]

    def timing(self, route: Route, size: float) -> tuple[float, float]:
        """Seconds of delay and of transmission of this many bytes, alone on the route."""
        if self.is_plain:
            return route.delay, size / route.bandwidth
        return route.delay, max((self.links[link].transmission(size) for link in route.links), default=0.0)

    @cached_property
    def bandwidth_matrix(self) -> NDArray[np.float64]:
        """Bytes/s between devices: the bottleneck of the route, infinite from a device to itself, 0 without a route."""
        matrix = np.array([self.bandwidths_to(target) for target in range(len(self.devices))]).T
        np.fill_diagonal(matrix, np.inf)
        return matrix

    def bandwidths_to(self, target: int) -> NDArray[np.float64]:
        """A column of `bandwidth_matrix`, without computing the matrix: bytes/s from each device to this one."""
        return self._tree(target)[1][: len(self.devices)]

    def arcs_between(self, names: Collection[str]) -> list[tuple[str, str, str]]:
        """Source, target and medium of each direction of the links that join two of these vertices."""
        joining = (link for link in self.links if link.source in names and link.target in names)
        return [arc for link in joining for arc in directions(link)]

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The cluster as a networkx graph; vertices have the attribute `device`, links their bandwidth and latency."""
        import networkx as nx  # noqa: PLC0415 - slow to import, and only figures and analyses need it

        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name)
        for name in self.vertices:
            position = self.index.get(name)
            graph.add_node(name, device=None if position is None else self.devices[position])
        for link in self.links:
            for source, target, medium in directions(link):
                graph.add_edge(source, target, bandwidth=link.bandwidth, latency=link.latency, medium=medium)
        return graph


_RATES = ("bandwidth", "burst", "peak")
MANY_ROUTES = 32  # above, routes are found together, which takes less time than one after the other
_TREES = 2048  # cached trees of a cluster; each has one number per vertex


class _Arcs(NamedTuple):
    """Arcs in columns; those that leave vertex v start at first[v]."""

    first: NDArray[np.int64]
    head: NDArray[np.int64]
    bandwidth: NDArray[np.float64]
    link: NDArray[np.int64]
    medium: NDArray[np.int64]
    first_in: NDArray[np.int64]  # the vertices with an arc to v start at tail[first_in[v]]
    tail: NDArray[np.int64]
