"""Bandwidths between devices without the matrix of all pairs: of the first devices, and the extremes of all.

        core
       ╱    ╲         Devices a and b are interchangeable, with their ports: swapping them changes no bandwidth. So
    nic      nic      one tree of routes has the bandwidths to both: 2,048 servers of 8 devices need 2,048 trees
   ╱   ╲      │       in place of 16,384.
 port  port   c
  │     │
  a     b

A port is a vertex that is not a device and connects two others.
"""

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.core.cluster import Cluster

Near = dict[str, dict[str, tuple[float, float]]]


def among_first(cluster: Cluster, count: int) -> Floats:
    """The part of `bandwidth_matrix` for the first devices."""
    count = min(count, len(cluster.devices))
    matrix = np.array([cluster.bandwidths_to(target)[:count] for target in range(count)]).T
    np.fill_diagonal(matrix, np.inf)
    return matrix


def least_and_most(cluster: Cluster) -> tuple[float, float] | None:
    """The least and the greatest bytes/s from a device to another (0: no route); None for a single device."""
    if len(cluster.devices) == 1:
        return None
    least, most = np.inf, 0.0
    for target in _representatives(cluster):
        others = np.delete(cluster.bandwidths_to(target), target)
        least, most = min(least, float(others.min())), max(most, float(others.max()))
    return least, most


def _representatives(cluster: Cluster) -> list[int]:
    """The first of each set of interchangeable devices."""
    near = _neighbours(cluster)
    found: dict[object, int] = {}
    for position, device in enumerate(cluster.devices):
        ways = (_connection(cluster, near, device.name, other) for other in near.get(device.name, {}))
        found.setdefault(tuple(sorted(ways)), position)
    return list(found.values())


def _neighbours(cluster: Cluster) -> Near:
    """The neighbours of each vertex, with the bandwidth to each and from it; 0 without a link."""
    near: Near = {}
    for link in cluster.links:
        ways = [(link.source, link.target)] + ([] if link.duplex == "one_way" else [(link.target, link.source)])
        for a, b in ways:
            ahead, back = near.setdefault(a, {}), near.setdefault(b, {})
            ahead[b] = link.bandwidth, ahead.get(b, (0.0, 0.0))[1]
            back[a] = back.get(a, (0.0, 0.0))[0], link.bandwidth
    return near


def _connection(cluster: Cluster, near: Near, device: str, other: str) -> tuple[str, *tuple[float, ...]]:
    """A neighbour of a device, or the vertex behind it if it is a port, and the bandwidths there and back."""
    if other in cluster.index or len(near[other]) != 2:
        return other, *near[device][other]
    behind = next(name for name in near[other] if name != device)
    return behind, *near[device][other], *near[other][behind]
