"""What leaves islands, at the least, as channels and all-reduces are added to plans, and the time that takes.

Behind the columns of `Heads` a row of partial plans has for each island g

sent[g, t]   least seconds for which all-reduces that start after late[t] T keep its links busy, as a part of what is
             left of T then
begun[g, w]  when all that leaves it one way can have left it, if something does; what follows all of it is counted
             with it where w < HERE
idle[g, w]   0 where nothing does, else infinite
"""

from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.heads import Heads, last_forward_end
from pipesim.analysis.bounds.tails import Tail
from pipesim.analysis.bounds.transition import AHEAD, ANY, BACK, HERE, WAYS, ChannelStep, StageStep, crossing
from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing, inlined

SENT = len(Heads._fields)  # the first column of islands


class Columns(NamedTuple):
    """Where a row has what leaves islands."""

    parts: int  # parts of T after which all-reduces are counted
    begun: int
    idle: int


class Crossings(NamedTuple):
    """What leaves islands with the channels behind a layer."""

    loads: Floats  # [move, island, way]
    to: Ints  # [move, island] -> island at the place
    cut: float  # bytes
    target: float
    columns: Columns


class Rings(NamedTuple):
    """What leaves islands with the all-reduce of a stage."""

    load: Floats  # [place, island]: seconds per byte of parameters
    to: Ints  # [place, island] -> island in the state
    late: Floats  # [t]: parts of T
    weights: Floats  # [t]: bytes of an all-reduce, over the part of T that is left when it starts
    target: float
    columns: Columns


@inlined
@borrowing
def islands_crossed(  # noqa: PLR0917 - the letters of a step
    table: Floats, r: int, label: Floats, heads: Heads, step: ChannelStep, tail: Tail, crossings: Crossings, m: int
) -> bool:  # fmt: skip
    """Add to the row what leaves islands over the channel of move m; whether no island is busy for too long."""
    parts, begun, idle = crossings.columns
    after_forward = step.delay + step.backward_min + tail.least  # what follows a message that goes ahead here
    before_backward = step.delay + step.forward + tail.seconds  # and what is before one that comes back
    for g in range(crossings.to.shape[1]):
        to = crossings.to[m, g]
        for w in range(WAYS):
            leaves = crossing(crossings.loads, m, g, w, crossings.cut)
            then, quiet = table[r, begun + g * WAYS + w] + leaves, table[r, idle + g * WAYS + w]
            if leaves > 0:
                since = heads.head if w == AHEAD else heads.backward_head if w == BACK else heads.forward_head
                then, quiet = min(then, since + leaves + quiet), np.inf
                rest = after_forward if w == AHEAD else before_backward if w == BACK else 0.0
                if then + rest > crossings.target:  # B31 AHEAD, B32 BACK
                    then = np.inf
            if min(then, quiet) > crossings.target:  # B31 to B34
                return False
            label[begun + to * WAYS + w], label[idle + to * WAYS + w] = then, quiet
        for t in range(parts):
            label[SENT + to * parts + t] = table[r, SENT + g * parts + t]
    return True


@inlined
@borrowing
def islands_reduced(  # noqa: PLR0917 - the letters of a step
    table: Floats, r: int, label: Floats, heads: Heads, step: StageStep, tail: Tail, rings: Rings, p: int
) -> bool:  # fmt: skip
    """Add to the row what leaves islands with the all-reduce of a stage; whether no island is busy for too long."""
    parts, begun, idle = rings.columns
    starts, last = heads.forward_head + heads.spread, last_forward_end(heads, step)
    over = max(starts + step.work, starts + step.ends + tail.seconds, last + tail.least + step.backward)  # B24, 25, 27
    for t in range(parts):
        starts_late = step.weights > 0 and over >= rings.late[t] * rings.target
        rings.weights[t] = step.weights / (1 - rings.late[t]) if starts_late else 0.0  # B35
    for g in range(rings.to.shape[1]):
        to, load = rings.to[p, g], rings.load[p, g]
        for t in range(parts):
            sent = table[r, SENT + g * parts + t] + load * rings.weights[t]
            if sent > rings.target:  # B35
                return False
            label[SENT + to * parts + t] = sent
        for w in range(WAYS):
            then, quiet = table[r, begun + g * WAYS + w], table[r, idle + g * WAYS + w]
            if w == HERE and then + step.both + tail.least + step.reduce > rings.target:  # B33
                then = np.inf
            if w == ANY and load * step.weights > 0:  # B34
                then, quiet = min(then, heads.forward_head + quiet) + load * step.weights, np.inf
            if min(then, quiet) > rings.target:  # B31 to B34
                return False
            label[begun + to * WAYS + w], label[idle + to * WAYS + w] = then, quiet
    return True
