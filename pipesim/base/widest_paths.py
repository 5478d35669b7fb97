"""The way from every vertex of a graph towards one of them: the fewest hops, and of those the widest."""

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import suited

NOWHERE = -1
MANY = 1000  # vertices; from here on the compiled kernel pays, as there is a tree for every device


def turned(first: Ints, there: Ints) -> tuple[Ints, Ints]:
    """The arcs turned round: who leads to each vertex."""
    source = np.repeat(np.arange(len(first) - 1), np.diff(first))
    order = np.argsort(there, kind="stable")
    return np.searchsorted(there[order], np.arange(len(first))).astype(np.int64), source[order]


def tree(  # noqa: PLR0917 - a graph in columns
    first: Ints, there: Ints, wide: Floats, first_before: Ints, before: Ints, target: int
) -> tuple[Ints, Floats]:
    """For each vertex the arc to take towards the target, and the bottleneck from there on; 0 where none leads.

    The arcs that leave vertex v are first[v] to first[v + 1] - 1, in a stated order; arc a leads to there[a]. Where
    several are equally wide, another digit of the target chooses at each level, so that all parallel paths are used.
    """
    kernel = suited(grown, large=len(first) > MANY)
    return kernel(first, there, wide, first_before, before, target)


def grown(  # noqa: C901, PLR0912, PLR0917 - a kernel takes plain values
    first: Ints, there: Ints, wide: Floats, first_before: Ints, before: Ints, target: int
) -> tuple[Ints, Floats]:
    """Level by level, from the target outwards."""
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
            for k in range(first_before[vertex], first_before[vertex + 1]):
                if hops[before[k]] == -1:
                    hops[before[k]] = level
                    frontier[size] = before[k]
                    size += 1
        done = stop
        for at in range(stop, size):
            source = frontier[at]
            equal = 0
            for a in range(first[source], first[source + 1]):
                if hops[there[a]] == level - 1:
                    through = min(wide[a], width[there[a]])
                    if through > width[source]:
                        width[source], equal = through, 0
                    if through == width[source]:
                        equal += 1
            if equal == 0:  # every way has no bandwidth
                continue
            digit = (target if level % 2 == 1 else target // equal) % equal
            for a in range(first[source], first[source + 1]):
                if hops[there[a]] == level - 1 and min(wide[a], width[there[a]]) == width[source]:
                    if digit == 0:
                        arcs[source] = a
                        break
                    digit -= 1
    return arcs, width
