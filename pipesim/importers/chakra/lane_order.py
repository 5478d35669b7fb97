"""In which order lanes run their tasks: that in which they would if no transfer were in another's way.

A lane that is free takes, of its tasks that are ready, the one of the smallest key. The order comes from a run that
came to its end, so that no two lanes can wait for each other, whatever the transfers will take.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

Key = tuple[int, int]


@dataclass(slots=True)
class _Play:
    """The state of the run: what is under way, and what is ready on each lane."""

    lane: Sequence[int]
    duration: Sequence[int]
    key: Sequence[Key]
    order: list[list[int]]
    waiting: list[list[tuple[Key, int]]]
    free: list[bool]
    ends: list[tuple[int, int]] = field(default_factory=list)  # heap of (time, task)

    def arrive(self, task: int, now: int) -> int:
        """A task is ready: one without a lane starts. Returns its lane."""
        lane = self.lane[task]
        if lane < 0:
            heapq.heappush(self.ends, (now + self.duration[task], task))
        else:
            heapq.heappush(self.waiting[lane], (self.key[task], task))
        return lane

    def begin(self, lane: int, now: int) -> None:
        """A lane takes its next task, where it is free and there is one."""
        if self.free[lane] and self.waiting[lane]:
            self.free[lane] = False
            _, task = heapq.heappop(self.waiting[lane])
            self.order[lane].append(task)
            heapq.heappush(self.ends, (now + self.duration[task], task))


def lane_order(
    lane: Sequence[int], duration: Sequence[int], key: Sequence[Key], needs: Sequence[Sequence[int]], lanes: int
) -> list[list[int]]:
    """Lane -> its tasks; `lane` is -1 for tasks that hold none."""
    readers: list[list[int]] = [[] for _ in needs]
    for task, needed in enumerate(needs):
        for need in needed:
            readers[need].append(task)
    missing = [len(needed) for needed in needs]
    play = _Play(lane, duration, key, [[] for _ in range(lanes)], [[] for _ in range(lanes)], [True] * lanes)
    touched = {play.arrive(task, 0) for task, count in enumerate(missing) if not count}
    return _played(play, readers, missing, touched)


def _played(play: _Play, readers: Sequence[Sequence[int]], missing: list[int], touched: set[int]) -> list[list[int]]:
    """Time after time: all that ends, then what can begin."""
    now = 0
    while True:
        for lane in sorted(touched - {-1}):
            play.begin(lane, now)
        if not play.ends:
            return play.order
        now, touched = play.ends[0][0], set()
        while play.ends and play.ends[0][0] == now:
            _, task = heapq.heappop(play.ends)
            if play.lane[task] >= 0:
                play.free[play.lane[task]] = True
                touched.add(play.lane[task])
            for reader in readers[task]:
                missing[reader] -= 1
                if not missing[reader]:
                    touched.add(play.arrive(reader, now))
