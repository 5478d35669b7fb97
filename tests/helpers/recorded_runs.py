"""Small recorded runs for tests."""

import numpy as np

from pipesim.core.recorded_run import KINDS, ClockQuality, RecordedRun, RunLayout, in_order


def run_of(*steps, layout=None, numbers=None):
    """A run from the rows (rank, kind, stage, microbatch, match, start, end) of each step, steps numbered from 1."""
    rows = [(step, *row) for step, rows in enumerate(steps) for row in rows]
    step, rank, kind, stage, microbatch, match, start, end = (
        np.array([KINDS.index(cell) if isinstance(cell, str) else cell for cell in column], np.int64)
        for column in (zip(*rows, strict=True) if rows else [()] * 8)
    )
    shifted = np.where(match >= 0, match + step * (match.max(initial=0) + 1), -1)  # each step has matches of its own
    order = in_order(step, rank, start, end)
    count = int(rank.max(initial=0)) + 1
    layout = layout or RunLayout(count)
    none = np.full(len(step), -1)
    return RecordedRun(
        source="made up",
        layout=layout,
        steps=numbers or tuple(range(1, len(steps) + 1)),
        ranks=tuple(range(count)),
        replica=np.arange(count) // layout.pp,
        position=np.arange(count) % layout.pp,
        names=("collective",),
        step=step[order], rank=rank[order], kind=kind[order], name=np.zeros(len(step), np.int64), stage=stage[order],
        microbatch=microbatch[order], peer=none, match=shifted[order], start=start[order], end=end[order],
        size=np.full(len(step), np.nan),
        clock=ClockQuality("shared", np.zeros(count, np.int64), np.full(count, np.nan)),
    )  # fmt: skip
