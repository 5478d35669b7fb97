"""Clocks of ranks, set per step by causality: no receive ends before its send begins.

    rank a   |send____|                    the clock of a may be ahead of b's by at most end - start of this message,
    rank b        |receive__|              and by the messages from b to a it may be behind by at most as much

Where nothing was sent, a computation begins after the one whose output it reads has ended. The members of a collective
all begin before any of them ends. Clocks are set along the tree of pairs with the least doubt, each to the middle of
what is possible, as in NTP.
"""

import heapq
from collections import defaultdict

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.core.recorded_run import (
    BACKWARD,
    COLLECTIVE,
    FORWARD,
    INPUT,
    POINT_TO_POINT,
    SENDS,
    Clock,
    ClockQuality,
)
from pipesim.importers.operations.communication_matching import group_numbers
from pipesim.importers.operations.operation_columns import PlacedOperations, RunFacts

_UNBOUNDED = 2**61
_NOTICED = 100_000  # ns; less than that can be rounding of a record's times
_STEPS_FOR_DRIFT = 3


def aligned_clocks(
    found: PlacedOperations, match: Ints, shape: tuple[int, int], facts: RunFacts
) -> tuple[Ints, ClockQuality, tuple[str, ...]]:
    """What to add to the times of each step and rank, how good the clocks are then, and what was done.

    The shape is the number of steps and of ranks.
    """
    inputs, messages = _inputs(found), _messages(found, match)
    # Whether clocks are impossible is decided by computations: a profiler's ranges of sends and receives are less sure.
    cause, effect, slack = inputs if len(inputs[0]) else messages
    early, worst = int((slack < 0).sum()), max(-int(slack.min(initial=0)), 0)
    shift, doubt = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    if facts.clocks == "recorded" or (facts.clocks == "auto" and not facts.separate_clocks and worst < _NOTICED):
        kind: Clock = "separate" if facts.separate_clocks else "shared"
        return shift, ClockQuality(kind, doubt[0], np.full(shape[1], np.nan), early, worst), ()
    cause, effect, slack = (
        np.concatenate(columns) for columns in zip(inputs, messages, _members(found, match), strict=True)
    )
    apart = found.rank[cause] != found.rank[effect]
    cause, effect, slack = cause[apart], effect[apart], slack[apart]
    most = _least_by_pair(found.step[cause], found.rank[cause], found.rank[effect], slack, shape[0])
    connected = _set_clocks(most, shift, doubt, always=facts.separate_clocks or facts.clocks == "aligned")
    drift = _drift(found, shift)
    quality = ClockQuality("aligned", np.median(doubt, axis=0).astype(np.int64), drift, early, worst)
    notes = [f"clocks of ranks set per step by what waits for what, to {_text(doubt)}"]
    if connected < shape[1]:
        notes.append(f"clocks of {shape[1] - connected} ranks as recorded: nothing connects them with the first")
    return shift, quality, tuple(notes)


def _text(doubt: Ints) -> str:
    return (
        f"{units.to_s(float(np.median(doubt))) * 1e3:.3g} ms (median; at most {units.to_s(doubt.max()) * 1e3:.3g} ms)"
    )


# --- what bounds differences of clocks ------------------------------------------------------------------------------


def _messages(found: PlacedOperations, match: Ints) -> tuple[Ints, Ints, Ints]:
    """(send, receive, how long after the start of the send the receive ended)."""
    rows = np.flatnonzero((match >= 0) & np.isin(found.kind, POINT_TO_POINT))
    rows = rows[np.lexsort((~np.isin(found.kind[rows], SENDS), match[rows]))]
    pairs = np.flatnonzero(np.diff(match[rows]) == 0)
    send, receive = rows[pairs], rows[pairs + 1]
    return send, receive, found.end[receive] - found.start[send]


def _inputs(found: PlacedOperations) -> tuple[Ints, Ints, Ints]:
    """(computation, one of the next stage that reads its output, how long after its end that one began)."""
    pairs = []
    for kinds, way in (((FORWARD,), 1), ((BACKWARD, INPUT), -1)):
        rows = np.flatnonzero(np.isin(found.kind, kinds))
        both = np.concatenate([rows, rows])
        reads = np.repeat([0, 1], len(rows))
        producer = np.concatenate([found.stage[rows], found.stage[rows] - way])
        number = group_numbers(
            [producer, found.microbatch[both], found.member[both], found.replica[both], found.step[both]]
        )
        order = np.lexsort((reads, number))
        next_reads = np.flatnonzero((np.diff(number[order]) == 0) & (np.diff(reads[order]) == 1))
        pairs.append((both[order[next_reads]], both[order[next_reads + 1]]))
    made, read = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    return made, read, found.start[read] - found.end[made]


