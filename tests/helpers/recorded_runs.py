"""Small recorded runs for tests."""

import numpy as np

from pipesim.core.recorded_run import KINDS, POINT_TO_POINT, ClockQuality, RecordedRun, RunLayout, in_order


def run_of(*steps, layout=None, numbers=None):
    """A run from the rows (rank, kind, stage, microbatch, match, start, end) of each step, steps numbered from 1."""
    rows = [(step, *row) for step, rows in enumerate(steps) for row in rows]
    step, rank, kind, stage, microbatch, match, start, end = (
        np.array([KINDS.index(cell) if isinstance(cell, str) else cell for cell in column], np.int64)
        for column in (zip(*rows, strict=True) if rows else [()] * 8)
    )
    shifted = np.where(match >= 0, match + step * (match.max(initial=0) + 1), -1)  # each step has matches of its own
    order = in_order(step, rank, start, end, kind, stage, microbatch)
    count = int(rank.max(initial=0)) + 1
    layout = layout or RunLayout(count)
    peer = np.full(len(step), -1)
    for number in set(shifted[(shifted >= 0) & np.isin(kind, POINT_TO_POINT)].tolist()):
        ends = np.flatnonzero(shifted == number)
        if len(ends) == 2:
            peer[ends] = rank[ends[::-1]]
    return RecordedRun(
        source="made up",
        layout=layout,
        steps=numbers or tuple(range(1, len(steps) + 1)),
        ranks=tuple(range(count)),
        replica=np.arange(count) // layout.pp,
        position=np.arange(count) % layout.pp,
        names=("collective",),
        step=step[order], rank=rank[order], kind=kind[order], name=np.zeros(len(step), np.int64), stage=stage[order],
        microbatch=microbatch[order], peer=peer[order], match=shifted[order], start=start[order], end=end[order],
        size=np.full(len(step), np.nan),
        clock=ClockQuality("shared", np.zeros(count, np.int64), np.full(count, np.nan)),
    )  # fmt: skip


def pipelined(layout, microbatches, steps, forwards=None):
    """A run under 1F1B (GPipe with several chunks) with sends, receives, a reduction of gradients and an optimizer.

    `forwards`: ms of each stage, 10 + its number if not given; backwards take twice as long.
    """
    lengths = forwards or [10 + stage for stage in range(layout.stages)]
    rows = [_pipelined_step(layout, microbatches, 1 + 0.1 * step, lengths) for step in range(steps)]
    return run_of(*rows, layout=layout)


def _pipelined_step(layout, microbatches, slower, forwards):
    """Rows of a step: forwards of so many ms and backwards of twice that, messages of 2 ms."""
    ms = 1_000_000
    rows, match = [], 0
    ends = np.zeros((layout.dp, layout.pp), np.int64)
    for replica in range(layout.dp):
        order = [_order(layout, microbatches, position) for position in range(layout.pp)]
        made, free, at = {}, [0] * layout.pp, [0] * layout.pp
        while any(at[p] < len(order[p]) for p in range(layout.pp)):
            p = min((p for p in range(layout.pp) if _ready(order[p], at[p], made, layout)), key=lambda p: free[p])
            kind, stage, microbatch = order[p][at[p]]
            rank = replica * layout.pp + p
            begin = free[p]
            before = stage - 1 if kind == "forward" else stage + 1
            if (kind, before, microbatch) in made:
                tensor = "activation" if kind == "forward" else "gradient"
                sender, ready = made[kind, before, microbatch]
                sender = replica * layout.pp + sender
                if sender != rank:
                    arrived = max(ready, begin) + 2 * ms
                    rows += [
                        (sender, f"send_{tensor}", before, microbatch, match, ready, ready + 2 * ms),
                        (rank, f"receive_{tensor}", stage, microbatch, match, begin, arrived),
                    ]
                    match, begin = match + 1, arrived
            length = int(forwards[stage] * (1 if kind == "forward" else 2) * slower * ms)
            rows.append((rank, kind, stage, microbatch, -1, begin, begin + length))
            made[kind, stage, microbatch] = (p, begin + length)
            free[p], at[p] = begin + length, at[p] + 1
        ends[replica] = free
    for position in range(layout.pp):
        last = int(ends[:, position].max())
        for replica in range(layout.dp):
            rank = replica * layout.pp + position
            if layout.dp > 1:
                rows.append((rank, "collective", -1, -1, match, int(ends[replica, position]) + 3 * ms, last + 9 * ms))
            rows.append((rank, "optimizer", -1, -1, -1, last + 9 * ms, last + 14 * ms))
        match += layout.dp > 1
    return rows


def _order(layout, microbatches, position):
    """The computations of a rank: 1F1B, or with several chunks all forwards and then all backwards."""
    if layout.vpp == 1:
        warm = min(layout.pp - position, microbatches)
        kinds = ["forward"] * warm + ["backward", "forward"] * (microbatches - warm) + ["backward"] * warm
        count = {"forward": 0, "backward": 0}
        order = []
        for kind in kinds:
            order.append((kind, position, count[kind]))
            count[kind] += 1
        return order
    stages = [chunk * layout.pp + position for chunk in range(layout.vpp)]
    groups = [range(first, min(first + layout.pp, microbatches)) for first in range(0, microbatches, layout.pp)]
    forwards = [("forward", stage, m) for group in groups for stage in stages for m in group]
    backwards = [("backward", stage, m) for group in groups for stage in reversed(stages) for m in group]
    return forwards + backwards


def _ready(order, at, made, layout):
    """Whether the input of the next computation of a rank has been made."""
    if at == len(order):
        return False
    kind, stage, microbatch = order[at]
    before = stage - 1 if kind == "forward" else stage + 1
    if kind == "backward" and stage == layout.stages - 1:
        return ("forward", stage, microbatch) in made
    return not 0 <= before < layout.stages or (kind, before, microbatch) in made
