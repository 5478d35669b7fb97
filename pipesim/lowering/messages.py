"""What one message costs, alone on its route."""

from typing import NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.core.cluster import Cluster

MANY_ROUTES = 32
"""Above, routes are found together, which takes less time than one after the other."""


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
