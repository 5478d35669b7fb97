"""What is the same in all plans that take equally long because the devices that they use are interchangeable.

The devices of a plan are renamed by when they first occur in its stages, their nodes too, and links by when they first
occur on the routes between those devices. What then remains is all that a simulation of the plan depends on, beside the
layers: so plans of one form have equal programs but for the names.
"""

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.core.cluster import Cluster
from pipesim.core.plan import Plan

Form = tuple[object, ...]


def form_of(plan: Plan, cluster: Cluster) -> Form | None:
    """What is equal in plans that take equally long; None where links are not plain, or devices are teams."""
    if not cluster.is_plain or plan.teams:
        return None
    groups = [np.array([cluster.index[name] for name in stage.devices], np.int64) for stage in plan.stages]
    devices = [cluster.devices[place] for place in np.concatenate(groups).tolist()]
    pairs = [(a, b) for a in range(len(groups)) for b in (a, a + 1, a - 1) if 0 <= b < len(groups)]
    source = np.concatenate([np.repeat(groups[a], len(groups[b])) for a, b in pairs])
    target = np.concatenate([np.tile(groups[b], len(groups[a])) for a, b in pairs])
    apart = source != target
    table = cluster.route_table
    rows = table.rows(source[apart], target[apart])
    routes = table.media.take(rows)
    media, links = _renamed(routes.values)
    numbers = _renamed(np.concatenate(groups))[1]
    nodes: dict[str, int] = {}
    return (
        plan.microbatches,
        plan.replicas,
        tuple((stage.start, stage.stop, len(stage.devices)) for stage in plan.stages),
        tuple((device.kind, nodes.setdefault(device.node, len(nodes))) for device in devices),
        numbers.tobytes(),
        routes.lengths.tobytes(),
        links.tobytes(),
        np.array(cluster.media_bandwidth)[media].tobytes(),
        table.delay[rows].tobytes(),
        table.bandwidth[rows].tobytes(),
    )


def _renamed(values: Ints) -> tuple[Ints, Ints]:
    """The different values in the order in which they first occur, and for each value its place there."""
    different, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return different[order], place[inverse]
