"""Attribution of work: each kernel, or piece of CPU time, belongs to a call of a layer or has no owner.

    CPU thread   |- layer0 -|- layer1 -|            |-- node of layer1 --|-- node of layer0 --|
    launches      k0    k1    k2                       k3                   k4
    stream             |-k0-|---k1---|--k2--|              |---k3---|-k4-|

A kernel belongs to the call that was running on the launching thread at the time of the launch, whenever it ran. A
node of autograd belongs to the call whose operator has the same sequence number; a node without one, to the node before
it. Without kernels the CPU is the device, and the time inside operators is the work.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Bools, Ints
from pipesim.base.intervals import union
from pipesim.importers.kineto.events import DEVICE, LAUNCH, OP, Events
from pipesim.importers.kineto.layer_ranges import optimizer_ranges
from pipesim.importers.kineto.nesting import NO_OWNER, Owners, inside, outermost, owners
from pipesim.importers.kineto.numbering import NumberedCalls

FORWARD, BACKWARD, AGAIN = range(3)
PHASES = 3
OPTIMIZER, ASIDE = -2, -3


@dataclass(frozen=True, slots=True, eq=False)
class WorkPieces:
    """Pieces of work: when they ran, when they were caused and on which thread (-1 where it is unknown)."""

    start: Ints
    end: Ints
    thread: Ints
    caused: Ints
    on_gpu: bool

    def chosen(self, which: Bools) -> "WorkPieces":
        """Only these pieces."""
        return WorkPieces(self.start[which], self.end[which], self.thread[which], self.caused[which], self.on_gpu)


def launches(events: Events) -> Ints:
    """For each DEVICE row the row that launched it, -1 where there is none."""
    launched, device = events.of(LAUNCH), events.of(DEVICE)
    order = np.argsort(events.correlation[launched], kind="stable")
    ids = events.correlation[launched][order]
    wanted = events.correlation[device]
    place = np.minimum(np.searchsorted(ids, wanted), max(len(ids) - 1, 0))
    if not len(ids):
        return np.full(len(device), NO_OWNER, np.int64)
    return np.where((wanted >= 0) & (ids[place] == wanted), launched[order][place], NO_OWNER)


def all_work(events: Events, owner: Owners) -> WorkPieces:
    """All work but communication: kernels where there are any, else operators, cut where the owner changes."""
    device = events.of(DEVICE)
    if not len(device):
        return _cpu_work(events, owner)
    silent = ~events.communicates[device]
    by, rows = launches(events)[silent], device[silent]
    thread = np.where(by >= 0, events.thread[by], NO_OWNER)
    caused = np.where(by >= 0, events.start[by], events.start[rows])
    return WorkPieces(events.start[rows], events.end[rows], thread, caused, on_gpu=True)


def _cpu_work(events: Events, owner: Owners) -> WorkPieces:
    """Time inside operators, thread by thread, in pieces that have one owner each."""
    rows = np.flatnonzero((events.category == OP) & ~events.communicates)
    rows = rows[outermost(events.thread[rows], events.start[rows], events.end[rows])]
    pieces = []
    for thread in np.unique(events.thread[rows]).tolist():
        mine = rows[events.thread[rows] == thread]
        start, end = union(events.start[mine], events.end[mine])
        cuts = owner.threads[thread][0] if thread in owner.threads else start
        edges = np.unique(np.concatenate([start, end, cuts]))
        busy = np.searchsorted(start, edges[:-1], side="right") - 1
        inside_ = (busy >= 0) & (edges[:-1] < end[np.maximum(busy, 0)])
        pieces.append((edges[:-1][inside_], edges[1:][inside_], np.full(int(inside_.sum()), thread)))
    if not pieces:
        pieces = [(np.zeros(0, np.int64),) * 3]
    start, end, thread = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return WorkPieces(start, end, thread, start, on_gpu=False)


def caused_work(events: Events, *, without: Bools | None = None) -> NDArray[np.float64]:
    """The work that each row causes: the kernels launched within it; without kernels, its own duration.

    Communication kernels do not count, since they wait for others. Nor do rows in `without`.
    """
    if not len(events.of(DEVICE)):
        return (events.end - events.start).astype(np.float64)
    by, device = launches(events), events.of(DEVICE)
    lasting = (events.end - events.start)[device]
    known = (by >= 0) & ~events.communicates[device]
    if without is not None:
        known &= ~without[device]
    found = np.zeros(len(events))
    order = np.lexsort((events.start[by[known]], events.thread[by[known]]))
    thread, time = events.thread[by[known]][order], events.start[by[known]][order]
    total = np.append(0, np.cumsum(lasting[known][order]))
    for number in np.unique(thread).tolist():
        first, last = np.searchsorted(thread, [number, number + 1])
        rows = np.flatnonzero(events.thread == number)
        a, b = (first + np.searchsorted(time[first:last], edge[rows]) for edge in (events.start, events.end))
        found[rows] = total[b] - total[a]
    return found


# --- labels ----------------------------------------------------------------------------------------------------------


def labels(events: Events, numbered: NumberedCalls, nodes: Ints, steps: Ints, aside: Ints | None = None) -> Owners:
    """The owner of each instant of each thread: call * PHASES + phase, OPTIMIZER, or none.

    Rows in `aside` are operators that only move or create data.
    """
    calls = numbered.calls
    thread = events.thread[calls.row]
    forward = np.arange(len(calls.row)) * PHASES + np.where(numbered.again, AGAIN, FORWARD)
    made = owners(thread, calls.start, calls.end, forward)
    of = _calls_of_nodes(events, nodes, made, steps)
    backward = np.where(of >= 0, of * PHASES + BACKWARD, NO_OWNER)
    stepping, aside = optimizer_ranges(events), np.zeros(0, np.int64) if aside is None else aside
    others = np.concatenate([nodes, stepping, aside])
    return owners(
        np.append(thread, events.thread[others]),
        np.append(calls.start, events.start[others]),
        np.append(calls.end, events.end[others]),
        np.concatenate([forward, backward, np.full(len(stepping), OPTIMIZER), np.full(len(aside), ASIDE)]),
    )


def _calls_of_nodes(events: Events, nodes: Ints, made: Owners, steps: Ints) -> Ints:
    """For each node the call whose operator created it, or -1.

    Operators that ran before the next node was created share a sequence number; the last of them created it. A node
    whose operator was not recorded belongs to the call of the operator with the next lower number of its iteration.
    """
    sequence, start, call = _numbered_operators(events, nodes, made)
    found = np.full(len(nodes), -1, np.int64)
    first = np.searchsorted(sequence, events.sequence[nodes], side="left").tolist()
    last = np.searchsorted(sequence, events.sequence[nodes], side="right").tolist()
    since = np.append(0, steps)[np.searchsorted(steps, events.start[nodes], side="right")].tolist()
    columns = zip(events.sequence[nodes].tolist(), events.start[nodes].tolist(), events.thread[nodes], strict=True)
    starts, before, lane = start.tolist(), -1, -1
    for at, (number, time, thread) in enumerate(columns):
        if thread != lane:
            before, lane = -1, thread
        if number >= 0:
            place = bisect_left(starts, time, first[at], last[at]) - 1
            is_there = place >= first[at] or (place >= 0 and since[at] <= starts[place] < time)
            before = int(call[place]) if is_there else -1
        found[at] = before
    return found


def _numbered_operators(events: Events, nodes: Ints, made: Owners) -> tuple[Ints, Ints, Ints]:
    """Operators that can have created a node, sorted by sequence number, then time: (number, start, call)."""
    rows = np.setdiff1d(np.flatnonzero((events.category == OP) & (events.sequence >= 0)), nodes)
    label = made.at(events.thread[rows], events.start[rows])
    around = events.thread[nodes], events.start[nodes], events.end[nodes]
    kept = (label >= 0) | (inside(events.thread[rows], events.start[rows], around) < 0)
    rows, call = rows[kept], np.where(label >= 0, label // PHASES, -1)[kept]
    order = np.lexsort((events.start[rows], events.sequence[rows]))
    return events.sequence[rows][order], events.start[rows][order], call[order]
