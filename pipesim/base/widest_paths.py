"""Routes in a graph: fewest hops first, then greatest bottleneck bandwidth, then a digit of the target.

tree    from every vertex to a target
paths   from many vertices to a target each: the same routes, for which only what is near either end is looked at
"""

from typing import NamedTuple

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


class ArcColumns(NamedTuple):
    """Arcs in columns, as `tree` takes them."""

    first: Ints
    head: Ints
    bandwidth: Floats
    first_in: Ints
    tail: Ints


def paths(graph: ArcColumns, sources: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """The arcs from sources[n] to targets[n] are found[starts[n] : starts[n + 1]]; none where there is no route."""
    kernel = suited(shortest_widest_paths, large=len(graph.first) > MANY)
    return kernel(graph, sources, targets)


class TwoEndedSearch(NamedTuple):
    """Room for searching from both ends. What is of an earlier turn does not count."""

    turn: Ints  # one number
    from_source: Ints  # the turn in which a vertex was last found
    to_target: Ints
    depth: Ints  # hops to the target, on routes
    ahead: Ints  # vertices in the order in which they are found from the source
    back: Ints  # ... to the target
    width: Floats
    on_route: Ints  # the turn in which a vertex was last found on a shortest route
    arc: Ints  # the arc to take
    hops: Ints  # from the source
    sizes: Ints  # how many vertices were found from the source, and to the target


def shortest_widest_paths(g: ArcColumns, sources: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """Breadth-first from both ends until they meet; then the choices of `tree`, on shortest routes only."""
    vertices = len(g.first) - 1
    s = TwoEndedSearch(
        np.zeros(1, np.int64), np.zeros(vertices, np.int64), np.zeros(vertices, np.int64), np.zeros(vertices, np.int64),
        np.zeros(vertices, np.int64), np.zeros(vertices, np.int64), np.zeros(vertices), np.zeros(vertices, np.int64),
        np.zeros(vertices, np.int64), np.zeros(vertices, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip
    starts, found, count = np.zeros(len(sources) + 1, np.int64), np.zeros(8 * len(sources) + vertices, np.int64), 0
    for n in range(len(sources)):
        vertex, target = sources[n], targets[n]
        s.turn[0] = n + 1
        reached = meet(g, s, vertex, target)
        if reached >= 0:
            choose(g, s, target, reached)
            if count + reached > len(found):
                longer = np.zeros(2 * len(found), np.int64)
                for at in range(count):
                    longer[at] = found[at]
                found = longer
            while vertex != target:
                found[count] = s.arc[vertex]
                vertex = g.head[s.arc[vertex]]
                count += 1
        starts[n + 1] = count
    return starts, found[:count].copy()


def meet(g: ArcColumns, s: TwoEndedSearch, source: int, target: int) -> int:  # noqa: C901 - both sides alike, without calls
    """Search level after level, on the side with fewer arcs, until both meet; the hops of the route, -1 if none."""
    turn = s.turn[0]
    s.from_source[source], s.to_target[target] = turn, turn
    s.hops[source], s.depth[target] = 0, 0
    s.ahead[0], s.back[0] = source, target
    ahead_from, ahead_to, back_from, back_to = 0, 1, 0, 1
    reached, met = 0, source == target
    while not met:
        forward, backward = 0, 0
        for at in range(ahead_from, ahead_to):
            forward += g.first[s.ahead[at] + 1] - g.first[s.ahead[at]]
        for at in range(back_from, back_to):
            backward += g.first_in[s.back[at] + 1] - g.first_in[s.back[at]]
        if forward == 0 or backward == 0:
            return -1
        reached += 1
        if forward <= backward:
            end = ahead_to
            for at in range(ahead_from, end):
                vertex = s.ahead[at]
                for a in range(g.first[vertex], g.first[vertex + 1]):
                    other = g.head[a]
                    if s.from_source[other] != turn:
                        s.from_source[other], s.hops[other] = turn, s.hops[vertex] + 1
                        s.ahead[ahead_to] = other
                        ahead_to += 1
                        met = met or s.to_target[other] == turn
            ahead_from = end
        else:
            end = back_to
            for at in range(back_from, end):
                vertex = s.back[at]
                for k in range(g.first_in[vertex], g.first_in[vertex + 1]):
                    other = g.tail[k]
                    if s.to_target[other] != turn:
                        s.to_target[other], s.depth[other] = turn, s.depth[vertex] + 1
                        s.back[back_to] = other
                        back_to += 1
                        met = met or s.from_source[other] == turn
            back_from = end
    s.sizes[0], s.sizes[1] = ahead_to, back_to
    return reached


def choose(g: ArcColumns, s: TwoEndedSearch, target: int, reached: int) -> None:
    """The arc to take at each vertex on a shortest route, those next to the target first."""
    turn, ahead, back = s.turn[0], s.sizes[0], s.sizes[1]
    s.width[target], s.on_route[target] = np.inf, turn
    for at in range(1, back):
        choose_arc(g, s, target, s.back[at])
    for at in range(ahead - 1, -1, -1):
        vertex = s.ahead[at]
        if s.to_target[vertex] != turn:
            s.depth[vertex] = reached - s.hops[vertex]
            choose_arc(g, s, target, vertex)


def choose_arc(g: ArcColumns, s: TwoEndedSearch, target: int, vertex: int) -> None:
    """The widest arc to a vertex on a shortest route that is a hop nearer; as `tree` chooses it."""
    turn, level, width, equal = s.turn[0], s.depth[vertex], 0.0, 0
    for a in range(g.first[vertex], g.first[vertex + 1]):
        other = g.head[a]
        if s.on_route[other] == turn and s.depth[other] == level - 1:
            through = min(g.bandwidth[a], s.width[other])
            if through > width:
                width, equal = through, 0
            if through == width:
                equal += 1
    if equal == 0:
        return
    s.width[vertex], s.on_route[vertex] = width, turn
    digit = (target if level % 2 == 1 else target // equal) % equal
    for a in range(g.first[vertex], g.first[vertex + 1]):
        other = g.head[a]
        if s.on_route[other] == turn and s.depth[other] == level - 1 and min(g.bandwidth[a], s.width[other]) == width:
            if digit == 0:
                s.arc[vertex] = a
                break
            digit -= 1
