"""Of parts of a graph that can be swapped two are kept, and what is between those is what is between all."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.base.interchangeable import Arcs, kept


def both_ways(links):
    """Arcs of links (a, b, bandwidth)."""
    every = [arc for a, b, rate in links for arc in ((a, b, rate), (b, a, rate))]
    source, head, rate = (np.array(column) for column in zip(*every, strict=True))
    return Arcs(source.astype(np.int64), head.astype(np.int64), rate.astype(np.float64))


def star(rates):
    """A hub (vertex 0) with a neighbour at each of these bandwidths."""
    return both_ways([(0, n + 1, rate) for n, rate in enumerate(rates)]), np.zeros(len(rates) + 1, np.int64)


def test_of_equal_neighbours_of_a_hub_two_are_kept():
    assert kept(*star([1.0] * 5)).tolist() == [True, True, True, False, False, False]


def test_neighbours_with_other_bandwidths_or_labels_are_others():
    arcs, label = star([1.0, 1.0, 2.0, 1.0, 1.0])
    assert kept(arcs, label).sum() == 1 + 2 + 1
    label[5] = 7
    assert kept(arcs, label).sum() == 1 + 2 + 1 + 1


def test_parts_of_several_vertices_are_swapped_as_a_whole():
    """Servers 1-2, 3-4, 5-6 and 7-8 on hub 0; the last is joined the other way round."""
    ends = [(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6), (0, 8), (7, 8)]
    here = kept(both_ways([(a, b, 1.0) for a, b in ends]), np.zeros(9, np.int64))
    assert here.tolist() == [True] * 5 + [False] * 2 + [True] * 2  # 7-8 differs in the order of its numbers


@pytest.mark.parametrize("direction", [0, 1])
def test_an_arc_in_one_direction_only_makes_a_part_another(direction):
    arcs, label = star([1.0] * 4)
    gone = np.flatnonzero((arcs.source == 0) == bool(direction))[-1]
    assert kept(Arcs(*(np.delete(column, gone) for column in arcs)), label).sum() == 1 + 2 + 1


@settings(max_examples=200, deadline=None)
@given(
    links=st.dictionaries(
        st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda ends: ends[0] < ends[1]),
        st.sampled_from([1.0, 2.0]),
        min_size=1,
    ),
    label=st.lists(st.integers(0, 1), min_size=9, max_size=9),
)
def test_hops_and_bandwidths_between_labels_are_those_of_the_whole_graph(links, label):
    arcs = both_ways([(a, b, rate) for (a, b), rate in links.items()])
    here = kept(arcs, np.array(label))
    for from_label, to_label in itertools.product(range(2), repeat=2):
        whole = between(arcs, label, np.ones(9, bool), from_label, to_label)
        assert between(arcs, label, here, from_label, to_label) == whole


def between(arcs, label, here, from_label, to_label):
    """The different (hops, bandwidth) of fewest-hops, then widest routes between vertices of these labels."""
    ahead = {n: [] for n in range(9)}
    for a, b, rate in zip(*(column.tolist() for column in arcs), strict=True):
        if here[a] and here[b]:
            ahead[a].append((b, rate))
    found = set()
    for source in (n for n in range(9) if here[n] and label[n] == from_label):
        level, seen, hops = {source: np.inf}, {source}, 0
        while level:
            found |= {(hops, rate) for n, rate in level.items() if label[n] == to_label and n != source}
            further = {}
            for vertex, width in level.items():
                for other, rate in ahead[vertex]:
                    if other not in seen:
                        further[other] = max(further.get(other, 0.0), min(width, rate))
            seen |= set(further)
            level, hops = further, hops + 1
    return found
