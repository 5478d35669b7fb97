"""What channels and rings cost when their messages share links, for devices in a given order.

All pairs of two neighbouring groups send at once. Each link carries the pairs whose routes cross it; the busiest link
sets the pace. SPP's own tables take the least bandwidth of any pair and let all pairs have it.
"""

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.core.cluster import Cluster
from pipesim.planners.spp.prm import GroupTables


def contended(tables: GroupTables, cluster: Cluster, order: list[int]) -> GroupTables:
    """The same tables with channels and rings at the pace of their busiest link."""
    use = _link_seconds(cluster, order)
    return tables._replace(channel=_channels(use), reduce=_rings(use))


def _link_seconds(cluster: Cluster, order: list[int]) -> Floats:
    """[from, to, link]: seconds that one byte between two devices occupies each link."""
    names = [cluster.devices[i].name for i in order]
    routes = {(a, b): cluster.route(x, y) for a, x in enumerate(names) for b, y in enumerate(names) if a != b}
    media = sorted({medium for route in routes.values() for medium in route.media})
    position = {medium: n for n, medium in enumerate(media)}
    use = np.zeros((len(order), len(order), len(media)))
    for (a, b), route in routes.items():
        for medium in route.media:
            use[a, b, position[medium]] = 1 / cluster.media_bandwidth[medium]
    return use


def _channels(use: Floats) -> Floats:
    """[b, r, r']: seconds per byte of the cut from the r devices before b to the r' from b on, forward or backward."""
    count = len(use)
    channel = np.full((count + 1, count + 1, count + 1), np.inf)
    for b in range(1, count):
        pairs = np.outer(np.arange(1, b + 1), np.arange(1, count - b + 1))
        worst = np.zeros(pairs.shape)
        for way in (use[b - 1 :: -1, b:], use[b:, b - 1 :: -1].transpose(1, 0, 2)):
            loads = np.cumsum(np.cumsum(way, axis=0), axis=1)
            worst = np.maximum(worst, loads.max(axis=2))
        channel[b, 1 : b + 1, 1 : count - b + 1] = worst / pairs
    return channel


def _rings(use: Floats) -> Floats:
    """[i, r]: seconds of all-reduce per byte of parameters on the ring of devices i .. i+r-1."""
    count = len(use)
    reduce = np.zeros((count, count + 1))
    for i in range(count):
        chain = np.zeros(use.shape[2])
        for r in range(2, count - i + 1):
            last = i + r - 1
            chain = chain + use[last - 1, last]
            reduce[i, r] = 2 * (r - 1) / r * (chain + use[last, i]).max()
    return reduce
