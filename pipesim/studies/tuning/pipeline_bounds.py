"""Closed forms of one pipeline of a layout: a lower bound of its time, an estimate of it, and the least that it keeps.

    rank r     | head_r |  m x work of its stages  | tail_r |  A_r

    head_r     forwards of one microbatch on the stages before the first one of the rank
    tail_r     backwards of the last microbatch on the stages before it; none where gradients of weights can come last
    T >= head_r + m work_r + tail_r

All members are arrays with one row per rank or stage; what depends on the number of microbatches comes last.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Floats

NS = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Seconds and bytes of each stage for one microbatch, on the kind of device that it is on."""

    forward: Floats
    backward: Floats  # with what is computed again; the lesser of the first and the others
    parameters: Floats
    stash: Floats
    ranks: int  # stage n is on rank n mod so many

    def by_rank(self, values: Floats) -> Floats:
        """The sums of the stages of each rank."""
        found: Floats = values.reshape(-1, self.ranks).sum(axis=0)
        return found

    def bound(self, microbatches: int, *, splits: bool, anywhere: bool) -> float:
        """Seconds that no order of this pipeline's microbatches can beat.

        `splits`: gradients of weights may come last. `anywhere`: the schedule cuts the layers again, so that only
        their sum is known.
        """
        both = self.forward + self.backward
        tasks = 2 * (microbatches + 1) * len(both)
        if anywhere:
            return max(0.0, microbatches * float(both.sum()) / self.ranks - tasks * NS)
        before = [np.cumsum(each)[: self.ranks] - each[: self.ranks] for each in (self.forward, self.backward)]
        work = microbatches * self.by_rank(both)
        return max(0.0, float((before[0] + work + (0 if splits else before[1])).max()) - tasks * NS)

    def least_kept(self, in_flight: Floats) -> Floats:
        """Bytes of activations that each rank keeps at its peak, at least: of so many microbatches of a stage."""
        least: Floats = self.stash.reshape(-1, self.ranks).min(axis=0) * in_flight
        return least


def in_flight(scheduler: str, pipeline: int, chunks: int, microbatches: int) -> Floats:
    """Microbatches of a stage that each rank keeps at its peak, at least."""
    left = np.arange(pipeline, 0, -1, dtype=np.float64)
    if scheduler == "gpipe":
        return np.full(pipeline, float(microbatches))
    if scheduler == "interleaved":
        return np.minimum(2 * (left - 1) + (chunks - 1) * pipeline + 1, chunks * microbatches)
    if scheduler in {"one_f_one_b", "zb_h1"}:
        return np.minimum(left, microbatches)
    return np.ones(pipeline)


_PRECISE = 1e-4  # relative, of the seconds of the slowest stage


def balanced(
    seconds: Sequence[Sequence[float]], held: Sequence[Sequence[float]], room: Sequence[float], stages: int
) -> list[int] | None:
    """Numbers of cuts at which stages begin and end, so that the slowest is fastest and none holds more than its room.

    For each rank, `seconds` and `held` have what precedes each cut; stage n is on rank n mod their number. None if
    there are no such cuts, or none with which each stage takes all that it can.
    """
    ranks = len(seconds)

    def within(slowest: float) -> list[int] | None:
        """Each stage takes as much as it can, and leaves one part for each stage after it."""
        cuts, last = [0], len(seconds[0]) - 1
        for n in range(stages):
            time, bytes_, first = seconds[n % ranks], held[n % ranks], cuts[-1]
            end = min(bisect_right(time, time[first] + slowest) - 1, last - (stages - 1 - n))
            if bytes_[end] - bytes_[first] > room[n % ranks]:
                end = bisect_right(bytes_, bytes_[first] + room[n % ranks]) - 1
            if end <= first:
                return None
            cuts.append(end)
        return cuts if cuts[-1] == last else None

    low, high = 0.0, 2 * max(each[-1] for each in seconds)
    found = within(high)
    low = min(each[-1] for each in seconds) / stages * (1 - _PRECISE)
    while found is not None and high - low > _PRECISE * low:
        middle = (low + high) / 2 if high < 2 * low else min(2 * low, (low + high) / 2)
        cuts = within(middle)
        low, high, found = (middle, high, found) if cuts is None else (low, middle, cuts)
    return found
