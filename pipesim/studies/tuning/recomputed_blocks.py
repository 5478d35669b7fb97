"""How many blocks of each stage are done again, so that every stage fits: no more than its memory needs.

For each rank, tables have what precedes each cut: seconds, bytes, seconds of doing it again, bytes that this frees.

    stage from a to b    bytes(b) - bytes(a) <= room                         nothing is done again
                         else the first blocks, up to the cut k with freed(k) - freed(a) >= what is too much
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

Rows = Sequence[Sequence[float]]
_PRECISE = 1e-4  # relative, of the seconds of the slowest stage


@dataclass(frozen=True, slots=True)
class StageTables:
    """Of each rank, what precedes each cut; `blocks` before each cut; bytes of each rank for a stage, and those that a
    block which is done again brings back.
    """

    seconds: Rows
    held: Rows
    again: Rows
    freed: Rows
    blocks: Sequence[int]
    room: Sequence[float]
    restored: Sequence[float]

    def redone(self, rank: int, start: int, end: int) -> int | None:
        """The cut up to which a stage is done again, its start if nothing is; None if it does not fit even so."""
        held, freed = self.held[rank], self.freed[rank]
        excess = held[end] - held[start] - self.room[rank]
        if excess <= 0:
            return start
        last = bisect_left(freed, freed[start] + excess + self.restored[rank], start, end + 1)
        return None if last > end else last

    def stage_seconds(self, rank: int, start: int, end: int) -> float:
        """Seconds of a stage with what is done again; infinite if it does not fit."""
        last = self.redone(rank, start, end)
        if last is None:
            return inf
        again = self.again[rank]
        return self.seconds[rank][end] - self.seconds[rank][start] + again[last] - again[start]

    def counts(self, cuts: Sequence[int]) -> tuple[int, ...]:
        """Blocks that each stage does again; all of them where it does not fit even so."""
        found = []
        for n, (start, end) in enumerate(pairwise(cuts)):
            last = self.redone(n % len(self.room), start, end)
            found.append(self.blocks[end if last is None else last] - self.blocks[start])
        return tuple(found)

    def again_seconds(self, cuts: Sequence[int], counts: Sequence[int]) -> list[float]:
        """Seconds of each stage for doing so many of its blocks again."""
        ends = [
            min(end, bisect_left(self.blocks, self.blocks[start] + count, start))
            for (start, end), count in zip(pairwise(cuts), counts, strict=True)
        ]
        rows = [self.again[n % len(self.room)] for n in range(len(counts))]
        return [row[end] - row[start] for row, start, end in zip(rows, cuts, ends, strict=False)]

    def balanced(self, stages: int) -> list[int] | None:
        """Cuts so that the slowest stage is fastest, with what it does again to fit; None if no stages fit."""
        low, high = 0.0, 4 * max(each[-1] for each in self.seconds)
        found = self._within(high, stages)
        low = min(each[-1] for each in self.seconds) / stages * (1 - _PRECISE)
        while found is not None and high - low > _PRECISE * low:
            middle = (low + high) / 2 if high < 2 * low else min(2 * low, (low + high) / 2)
            cuts = self._within(middle, stages)
            low, high, found = (middle, high, found) if cuts is None else (low, middle, cuts)
        return found

    def _within(self, slowest: float, stages: int) -> list[int] | None:
        """Each stage takes as much as it can, and leaves one part for each stage after it."""
        cuts, last = [0], len(self.blocks) - 1
        for n in range(stages):
            end = self._farthest(n % len(self.room), cuts[-1], last - (stages - 1 - n), slowest)
            if end is None:
                return None
            cuts.append(end)
        return cuts if cuts[-1] == last else None

    def _farthest(self, rank: int, start: int, most: int, slowest: float) -> int | None:
        """The last end of a stage that takes no longer; its seconds grow with it."""
        low, high = start, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.stage_seconds(rank, start, middle) <= slowest:
                low = middle
            else:
                high = middle - 1
        return low if low > start else None
