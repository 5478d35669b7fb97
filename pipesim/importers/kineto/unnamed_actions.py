"""Actions of pipelined runs whose profiles have no ranges for them, as of PyTorch's Schedule1F1B.

operators   | F F F | send | recv | F F F | B B B B | send |      outermost ones, of all threads in order of time
segments    |-------|      |      |-----------------|             between sends, receives, iterations and optimizer

With one stage on each of several ranks, every action is between two messages, but for a backward of the last stage,
which follows its forward. The nodes of the autograd graph in a segment are a backward. Their sequence numbers are those
of the operators of its forward: of the segments with such operators the one that has most of these numbers. Forwards
are numbered in an iteration (without ranges for iterations: until a step of the optimizer), backwards as their forward.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipesim.base.arrays import Bools, Ints
from pipesim.importers.kineto.events import COMMUNICATION, NODE_PREFIX, OP, RANGE, Events
from pipesim.importers.kineto.layer_ranges import iterations
from pipesim.importers.kineto.nesting import outermost

_OPTIMIZER = ("Optimizer.step", "Optimizer.zero_grad")


@dataclass(frozen=True, slots=True)
class _Backward:
    """The nodes of a backward, and the operators of its forward (rows of the events), which ends at its message."""

    nodes: Ints
    forward: Ints
    forward_end: int


def with_ranges(events: Events, pattern: str) -> Events:
    """The events with a range for each action that is found, named as those of GPipe; the same if none is."""
    found = list(_backwards(events, pattern)) if len(_messages(events)) else []
    if not found:
        return events
    rounds = _rounds(events, pattern)
    begins = np.array([events.start[one.forward[0]] for one in found])
    place = np.searchsorted(rounds, begins, side="right")
    rows, names = list[tuple[int, int, int]](), list[str]()
    for number in np.unique(place):
        mine = np.flatnonzero(place == number)
        for microbatch, at in enumerate(mine[np.argsort(begins[mine], kind="stable")].tolist()):
            one = found[at]
            ends = (
                ("Forward", one.forward, one.forward_end),
                ("Backward", one.nodes, int(events.end[one.nodes].max())),
            )
            for kind, held, end in ends:
                rows.append((int(events.thread[held[0]]), int(events.start[held[0]]), end))
                names.append(f"{kind} {microbatch}")
    return _inserted(events, rows, names)


def _backwards(events: Events, pattern: str) -> Iterator[_Backward]:
    """Every backward whose forward is in the profile too."""
    rows, is_node = _operators(events)
    separators = _separators(events, pattern)
    segment = np.searchsorted(separators, events.start[rows], side="right")
    sequence = events.sequence[rows]
    ends = np.unique([*separators, *events.start[rows[is_node]], events.end.max()])  # of forwards
    forwards = np.flatnonzero(~is_node & (sequence >= 0))
    taken = np.zeros(len(rows), bool)
    for number in np.unique(segment[is_node]):
        nodes = np.flatnonzero(is_node & (segment == number))
        known = sequence[nodes][sequence[nodes] >= 0]
        if not len(known):
            continue
        mine = forwards[(sequence[forwards] >= known.min()) & (sequence[forwards] <= known.max())]
        mine = mine[~taken[mine] & (events.start[rows[mine]] < events.start[rows[nodes[0]]])]
        if not len(mine):
            continue
        pairs = np.unique(np.stack([segment[mine], sequence[mine]]), axis=1)
        held, numbers = np.unique(pairs[0], return_counts=True)
        chosen = mine[segment[mine] == held[np.argmax(numbers)]]
        taken[chosen] = True
        first = chosen[np.flatnonzero(sequence[chosen] == sequence[chosen[0]])[-1]]  # those before made no node
        last = int(events.end[rows[chosen]].max())
        yield _Backward(rows[nodes], rows[chosen[chosen >= first]], int(ends[np.searchsorted(ends, last)]))


def _operators(events: Events) -> tuple[Ints, Bools]:
    """The outermost operators but for communication, in order of time; which of them are nodes of the graph."""
    rows = events.of(OP)
    rows = rows[outermost(events.thread[rows], events.start[rows], events.end[rows])]
    rows = rows[~events.communicates[rows]]
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    return rows, events.named(NODE_PREFIX)[rows]


def _messages(events: Events) -> Ints:
    """When sends, receives and collectives are posted."""
    return np.asarray(events.start[(events.category == OP) & events.named(*COMMUNICATION)])


def _separators(events: Events, pattern: str) -> Ints:
    """When messages are posted, iterations begin, and the optimizer works."""
    steps = (events.category == RANGE) & events.named(*_OPTIMIZER)
    begins, ends = iterations(events, pattern)
    return np.unique(np.concatenate([_messages(events), events.start[steps], events.end[steps], begins, ends]))


def _rounds(events: Events, pattern: str) -> Ints:
    """When the numbers of microbatches begin again."""
    begins = iterations(events, pattern)[0]
    if len(begins) > 1:
        return begins
    return np.sort(events.end[(events.category == RANGE) & events.named(_OPTIMIZER[0])])


def _inserted(events: Events, rows: Sequence[tuple[int, int, int]], names: Sequence[str]) -> Events:
    """The events with these ranges (thread, start, end), in their order."""
    added = np.array(rows, np.int64).T
    known = tuple(dict.fromkeys(names))
    name = np.array([len(events.names) + known.index(one) for one in names], np.int64)
    none = np.full(len(rows), -1, np.int64)
    new = {
        "category": np.full(len(rows), RANGE), "name": name, "thread": added[0], "start": added[1], "end": added[2],
        "correlation": none, "sequence": none, "size": none,
    }  # fmt: skip
    columns = {column: np.concatenate([getattr(events, column), values]) for column, values in new.items()}
    is_new = np.arange(len(columns["start"])) >= len(events)
    order = np.lexsort((~is_new, -columns["end"], columns["start"], columns["thread"]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ordered: dict[str, Any] = {column: values[order] for column, values in columns.items()}
    details = {int(place[row]): about for row, about in events.details.items()}
    return replace(events, names=(*events.names, *known), details=details, **ordered)
