"""One iteration of a recorded pipelined run: the actions of each rank with start and end, on one clock.

    action      0F2 on rank 0 from 1200 ns to 1900 ns: stage, kind and microbatch as in a schedule
    shift       nanoseconds added to the clock of a rank, because clocks of different machines differ
    trace       the times of the layers of the stages, from all recorded iterations
    stops       for each stage, the first layer after it

Clocks are corrected by causality: no action starts before the one whose output it reads has ended. Between two ranks
that send each other activations and gradients, this bounds the difference of their clocks from both sides, as in NTP.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError
from pipesim.core.schedule import FORWARD, LETTERS, WEIGHT, Action
from pipesim.core.trace import Trace

Clocks = Literal["auto", "recorded", "aligned"]

CLOCKS: tuple[Clocks, ...] = ("auto", "recorded", "aligned")


@dataclass(frozen=True, eq=False)
class Recording:
    """Actions in columns, rank after rank, each rank's in order of their start. Valid if it exists."""

    source: str
    ranks: tuple[int, ...]  # as numbered by the run
    rank: Ints  # per action, a position in `ranks`
    stage: Ints
    kind: Ints
    microbatch: Ints
    start: Ints  # ns
    end: Ints
    cut_bytes: Floats  # per boundary between two stages, bytes of a microbatch's activations; NaN where not known
    step: Ints  # per rank, ns of the whole iteration; 0 where not known
    trace: Trace
    stops: tuple[int, ...]
    shift: Ints
    doubt: Ints  # per rank, the possible remaining error of its clock in ns

    def __post_init__(self) -> None:
        if not len(self.stage):
            raise InputError("no actions were recorded")
        missing = np.setdiff1d(np.arange(int(self.stage.max()) + 1), self.stage)
        if len(missing):
            raise InputError(
                f"stage {missing[0]} has no actions, others up to {self.stage.max()} have; the files of all ranks of "
                "one pipeline were expected"
            )
        if not len(self.stops) == len(self.cut_bytes) + 1 == self.stages:
            raise InputError(
                f"{self.stages} stages found, and layers of {len(self.stops)}; a forward of every stage was expected"
            )
        backwards = self.end < self.start
        if backwards.any():
            at = int(np.argmax(backwards))
            raise InputError(f"{self.action(at)} ends {self.start[at] - self.end[at]} ns before it starts")
        code = np.stack([self.stage, self.kind, self.microbatch])
        _, first, count = np.unique(code, axis=1, return_index=True, return_counts=True)
        if (count > 1).any():
            at = int(first[np.argmax(count > 1)])
            where = [f"rank {self.ranks[r]}" for r in self.rank[(code == code[:, [at]]).all(axis=0)].tolist()]
            raise InputError(
                f"{self.action(at)} was recorded {len(where)} times, on {' and '.join(where[:4])}; each once was "
                "expected: the ranks of one pipeline, without its data-parallel copies"
            )

    def action(self, row: int) -> Action:
        """An action as it is written."""
        return Action(int(self.stage[row]), int(self.kind[row]), int(self.microbatch[row]))

    @property
    def stages(self) -> int:
        """How many stages the run had."""
        return int(self.stage.max()) + 1

    @property
    def microbatches(self) -> int:
        """How many microbatches the iteration had."""
        return int(self.microbatch.max()) + 1

    def rank_of(self, stage: int, microbatch: int) -> int:
        """The position of the rank that ran the forward of this microbatch, -1 where none did."""
        rows = np.flatnonzero((self.stage == stage) & (self.kind == FORWARD) & (self.microbatch == microbatch))
        return int(self.rank[rows[0]]) if len(rows) else -1


def dependencies(recording: Recording) -> list[tuple[int, int]]:
    """Pairs of actions of which the second reads the output of the first, forward and backward between stages."""
    row = {recording.action(at): at for at in range(len(recording.stage))}
    found = []
    for action, at in row.items():
        step = 1 if action.kind == FORWARD else -1
        if action.kind == WEIGHT:
            continue
        kinds = [FORWARD] if step == 1 else [kind for kind in range(len(LETTERS)) if kind not in {FORWARD, WEIGHT}]
        for kind in kinds:
            reader = row.get(Action(action.stage + step, kind, action.microbatch))
            if reader is not None:
                found.append((at, reader))
    return found


def on_one_clock(recording: Recording, clocks: Clocks = "auto") -> Recording:
    """The recording with corrected clocks.

    `recorded` keeps the clocks. `aligned` sets each to the middle of its possible range relative to a rank that it
    communicates with, from rank to rank. `auto` does so only for ranks with an impossible clock. Afterwards the first
    action starts at 0.
    """
    check_one_of("clocks", clocks, CLOCKS)
    count = len(recording.ranks)
    shift, doubt = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if clocks != "recorded":
        _set_clocks(_latest(recording), shift, doubt, always=clocks == "aligned")
    start, end = recording.start + shift[recording.rank], recording.end + shift[recording.rank]
    first = int(start.min())
    return replace(recording, start=start - first, end=end - first, shift=shift, doubt=doubt)


def _latest(recording: Recording) -> dict[tuple[int, int], int]:
    """(rank a, rank b) -> the most by which the clock of a can be advanced relative to b, so that no output is late."""
    most: dict[tuple[int, int], int] = {}
    for made, read in dependencies(recording):
        a, b = int(recording.rank[made]), int(recording.rank[read])
        slack = int(recording.start[read] - recording.end[made])
        if a != b:
            most[a, b] = min(most.get((a, b), slack), slack)
    return most


def _set_clocks(most: dict[tuple[int, int], int], shift: Ints, doubt: Ints, *, always: bool) -> None:
    """Set the clocks of each connected part, from its first rank to neighbours of ranks that are set."""
    beside: dict[int, list[int]] = defaultdict(list)
    for a, b in sorted(most):
        beside[a].append(b)
        beside[b].append(a)
    done: set[int] = set()
    for root in range(len(shift)):
        queue = [] if root in done else [root]
        done.update(queue)
        while queue:
            a = queue.pop(0)
            for b in sorted(set(beside[a]) - done):
                ahead, off = _difference(most.get((a, b)), most.get((b, a)), always=always)
                shift[b], doubt[b] = shift[a] - ahead, doubt[a] + off
                done.add(b)
                queue.append(b)


def _difference(most: int | None, back: int | None, *, always: bool) -> tuple[int, int]:
    """The advance of clock a relative to b, at most `most` and at least -`back`; and half of that range."""
    least = None if back is None else -back
    possible = (most is None or most >= 0) and (least is None or least <= 0)
    off = 0 if most is None or least is None else max(most - least, 0) // 2
    if possible and (not always or most is None or least is None):
        return 0, off
    if most is None or least is None:
        return next(bound for bound in (most, least) if bound is not None), off
    return (most + least) // 2, off
