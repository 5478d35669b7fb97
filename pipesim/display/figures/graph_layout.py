"""Positions of the vertices of a cluster in its figure.

    y = 2            core                  the number of steps from the nearest device
    y = 1     nic0         nic1
    y = 0   gpu0 gpu1    gpu2 gpu3         devices in order, with a gap between nodes
    y = -1   switch0      switch1          vertices connected to devices only

Connected vertices are above each other as far as there is room. Without switches, devices are on a circle, or where all
links join neighbours of a grid, in that grid.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats
from pipesim.core.cluster import Cluster

_NODE_GAP = 0.7  # between two nodes, relative to the distance between devices


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """x and y of each vertex, its neighbours, and whether all are on a circle, or in a grid of 1 x 1."""

    x: Floats
    y: Floats
    neighbours: list[set[int]]
    circle: bool = False
    grid: bool = False


def graph_layout(cluster: Cluster) -> GraphLayout:
    """Positions of all vertices, in the order of `cluster.vertices`."""
    count, devices = len(cluster.vertices), len(cluster.devices)
    neighbours = _neighbours(cluster)
    if count == devices:
        if columns := _grid_columns(neighbours):
            place = np.arange(count)
            return GraphLayout(
                (place % columns).astype(float), -(place // columns).astype(float), neighbours, grid=True
            )
        angle = math.pi / 2 - 2 * math.pi * np.arange(count) / count
        return GraphLayout(np.cos(angle), np.sin(angle), neighbours, circle=count > 1)
    level = _levels(neighbours, devices)
    x = np.zeros(count)
    nodes = [device.node for device in cluster.devices]
    new_node = np.array([0.0, *(a != b for a, b in itertools.pairwise(nodes))])
    x[:devices] = np.arange(devices) + _NODE_GAP * np.cumsum(new_node)
    width = max(1.0, x[devices - 1] if devices > 1 else 1.0)
    for height in [*range(1, int(level.max()) + 1), -1]:
        on_level = np.flatnonzero(level == height)
        if len(on_level):
            below = abs(height) - 1
            wish = np.array([_mean_x(x, [n for n in neighbours[v] if level[n] == below], width) for v in on_level])
            x[on_level] = _spread(wish, width)
    return GraphLayout(x, level.astype(np.float64), neighbours)


def _grid_columns(neighbours: list[set[int]]) -> int:
    """The columns of the grid whose neighbours all links join, also around its edges; 0 if there is none."""
    count = len(neighbours)

    def joined(place: int, columns: int) -> set[int]:
        row, column = divmod(place, columns)
        across = {row * columns + (column + step) % columns for step in (-1, 1)}
        return (across | {(place + step * columns) % count for step in (-1, 1)}) - {place}

    for columns in range(2, count // 2 + 1):
        if count % columns == 0 and all(near and near <= joined(n, columns) for n, near in enumerate(neighbours)):
            is_ring = all(abs(a - b) in {1, count - 1} for a, near in enumerate(neighbours) for b in near)
            return 0 if is_ring else columns
    return 0


def _neighbours(cluster: Cluster) -> list[set[int]]:
    position = {name: number for number, name in enumerate(cluster.vertices)}
    neighbours: list[set[int]] = [set() for _ in cluster.vertices]
    for link in cluster.links:
        source, target = position[link.source], position[link.target]
        neighbours[source].add(target)
        neighbours[target].add(source)
    return neighbours


def _levels(neighbours: list[set[int]], devices: int) -> NDArray[np.int64]:
    """Steps from the nearest device; -1 for vertices connected to devices only, if others are not."""
    level = np.full(len(neighbours), -1, np.int64)
    level[:devices] = 0
    front = list(range(devices))
    while front:
        reached = sorted({n for vertex in front for n in neighbours[vertex] if level[n] < 0})
        level[reached] = level[front[0]] + 1
        front = reached
    if level.max() > 1:
        ends = [v for v in np.flatnonzero(level == 1).tolist() if all(level[n] == 0 for n in neighbours[v])]
        level[ends] = -1
    return level


def _mean_x(x: Floats, below: list[int], width: float) -> float:
    return float(x[below].mean()) if below else width / 2


def _spread(wish: Floats, width: float) -> Floats:
    """The positions nearest to `wish` at a minimum distance, about half of the average on the level.

    With y = x - rank * distance, the constraint is that y increases: isotonic regression, whose solution are means of
    blocks.
    """
    distance = 0.55 * width / max(1, len(wish) - 1)
    order = np.argsort(wish, kind="stable")
    blocks: list[tuple[float, int]] = []  # (mean, size), increasing
    for rank, vertex in enumerate(order.tolist()):
        mean, size = float(wish[vertex]) - rank * distance, 1
        while blocks and blocks[-1][0] >= mean:
            before, many = blocks.pop()
            mean, size = (mean * size + before * many) / (size + many), size + many
        blocks.append((mean, size))
    flat = np.concatenate([np.full(size, mean) for mean, size in blocks])
    spread = np.empty(len(wish))
    spread[order] = flat + np.arange(len(wish)) * distance
    return spread
