"""Routes from every vertex of a graph to a target: fewest hops first, then greatest bottleneck bandwidth."""

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import suited

NOWHERE = -1
MANY = 1000  # vertices above which the kernel is compiled: there is one tree per device


def reversed_arcs(first: Ints, head: Ints) -> tuple[Ints, Ints]:
    """The sources of the arcs into each vertex v: from index first_in[v] on in the second array."""
    source = np.repeat(np.arange(len(first) - 1), np.diff(first))
    order = np.argsort(head, kind="stable")
    return np.searchsorted(head[order], np.arange(len(first))).astype(np.int64), source[order]


def tree(  # noqa: PLR0917 - a graph in columns
    first: Ints, head: Ints, bandwidth: Floats, first_in: Ints, tail: Ints, target: int
) -> tuple[Ints, Floats]:
    """For each vertex the arc to take towards the target, and the bottleneck bandwidth of its route.

    Arcs first[v] to first[v + 1] - 1 leave vertex v; arc a ends at head[a]. tail[k] for k from first_in[v] on is a
    vertex with an arc to v. Among equally wide arcs, a different digit of the target decides at each level, so that
    all parallel paths are used.
    """
    kernel = suited(shortest_widest_tree, large=len(first) > MANY)
    return kernel(first, head, bandwidth, first_in, tail, target)


def shortest_widest_tree(  # noqa: C901, PLR0917 - a kernel takes plain values
    first: Ints, head: Ints, bandwidth: Floats, first_in: Ints, tail: Ints, target: int
) -> tuple[Ints, Floats]:
    """Breadth-first from the target: the vertices of a level, then their widest arcs to the level before."""
    vertices = len(first) - 1
    hops, width = np.full(vertices, -1, np.int64), np.zeros(vertices)
    arcs = np.full(vertices, NOWHERE, np.int64)
    frontier, size = np.zeros(vertices, np.int64), 1
    frontier[0] = target
    hops[target], width[target] = 0, np.inf
    done = 0
    while done < size:
        level = hops[frontier[done]] + 1
        stop = size
        for at in range(done, stop):
            vertex = frontier[at]
            for k in range(first_in[vertex], first_in[vertex + 1]):
                if hops[tail[k]] == -1:
                    hops[tail[k]] = level
                    frontier[size] = tail[k]
                    size += 1
        done = stop
        for at in range(stop, size):
            source = frontier[at]
            equal = 0
            for a in range(first[source], first[source + 1]):
                if hops[head[a]] == level - 1:
                    through = min(bandwidth[a], width[head[a]])
                    if through > width[source]:
                        width[source], equal = through, 0
                    if through == width[source]:
                        equal += 1
            digit = (target if level % 2 == 1 else target // equal) % equal
            for a in range(first[source], first[source + 1]):
                if hops[head[a]] == level - 1 and min(bandwidth[a], width[head[a]]) == width[source]:
                    if digit == 0:
                        arcs[source] = a
                        break
                    digit -= 1
    return arcs, width
