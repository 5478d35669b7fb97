"""What messages cost, each alone on its route."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints, Ragged
from pipesim.core.cluster import Cluster


class Alone(NamedTuple):
    """One message, alone on its route: nanoseconds in all and before the first byte, bytes, most bytes per ns."""

    duration: int
    delay: int
    size: float
    limit: float
    media: tuple[int, ...]


def alone(cluster: Cluster, source: str, target: str, size: float, times: int) -> Alone:
    """A message of `size` bytes sent `times` times in a row."""
    route = cluster.route(source, target)
    delay, transmission = cluster.timing(route, size)
    delay, transmission = times * delay, times * transmission
    delay_ns = units.ns_of(delay)
    units.ns_of(transmission)  # refuses what lasts for ever
    has_table = cluster.has_tables and any(cluster.links[link].table for link in route.links)
    limit = times * size / (transmission * units.NS_PER_S) if has_table and transmission > 0 else np.inf
    return Alone(delay_ns + units.ns_up(transmission * units.NS_PER_S), delay_ns, times * size, limit, route.media)


class AloneColumns(NamedTuple):
    """Messages, one a row: the fields of `Alone`."""

    duration: Ints
    delay: Ints
    size: Floats
    limit: Floats
    routes: Ragged

    @classmethod
    def of(cls, messages: Sequence[Alone]) -> "AloneColumns":
        """The columns of these messages."""
        duration, delay = (np.array([message[n] for message in messages], np.int64) for n in range(2))
        size, limit = (np.array([message[n] for message in messages], np.float64) for n in (2, 3))
        return cls(duration, delay, size, limit, Ragged.of([message.media for message in messages]))


def alone_each(cluster: Cluster, source: Ints, target: Ints, size: Floats, times: int | Ints) -> AloneColumns:
    """As `alone`, of many messages at once; devices by their place in the cluster."""
    table = cluster.route_table
    rows = table.rows(source, target)
    delay, transmission = times * table.delay[rows], times * (size / table.bandwidth[rows])
    limit = np.full(len(rows), np.inf)
    delay_ns = units.to_ns(delay)
    units.to_ns(transmission)  # refuses what lasts for ever
    duration = delay_ns + units.all_ns_up(transmission * units.NS_PER_S)
    count = np.broadcast_to(times, rows.shape)
    for n in np.flatnonzero(~table.is_plain[rows]).tolist():
        a, b = (cluster.devices[place].name for place in (source[n], target[n]))
        one = alone(cluster, a, b, float(size[n]), int(count[n]))
        duration[n], limit[n] = one.duration, one.limit
    return AloneColumns(duration, delay_ns, times * size, limit, table.media.take(rows))
