"""Operators that are no layers although no other called them: what moves or makes data before and behind the model.

operators   to to rand | conv relu to conv linear | item
layers                   conv relu to conv linear           between operators that compute a move is part of the way
"""

import re

import numpy as np

from pipesim.base.arrays import Bools, Ints
from pipesim.importers.kineto.events import DEVICE, RANGE, Events
from pipesim.importers.kineto.layer_ranges import Calls
from pipesim.importers.kineto.nesting import outermost
from pipesim.importers.kineto.work_pieces import weights

# Moves between host and device or from type to type; new tensors, empty or filled; other views of the same data.
_MOVES = re.compile(
    r"aten::(_?to|_to_copy|_?copy_?|clone|contiguous|detach_?|alias|_?pin_memory|lift_fresh|item|_local_scalar_dense"
    r"|(new_)?(empty|zeros|ones|full|rand|randn|randint|randperm|arange|linspace|eye|tensor)(_like|_strided)?"
    r"|scalar_tensor|zero_|fill_|uniform_|normal_|random_"
    r"|view|_unsafe_view|reshape|flatten|t|transpose|permute|expand(_as)?|slice|select|narrow|unbind|split|chunk"
    r"|squeeze|unsqueeze|as_strided)"
)


def computing(events: Events, rows: Ints) -> Bools:
    """Which of these operators do more than to move or to make data."""
    named = np.array([_MOVES.fullmatch(name) is not None for name in events.names], bool)[events.name[rows]]
    if not len(events.of(DEVICE)):
        return ~named
    copies = events.named("Memcpy", "Memset", "memcpy", "memset") & (events.category == DEVICE)
    return ~named & (weights(events, without=copies)[rows] > 0)


def at_the_ends(events: Events, calls: Calls, steps: tuple[Ints, Ints]) -> Bools:
    """Calls before the first and behind the last one of their iteration that computes."""
    step = np.searchsorted(steps[0], calls.start, side="right") - 1
    computes = computing(events, calls.row)
    aside = np.zeros(len(calls.row), bool)
    for number in np.unique(step[computes]).tolist():
        first, last = np.flatnonzero(computes & (step == number))[[0, -1]]
        aside |= (step == number) & ((np.arange(len(step)) < first) | (np.arange(len(step)) > last))
    return aside


def repeats(events: Events, calls: Calls) -> tuple[Ints, Ints] | None:
    """Iterations, where ranges all call the same operators, and together all that compute; else None.

    As in a benchmark that runs its model within a range for the warm-up and another one for the measurement. An
    iteration lasts until the next one begins, with the backward behind its range.
    """
    calls = calls.chosen(computing(events, calls.row))
    rows = events.of(RANGE)
    if len(calls.row) < 2 or len(np.unique(events.thread[calls.row])) > 1:
        return None
    rows = rows[events.thread[rows] == events.thread[calls.row[0]]]
    first, last = (np.searchsorted(calls.start, edge[rows]) for edge in (events.start, events.end))
    many = last - first
    for count in sorted({n for n in many.tolist() if n > 1 and len(calls.row) % n == 0}, reverse=True):
        mine = rows[many == count]
        mine = mine[outermost(events.thread[mine], events.start[mine], events.end[mine])]
        names = {calls.names[at : at + count] for at in range(0, len(calls.row), count)}
        if 1 < len(mine) == len(calls.row) // count and len(names) == 1:
            return events.start[mine], np.append(events.start[mine][1:], events.end.max() + 1)
    return None
