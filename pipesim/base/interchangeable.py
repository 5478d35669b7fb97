"""Parts of a graph that can be swapped without any change: of each sort two are kept.

    hubs      vertices with more than so many neighbours, or so many hops away from all that have a label
    parts     what is connected without the hubs: a GPU with its NIC; a server; all servers under some switches

Two parts are alike if their vertices, in the order of their numbers, have the same labels, the same arcs among each
other, and the same arcs from and to the same hubs: swapping them changes nothing. So what depends only on a vertex and
on the shortest routes from it is the same for both; and a shortest route through a third part can pass through the part
where it begins in its place. Two are enough for what is between vertices of different parts.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints

_MORE = 6  # of the numbers of neighbours so many are tried, the least first


class Arcs(NamedTuple):
    """Arcs in columns: from where, to where, and their bandwidth."""

    source: Ints
    head: Ints
    bandwidth: Floats


def kept(arcs: Arcs, label: Ints) -> Bools:
    """Which vertices are kept; those of parts that are alike have the same labels (-1: none)."""
    vertices = len(label)
    here, hops = np.ones(vertices, np.bool_), _hops(arcs, label)
    _, width = np.unique(arcs.bandwidth, return_inverse=True)
    columns = np.stack([arcs.source, arcs.head, width])
    found = True
    while found:
        found = False
        columns = columns[:, here[columns[0]] & here[columns[1]]]
        degree = np.bincount(columns[0], minlength=vertices) + np.bincount(columns[1], minlength=vertices)
        below = [degree <= most for most in np.unique(degree[here])[:_MORE].tolist()]
        near = [hops < least for least in range(1, int(hops.max()) + 1)]
        for chosen in (*below, *near):
            inside = here & chosen
            doubles = _doubles(columns, inside, label)
            if doubles.any():
                here &= ~doubles
                found = True
                break
    return here


def _hops(arcs: Arcs, label: Ints) -> Ints:
    """How far each vertex is from the next one with a label, along arcs in either direction."""
    hops = np.where(label >= 0, 0, len(label))
    before = hops
    while True:
        hops = before.copy()
        np.minimum.at(hops, arcs.head, before[arcs.source] + 1)
        np.minimum.at(hops, arcs.source, before[arcs.head] + 1)
        if np.array_equal(hops, before):
            return np.where(hops < len(label), hops, 0)
        before = hops


def _doubles(columns: Ints, inside: Bools, label: Ints) -> Bools:
    """Vertices of parts that are alike to two others."""
    part = _parts(columns, inside)
    members = np.flatnonzero(inside)
    members = members[np.argsort(part[members], kind="stable")]
    names, first, sizes = np.unique(part[members], return_index=True, return_counts=True)
    place = np.zeros(len(label), np.int64)  # of a vertex in its part; of a hub its number, below 0
    place[members] = np.arange(len(members)) - np.repeat(first, sizes)
    place[~inside] = -1 - np.flatnonzero(~inside)
    touching = columns[:, inside[columns[0]] | inside[columns[1]]]
    source, head, width = touching
    of = np.where(inside[source], part[source], part[head])
    rows = np.stack([of, place[source], place[head], width])
    rows = rows[:, np.lexsort(rows[::-1])]
    begins = np.searchsorted(rows[0], names)
    ends = np.append(begins[1:], rows.shape[1])
    inner, labels = np.ascontiguousarray(rows[1:].T), label[members]
    known: dict[tuple[bytes, bytes], int] = {}
    again = np.zeros(len(names), np.bool_)
    for n, (a, b, at, size) in enumerate(_in_turn(begins, ends, first, sizes)):
        key = labels[at : at + size].tobytes(), inner[a:b].tobytes()
        known[key] = known.get(key, 0) + 1
        again[n] = known[key] > 2
    found = np.zeros(len(label), np.bool_)
    found[members] = np.repeat(again, sizes)
    return found


def _in_turn(*columns: Ints) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _parts(columns: Ints, inside: Bools) -> Ints:
    """For each vertex inside the least number of those that are connected with it; hubs have their own."""
    part = np.arange(len(inside))
    source, head = columns[:2, inside[columns[0]] & inside[columns[1]]]
    changed = True
    while changed:
        least = np.minimum(part[source], part[head])
        before = part.copy()
        np.minimum.at(part, source, least)
        np.minimum.at(part, head, least)
        part = part[part]  # as far as those that are named have come
        changed = not np.array_equal(part, before)
    return part
