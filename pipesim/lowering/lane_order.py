"""The order of the tasks on each lane: that of a simulation without contention between transfers.

A free lane starts the ready task with the smallest key; without keys, that which was ready first. Since the simulation
ends, lanes that keep this order cannot deadlock, whatever the transfers take.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

Key = tuple[int, int]


@dataclass(slots=True)
class _Simulation:
    """The state of the simulation: running tasks, and ready tasks of each lane."""

    lane: Sequence[int]
    duration: Sequence[int]
    key: Sequence[Key] | None
    order: list[list[int]]
    waiting: list[list[tuple[Key, int]]]
    free: list[bool]
    ends: list[tuple[int, int]] = field(default_factory=list)  # heap of (time, task)

    def arrive(self, task: int, now: int) -> int:
        """Add a ready task; without a lane it starts. Returns its lane."""
        lane = self.lane[task]
        if lane < 0:
            heapq.heappush(self.ends, (now + self.duration[task], task))
        else:
            heapq.heappush(self.waiting[lane], ((now, task) if self.key is None else self.key[task], task))
        return lane

    def begin(self, lane: int, now: int) -> None:
        """Start the next task of a lane if it is free and a task is ready."""
        if self.free[lane] and self.waiting[lane]:
            self.free[lane] = False
            _, task = heapq.heappop(self.waiting[lane])
            self.order[lane].append(task)
            heapq.heappush(self.ends, (now + self.duration[task], task))


def lane_order(
    lane: Sequence[int], duration: Sequence[int], key: Sequence[Key] | None, needs: Sequence[Sequence[int]], lanes: int
) -> list[list[int]]:
    """Lane -> its tasks; `lane` is -1 for tasks that hold none."""
    readers: list[list[int]] = [[] for _ in needs]
    for task, needed in enumerate(needs):
        for need in needed:
            readers[need].append(task)
    missing = [len(needed) for needed in needs]
    state = _Simulation(lane, duration, key, [[] for _ in range(lanes)], [[] for _ in range(lanes)], [True] * lanes)
    touched = {state.arrive(task, 0) for task, count in enumerate(missing) if not count}
    return _simulated(state, readers, missing, touched)


def _simulated(
    state: _Simulation, readers: Sequence[Sequence[int]], missing: list[int], touched: set[int]
) -> list[list[int]]:
    """At each time, end tasks, then start tasks."""
    now = 0
    while True:
        for lane in sorted(touched - {-1}):
            state.begin(lane, now)
        if not state.ends:
            return state.order
        now, touched = state.ends[0][0], set()
        while state.ends and state.ends[0][0] == now:
            _, task = heapq.heappop(state.ends)
            if state.lane[task] >= 0:
                state.free[state.lane[task]] = True
                touched.add(state.lane[task])
            for reader in readers[task]:
                missing[reader] -= 1
                if not missing[reader]:
                    touched.add(state.arrive(reader, now))
