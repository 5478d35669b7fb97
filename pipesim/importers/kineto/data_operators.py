"""Operators that move or create data before and after the model, and are not layers.

operators   to to rand | conv relu to conv linear | item
layers                   conv relu to conv linear           `to` between operators that compute is part of the model
"""

import re

import numpy as np

from pipesim.base.arrays import Bools, Ints
from pipesim.importers.kineto.events import DEVICE, RANGE, Events
from pipesim.importers.kineto.layer_ranges import Calls
from pipesim.importers.kineto.nesting import outermost
from pipesim.importers.kineto.work_pieces import caused_work

# Moves between host and device or between types; new tensors, empty or filled; other views of the same data.
_MOVES = re.compile(
    r"aten::(_?to|_to_copy|_?copy_?|clone|contiguous|detach_?|alias|_?pin_memory|lift_fresh|item|_local_scalar_dense"
    r"|(new_)?(empty|zeros|ones|full|rand|randn|randint|randperm|arange|linspace|eye|tensor)(_like|_strided)?"
    r"|scalar_tensor|zero_|fill_|uniform_|normal_|random_"
    r"|view|_unsafe_view|reshape|flatten|t|transpose|permute|expand(_as)?|slice|select|narrow|unbind|split|chunk"
    r"|squeeze|unsqueeze|as_strided)"
)


def computing(events: Events, rows: Ints) -> Bools:
    """Which of these operators do more than move or create data."""
    named = np.array([_MOVES.fullmatch(name) is not None for name in events.names], bool)[events.name[rows]]
    if not len(events.of(DEVICE)):
        return ~named
    copies = events.named("Memcpy", "Memset", "memcpy", "memset") & (events.category == DEVICE)
    return ~named & (caused_work(events, without=copies)[rows] > 0)


def is_data_movement(events: Events, calls: Calls, steps: tuple[Ints, Ints]) -> Bools:
    """Which calls are before the first or after the last call of their iteration that computes."""
    step = np.searchsorted(steps[0], calls.start, side="right") - 1
    computes = computing(events, calls.row)
    outside = np.zeros(len(calls.row), bool)
    for number in np.unique(step[computes]).tolist():
        first, last = np.flatnonzero(computes & (step == number))[[0, -1]]
        outside |= (step == number) & ((np.arange(len(step)) < first) | (np.arange(len(step)) > last))
    return outside


def repeated_ranges(events: Events, calls: Calls) -> tuple[Ints, Ints] | None:
    """Iterations, if there are ranges that call the same operators and together all that compute; else None.

    A benchmark may run its model in one range for the warm-up and in another for the measurement. An iteration lasts
    until the next one begins, with the backward after its range.
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
