"""When each action of a rank worked.

    range      |-------------- PP:1F2 --------------|             on the thread that runs the schedule
    GPU           . waits .  |kernel|kernel| |kernel|             action: from its first kernel to the end of its last
    CPU        |- recv ends -|operators ...  send|  |             action: from the last receive in it to the send, or
                                                                          to its end

Kernels that communicate are not part of an action. The time between its kernels is, since the rank is idle then.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.importers.kineto.action_names import NamedAction
from pipesim.importers.kineto.events import GROUP_PREFIXES, OP, RANGE, Events
from pipesim.importers.kineto.layer_ranges import iterations
from pipesim.importers.kineto.nesting import Owners
from pipesim.importers.kineto.work_pieces import all_work


@dataclass(frozen=True, slots=True, eq=False)
class RankActions:
    """The actions of one rank in order of their start."""

    rank: int
    row: Ints  # of the range
    stage: Ints
    kind: Ints
    microbatch: Ints
    iteration: Ints
    start: Ints  # ns, as the events of the file
    end: Ints
    step: Ints  # per iteration, its ns; 0 where iterations were not recorded
    origin: int

    def of(self, iteration: int) -> Ints:
        """The positions of an iteration's actions."""
        return np.flatnonzero(self.iteration == iteration)

    def cells(self, iteration: int) -> tuple[tuple[int, int, int], ...]:
        """The (stage, kind, microbatch) of an iteration's actions, sorted."""
        rows = self.of(iteration)
        columns = (self.stage[rows].tolist(), self.kind[rows].tolist(), self.microbatch[rows].tolist())
        return tuple(sorted(zip(*columns, strict=True)))


def rank_actions(events: Events, rank: int, rows: Ints, named: list[NamedAction], pattern: str) -> RankActions:
    """The actions of one file, from the rows of their ranges."""
    steps = iterations(events, pattern)
    number = np.searchsorted(steps[0], events.start[rows], side="right") - 1
    inside = (number >= 0) & (events.start[rows] < steps[1][np.maximum(number, 0)])
    if not inside.any():
        raise InputError(
            "no action begins inside an iteration; name the ranges of iterations with the option iteration"
        )
    rows, number = rows[inside], number[inside]
    cells = [(one.stage or 0, one.kind, one.microbatch) for one, kept in zip(named, inside, strict=True) if kept]
    alone = len(steps[0]) == 1
    iteration = repeats(cells) if alone else number
    step = np.zeros(int(iteration.max()) + 1, np.int64) if alone else steps[1] - steps[0]
    start, end = at_work(events, rows)
    order = np.lexsort((end, start))
    stage, kind, microbatch = np.array(cells, np.int64)[order].T
    start, end = start[order], end[order]
    start[1:] = np.maximum(
        start[1:], np.maximum.accumulate(end)[:-1]
    )  # one lane: an action that overlaps the one before waits
    return RankActions(
        rank, rows[order], stage, kind, microbatch, iteration[order], start, np.maximum(start, end), step, events.origin
    )


def repeats(cells: list[tuple[int, int, int]]) -> Ints:
    """How many times each action occurred before: its iteration, where iterations have no ranges."""
    seen: dict[tuple[int, int, int], int] = defaultdict(int)
    found = []
    for cell in cells:
        found.append(seen[cell])
        seen[cell] += 1
    return np.array(found, np.int64)


def at_work(events: Events, rows: Ints) -> tuple[Ints, Ints]:
    """The first and the last instant at which each of these ranges works."""
    work = all_work(events, Owners({}))
    order = np.argsort(work.caused, kind="stable")
    caused, start, end = work.caused[order], work.start[order], work.end[order]
    first = np.searchsorted(caused, events.start[rows])
    last = np.searchsorted(caused, events.end[rows])
    if not work.on_gpu:
        return _on_cpu(events, rows, (start, np.maximum.accumulate(end) if len(end) else end), first, last)
    begins, ends = events.start[rows].copy(), events.start[rows].copy()
    for at, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        if b > a:
            begins[at], ends[at] = start[a:b].min(), end[a:b].max()
    return begins, ends


def _on_cpu(
    events: Events, rows: Ints, work: tuple[Ints, Ints], first: Ints, last: Ints
) -> tuple[Ints, Ints]:  # fmt: skip
    """From the end of the last receive (if none is recorded: from the first operator) to the send that follows."""
    begin, end, some = events.start[rows].copy(), events.end[rows].copy(), last > first
    moves = (events.category == RANGE) & events.named(*GROUP_PREFIXES)
    done = np.sort(events.end[moves & events.containing("recv")])
    if len(done):
        latest = np.searchsorted(done, end) - 1
        begin = np.maximum(begin, np.where(latest >= 0, done[np.maximum(latest, 0)], begin))
    else:
        begin[some] = work[0][first[some]]
    sent = np.sort(events.start[(events.category == OP) & events.named("c10d::send", "c10d::isend")])
    ready = np.where(some, work[1][np.maximum(last - 1, 0)], begin) if len(work[1]) else begin
    after = np.searchsorted(sent, ready)
    follows = after < len(sent)
    end[follows] = np.minimum(end, sent[np.minimum(after, len(sent) - 1)])[follows] if len(sent) else end[follows]
    return begin, end
