"""Properties of groups of devices: nodes, seconds of layers on the slowest member, links, rings."""

from collections.abc import Iterable, Sequence

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError
from pipesim.core import widths
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs


def by_node(cluster: Cluster) -> list[list[int]]:
    """Positions of the devices of each node; nodes in order of first appearance."""
    nodes: dict[str, list[int]] = {}
    for position, device in enumerate(cluster.devices):
        nodes.setdefault(device.node, []).append(position)
    return list(nodes.values())


def bandwidths(cluster: Cluster) -> Floats:
    """Bytes/s between each two devices, the lesser of both directions; 0 from a device to itself."""
    matrix = cluster.bandwidth_matrix
    weights = np.minimum(matrix, matrix.T)
    np.fill_diagonal(weights, 0.0)
    if len(weights) > 1 and not (weights + np.eye(len(weights)) > 0).all():
        a, b = np.argwhere(weights + np.eye(len(weights)) <= 0)[0]
        names = [device.name for device in cluster.devices]
        raise InputError(f"cluster {cluster.name!r}: no route between {names[a]!r} and {names[b]!r}")
    return weights


def worst_bandwidths(cluster: Cluster) -> Floats:
    """Bytes/s between each two devices, the lesser of both directions; infinite from one to itself."""
    between = bandwidths(cluster).copy()
    np.fill_diagonal(between, np.inf)
    return between


def kinds_of(cluster: Cluster, group: Iterable[int]) -> list[str]:
    """The kinds of device in a group, each once."""
    return list(dict.fromkeys(cluster.devices[position].kind for position in group))


def prefix(values: Floats) -> Floats:
    """[l]: the sum over layers 0 .. l-1."""
    return np.concatenate([[0.0], np.cumsum(values)])


def layer_seconds(costs: Costs, kinds: Sequence[str], share: float) -> Floats:
    """[a, b]: seconds of layers a .. b-1, both ways, at the slowest of these kinds; infinite unless a < b."""
    between = np.full((len(costs.model) + 1, len(costs.model) + 1), -np.inf)
    for kind in kinds:
        before = prefix(costs.forward(kind, share) + costs.backward(kind, share))
        np.maximum(between, before[None, :] - before[:, None], out=between)
    between[np.tri(len(between), dtype=np.bool_)] = np.inf
    return between


def cut_bytes(costs: Costs) -> Floats:
    """[l]: bytes of activations across the cut before layer l, for 0 .. L; 0 at both ends of the model."""
    return np.concatenate([[0.0], costs.model.cut_bytes])


MATRIX = 1024
"""Devices up to which there is a matrix of the bandwidths between all of them; beyond, groups are looked at."""


def rings(cluster: Cluster, groups: Sequence[Sequence[int]]) -> list[float]:
    """What `ring` has for each of several groups without common devices; of large clusters without the matrix."""
    if len(cluster.devices) <= MATRIX:
        between = worst_bandwidths(cluster)
        return [ring(between, group) for group in groups]
    whole = widths.least_and_most(cluster)
    if whole is not None and not whole[0]:
        bandwidths(cluster)  # refuses it, with the names of two devices
    worst = widths.least_within(cluster, groups)
    return [2 * (len(group) - 1) / len(group) / least for group, least in zip(groups, worst, strict=True)]


def ring(between: Floats, group: Sequence[int]) -> float:
    """Seconds per byte of parameters of a group's ring all-reduce, at its worst pair's pace: 2 (k-1)/k / Bmin."""
    worst = float(between[np.ix_(group, group)].min())
    return 2 * (len(group) - 1) / len(group) / worst