def _members(found: PlacedOperations, match: Ints) -> tuple[Ints, Ints, Ints]:
    """As messages, in both directions between neighbours among the members of a collective."""
    rows = np.flatnonzero((match >= 0) & (found.kind == COLLECTIVE))
    rows = rows[np.argsort(match[rows], kind="stable")]
    pairs = np.flatnonzero(np.diff(match[rows]) == 0)
    one, other = rows[pairs], rows[pairs + 1]
    cause, effect = np.concatenate([one, other]), np.concatenate([other, one])
    return cause, effect, found.end[effect] - found.start[cause]


def _least_by_pair(step: Ints, a: Ints, b: Ints, slack: Ints, steps: int) -> dict[tuple[int, int], Ints]:
    """(rank a, rank b) -> per step the most by which the clock of a can be advanced relative to b."""
    number = group_numbers([a, b])
    count = int(number.max(initial=-1)) + 1
    least = np.full((count, steps), _UNBOUNDED)
    np.minimum.at(least, (number, step), slack)
    _, first = np.unique(number, return_index=True)
    return {(int(a[row]), int(b[row])): least[at] for at, row in enumerate(first.tolist())}


# --- setting ---------------------------------------------------------------------------------------------------------


def _set_clocks(most: dict[tuple[int, int], Ints], shift: Ints, doubt: Ints, *, always: bool) -> int:
    """Set the clocks of all ranks that are connected with the first; how many these are.

    Ranks are added in order of doubt: the tree has the pairs between which clocks are known best.
    """
    beside: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for a, b in sorted(most):
        there, back = most[a, b], most.get((b, a))
        weight = float(_UNBOUNDED) if back is None else float(np.median(np.maximum(there + back, 0)))
        beside[a].append((weight, b))
        beside[b].append((weight, a))
    queue, done = [(0.0, 0, 0)], set[int]()
    none = np.full(len(shift), _UNBOUNDED)
    while queue:
        _, a, b = heapq.heappop(queue)
        if b in done:
            continue
        if a != b:
            ahead, off = _difference(most.get((a, b), none), most.get((b, a), none), always=always)
            shift[:, b], doubt[:, b] = shift[:, a] - ahead, doubt[:, a] + off
        done.add(b)
        for weight, other in beside[b]:
            heapq.heappush(queue, (weight, b, other))
    return len(done)


def _difference(most: Ints, back: Ints, *, always: bool) -> tuple[Ints, Ints]:
    """Per step the advance of clock a relative to b, at most `most` and at least -`back`; and half of that range."""
    bounded, bounded_back = most < _UNBOUNDED, back < _UNBOUNDED
    both = bounded & bounded_back
    off = np.where(both, np.maximum(most + back, 0) // 2, 0)
    only = np.where(bounded, most, np.where(bounded_back, -back, 0))
    ahead = np.where(both, (most - back) // 2, only)
    possible = (most >= 0) & (back >= 0)
    return np.where(possible & (~both if always else np.ones_like(both)), 0, ahead), off


def _drift(found: PlacedOperations, shift: Ints) -> Floats:
    """Per rank by how much its clock is faster than that of the first, from the shifts of steps that follow each other.

    NaN where each step counts from a time of its own.
    """
    begin, last = np.full(shift.shape, np.iinfo(np.int64).max), np.zeros(shift.shape, np.int64)
    np.minimum.at(begin, (found.step, found.rank), found.start)
    np.maximum.at(last, (found.step, found.rank), found.start)
    drift: Floats = np.full(shift.shape[1], np.nan)
    known = (begin < np.iinfo(np.int64).max).all(axis=0)
    follows = known & (len(shift) >= _STEPS_FOR_DRIFT) & (begin[1:] >= last[:-1]).all(axis=0)
    for at in np.flatnonzero(follows).tolist():
        seconds = (begin[:, at] - begin[0, at]).astype(np.float64)
        drift[at] = -np.polyfit(seconds, (shift[:, at] - shift[:, 0]).astype(np.float64), 1)[0]
    return drift
