"""Lists of actions from priorities: at every moment each lane takes, of what it could do, what comes first.

    forward or backward    the one with the smaller key, of those that are there; forwards in a stated order if `strict`
    weights' gradients     when there is nothing else to do, and when more than `quota` of them wait
    limits                 no forward beyond `limit` kept microbatches, or beyond `hold` without their backward; no new
                           microbatch beyond `window` under way

The keys of a repeated block - where each action of microbatch 0 is, and how far microbatch 1 comes after it - make
the schedules of a family, see `blocks`.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import compiled
from pipesim.schedulers.abstract_pipeline import AbstractPipeline

FAR = 1 << 40  # more microbatches than there are


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """How a lane chooses. Keys are [stage, microbatch]; the others are [lane]."""

    forward_key: Ints
    backward_key: Ints
    limit: Floats
    hold: Ints
    warm: Ints  # forwards come first while fewer than these are in flight
    quota: Ints
    patience: float = 0.0  # a weights' gradient is begun only if what comes next is this part of it away
    split: bool = False  # gradients of input and weights apart
    strict: bool = True  # forwards in the order of their keys
    window: int = FAR  # microbatches that each first stage has under way
    released: float = 0.0  # the part of what a microbatch keeps that the gradient of its input releases


@dataclass(frozen=True, slots=True, eq=False)
class GreedyOrder:
    """The actions of each lane, and when it was at work. `rows` is None where the limits left no way on."""

    rows: list[Ints] | None
    first: Ints
    last: Ints

    @property
    def makespan(self) -> int:
        """When everything is over."""
        return int(self.last.max())

    @property
    def longest(self) -> int:
        """The longest time from the first to the last action of a lane."""
        return int((self.last - self.first).max())


def rules(pipeline: AbstractPipeline, **given: object) -> Rules:
    """Rules without limits, backwards first, with what is given in their place."""
    shape, lanes = pipeline.slot.shape, np.ones(pipeline.lanes)
    plain: dict[str, object] = {
        "forward_key": np.broadcast_to(np.arange(shape[1]), shape) + 1,
        "backward_key": np.zeros(shape, np.int64),
        "limit": lanes * np.inf,
        "hold": lanes.astype(np.int64) * FAR,
        "warm": lanes.astype(np.int64) * 0,
        "quota": lanes.astype(np.int64) * FAR,
    }
    return Rules(**(plain | given))  # type: ignore[arg-type]  # names and types are those of Rules


def positions(pipeline: AbstractPipeline, forward_key: Ints) -> Ints:
    """[stage, microbatch]: the place of each forward among those of its lane."""
    place, stage = pipeline.place.ravel(), np.repeat(np.arange(pipeline.stages), pipeline.microbatches)
    ordered = np.lexsort((stage, forward_key.ravel(), place))
    begins = np.searchsorted(place[ordered], np.arange(pipeline.lanes))
    found = np.zeros(len(place), np.int64)
    found[ordered] = np.arange(len(place)) - begins[place[ordered]]
    return found.reshape(forward_key.shape)


def greedy_order(pipeline: AbstractPipeline, how: Rules, position: Ints | None = None) -> GreedyOrder:
    """Run the pipeline by these rules; `position` is that of the forwards, known to who fills again and again."""
    often = position is not None
    position = positions(pipeline, how.forward_key) if position is None else position
    kernel = compiled(run) if often or position.size >= MANY else run
    rows, counts, first, last = kernel(
        pipeline.slot, pipeline.lane_of, pipeline.stage_of,
        pipeline.forward, pipeline.input if how.split else pipeline.backward, pipeline.weight,
        pipeline.ahead, pipeline.back,
        pipeline.stash, position,
        how.forward_key, how.backward_key, how.limit, how.hold, how.warm, how.quota,
        how.patience, how.split, how.strict, how.window, how.released,
    )  # fmt: skip
    complete = counts.sum() == position.size * (3 if how.split else 2)
    return GreedyOrder([rows[n, :count] for n, count in enumerate(counts)] if complete else None, first, last)


MANY = 2000  # forwards; from here on the compiled kernel pays for a single run


def run(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one kernel, without calls: numba and Python run the same lines
    slot: Ints, lane_of: Ints, stage_of: Ints, forward: Ints, back_time: Ints, weight: Ints, ahead: Ints, back: Ints,
    stash: Floats, position: Ints, forward_key: Ints, backward_key: Ints,
    limit: Floats, hold: Ints, warm: Ints, quota: Ints,
    patience: float, split: bool, strict: bool, window: int, released: float,  # noqa: FBT001 - kernels take plain values
) -> tuple[Ints, Ints, Ints, Ints]:  # fmt: skip
    """[lane, position, (stage, kind, microbatch)], how many there are on each lane, its first start, its last end.

    Per slot, microbatches wait in two queues, in the order in which they come:

        came_f[slot, i]   when the i-th forward's input is there      -1: not yet known
        came_b[slot, i]   the same for backwards; who[slot, i] is its microbatch

    What is known is when a message will come, from the moment on at which its sender has begun.
    """
    stages, microbatches = slot.shape
    slots, lanes = len(lane_of), len(limit)
    last_stage = stages - 1
    mine = np.zeros((slots, microbatches), np.int64)  # the microbatches of each slot, in order
    mine_count = np.zeros(slots, np.int64)
    index = np.zeros((stages, microbatches), np.int64)
    longest = np.zeros(lanes, np.int64)
    for n in range(stages):
        for m in range(microbatches):
            s = slot[n, m]
            index[n, m] = mine_count[s]
            mine[s, mine_count[s]] = m
            mine_count[s] += 1
            longest[lane_of[s]] += 3 if split else 2
    came_f = np.full((slots, microbatches), -1, np.int64)
    came_b = np.full((slots, microbatches), -1, np.int64)
    who = np.zeros((slots, microbatches), np.int64)
    next_f, head_b, tail_b = np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    waiting = np.zeros((lanes, longest.max() // 2 + 1, 2), np.int64)  # weights' gradients: stage, microbatch
    head_w, tail_w = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
    free, begun, ended = np.zeros(lanes, np.int64), np.full(lanes, -1, np.int64), np.zeros(lanes, np.int64)
    kept, flying = np.zeros(lanes), np.zeros(lanes, np.int64)
    forwards, forwards_done = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
    for s in range(slots):
        forwards[lane_of[s]] += mine_count[s]
        if stage_of[s] == 0:
            came_f[s, : mine_count[s]] = 0
    slot_at = np.argsort(lane_of, kind="mergesort")
    first_slot = np.searchsorted(lane_of[slot_at], np.arange(lanes + 1))
    rows = np.zeros((lanes, longest.max(), 3), np.int64)
    counts = np.zeros(lanes, np.int64)
    events = [(0, lane) for lane in range(lanes)]
    far = 1 << 62
    while len(events) > 0:
        now, lane = heapq.heappop(events)
        if now < free[lane]:
            continue
        best_f, best_b, key_f, key_b, soon = -1, -1, far, far, far
        for at in range(first_slot[lane], first_slot[lane + 1]):
            s = slot_at[at]
            n, i = stage_of[s], next_f[s]
            if (
                i < mine_count[s]
                and came_f[s, i] >= 0
                and (not strict or position[n, mine[s, i]] == forwards_done[lane])
            ):
                fits = kept[lane] + stash[n] <= limit[lane] + 1e-9 and flying[lane] < hold[lane]
                fits = fits and (n > 0 or i - head_b[s] < window)
                if fits and came_f[s, i] <= now:
                    if forward_key[n, mine[s, i]] < key_f:
                        best_f, key_f = s, forward_key[n, mine[s, i]]
                elif fits:
                    soon = min(soon, came_f[s, i])
            j = head_b[s]
            if j < tail_b[s]:
                if came_b[s, j] > now:
                    soon = min(soon, came_b[s, j])
                elif backward_key[n, who[s, j]] < key_b:
                    best_b, key_b = s, backward_key[n, who[s, j]]
        pending = tail_w[lane] - head_w[lane]
        if pending > quota[lane] and forwards_done[lane] < forwards[lane]:
            kind = 3
        elif best_f >= 0 and (best_b < 0 or flying[lane] < warm[lane] or key_f <= key_b):
            kind = 0
        elif best_b >= 0:
            kind = 2 if split else 1
        elif pending > 0:
            n = waiting[lane, head_w[lane], 0]
            if soon - now < patience * weight[n]:
                continue
            kind = 3
        else:
            continue
        if kind == 0:
            n, m = stage_of[best_f], mine[best_f, next_f[best_f]]
            end = now + forward[n]
            next_f[best_f] += 1
            forwards_done[lane] += 1
            flying[lane] += 1
            kept[lane] += stash[n]
            if n < last_stage:
                s = slot[n + 1, m]
                came = end if lane_of[s] == lane else end + ahead[n]
                came_f[s, index[n + 1, m]] = came
            else:
                s = best_f
                came = end
                who[s, tail_b[s]], came_b[s, tail_b[s]] = m, came
                tail_b[s] += 1
            heapq.heappush(events, (max(came, free[lane_of[s]]), lane_of[s]))
        elif kind == 3:
            n, m = waiting[lane, head_w[lane], 0], waiting[lane, head_w[lane], 1]
            head_w[lane] += 1
            end = now + weight[n]
            kept[lane] -= stash[n] * (1 - released)
        else:
            n, m = stage_of[best_b], who[best_b, head_b[best_b]]
            head_b[best_b] += 1
            end = now + back_time[n]
            flying[lane] -= 1
            kept[lane] -= stash[n] * (released if split else 1.0)
            if split:
                waiting[lane, tail_w[lane], 0], waiting[lane, tail_w[lane], 1] = n, m
                tail_w[lane] += 1
            if n > 0:
                s = slot[n - 1, m]
                came = end if lane_of[s] == lane else end + back[n]
                who[s, tail_b[s]], came_b[s, tail_b[s]] = m, came
                tail_b[s] += 1
                heapq.heappush(events, (max(came, free[lane_of[s]]), lane_of[s]))
        rows[lane, counts[lane], 0], rows[lane, counts[lane], 1], rows[lane, counts[lane], 2] = n, kind, m
        counts[lane] += 1
        free[lane] = end
        ended[lane] = end
        if begun[lane] < 0:
            begun[lane] = now
        heapq.heappush(events, (end, lane))
    return rows, counts, np.maximum(begun, 0), ended
