"""Moves by the place that they lead to, as `Moves` has them by the state that they begin in.

Behind most layers few places can still be part of a plan. Going from these back to the states that lead there takes a
small part of the time that going through all moves of the states would take.
"""

from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.moves import Moves
from pipesim.base.arrays import Ints


class Incoming(NamedTuple):
    """Moves to place p, b = p - shift[p]: from `first[b]` to `first[b + 1]`, move[i] from state row[i] + shift[p].

    States that share their moves, and differ in what places are counted from, are in it once. One of them has move m if
    m < stop[state].
    """

    first: Ints  # [b]
    row: Ints  # [i]
    move: Ints  # [i]
    shift: Ints  # [place]


def incoming_of(moves: Moves) -> Incoming:
    """The moves of the states that have most of them, in the order of where they lead."""
    states, most = len(moves.first), int(moves.shift.max(initial=0))
    rows = np.flatnonzero(moves.shift == most)  # no other has a move that these do not have
    counts = moves.stop[rows] - moves.first[rows]
    row = np.repeat(rows - most, counts)
    begin = np.repeat(moves.first[rows] - (np.cumsum(counts) - counts), counts)
    move = (np.arange(len(row)) + begin).astype(np.int64)
    order = np.argsort(moves.place[move], kind="stable")
    places = len(moves.size)
    shift = moves.shift if most else np.zeros(places, np.int64)  # as many places as states in every block
    first = np.searchsorted(moves.place[move[order]], np.arange(places - (most if places == states else 0) + 1))
    return Incoming(first.astype(np.int64), row[order].astype(np.int64), move[order], shift)
