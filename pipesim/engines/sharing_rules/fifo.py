"""Sharing rules `fifo` and `channel`: a transfer holds every link of its route; requests are served in order.

Every link has a queue, ordered by (ready time, task). A transfer starts when it is first in all queues of its route and
all those links are free, so that none overtakes another on a link that both use. Under `channel` the links are the
abstract channels between stages, which lowering has put into the program.
"""

from bisect import insort
from typing import NamedTuple

import numpy as np
from simpy import Environment
from simpy.events import Event

from pipesim.base.arrays import Bools, Ints
from pipesim.base.kernels import borrowing, compiled, inlined, unlocked
from pipesim.core.program import Program
from pipesim.core.timeline import Timeline, corrupt, verify_starts
from pipesim.engines.compiled.heap import pop
from pipesim.engines.compiled.resuming import Earlier, restored_state
from pipesim.engines.compiled.simulation_state import (
    ProgramArrays,
    RunTimes,
    SimulationState,
    advance,
    end_task,
    happens_now,
    initial_state,
    start_task,
    without_rates,
)
from pipesim.engines.compiled.sorting import sort_first
from pipesim.engines.link_manager import LOW, Done, LinkManager, routes_of

# --- on SimPy --------------------------------------------------------------------------------------------------------


class QueuedLinks(LinkManager):
    """Links that carry one transfer at a time."""

    def __init__(self, env: Environment, program: Program, start: list[int], done: Done) -> None:
        super().__init__(env, program, start, done)
        self.route = routes_of(program)
        self.queue: list[list[tuple[int, int]]] = [[] for _ in program.media]
        self.taken = [False] * len(program.media)
        self.arrived: list[int] = []
        self.freed: list[int] = []
        self.granting = False
        self.moment = Event(env)  # when links are granted; one event, used again and again
        self.moment._ok, self.moment._value = True, None  # noqa: SLF001 - triggered by hand, for its low priority

    def request(self, task: int) -> None:
        """Join the queue of every link of the route; links are granted when this time's events have been processed."""
        self.arrived.append(task)
        self._grant_soon()

    def end_transfer(self, event: Event) -> None:
        """Free the links."""
        task: int = event._value  # noqa: SLF001 - the task, given in `start_transfer`
        for medium in self.route[task]:
            self.taken[medium] = False
            if self.queue[medium]:
                self.freed.append(medium)
        if self.freed:
            self._grant_soon()
        self.done(task)

    def _grant_soon(self) -> None:
        if not self.granting:
            self.granting = True
            event = self.moment
            event.callbacks = [self._grant]  # an event forgets its callbacks when it has been handled
            self.env.schedule(event, LOW)

    def _grant(self, _: Event) -> None:
        """Two transfers that may start now share no link, so the order in which they are considered does not matter."""
        self.granting = False
        taken, queue = self.taken, self.queue
        waiting = [queue[medium][0][1] for medium in self.freed if queue[medium]]
        self.freed.clear()
        if len(self.arrived) > 1:
            self.arrived.sort()
        for task in self.arrived:
            route = self.route[task]
            for medium in route:
                if taken[medium] or queue[medium]:
                    self._enqueue(task)
                    waiting.append(task)
                    break
            else:  # nothing is ahead of it on any link: the usual case, and no queue is touched
                for medium in route:
                    taken[medium] = True
                self.start_transfer(task)
        self.arrived.clear()
        for task in waiting:
            route = self.route[task]
            if all(not taken[medium] and queue[medium] and queue[medium][0][1] == task for medium in route):
                for medium in route:
                    taken[medium] = True
                    del queue[medium][0]
                self.start_transfer(task)

    def _enqueue(self, task: int) -> None:
        entry = (int(self.env._now), task)  # noqa: SLF001 - as in LinkManager
        for medium in self.route[task]:
            insort(self.queue[medium], entry)


link_manager = QueuedLinks

# --- compiled --------------------------------------------------------------------------------------------------------


class LinkQueues(NamedTuple):
    """The queues of all links. That of link m is entries head[m] to tail[m] - 1; it has room for all that cross m."""

    ready: Ints
    task: Ints
    head: Ints
    tail: Ints
    taken: Bools  # of each link: a transfer holds it
    freed: Ints  # links that became free since links were last granted: the first freed_count[0]
    freed_count: Ints
    candidates: Ints  # room for the transfers that may be first in all their queues


def empty_queues(p: ProgramArrays) -> LinkQueues:
    """No transfer waits, and every link is free."""
    media, crossings = len(p.capacity), len(p.routes.medium)
    place = np.zeros(media + 1, np.int64)
    for m in p.routes.medium:
        place[m + 1] += 1
    for m in range(media):
        place[m + 1] += place[m]
    return LinkQueues(
        np.empty(crossings, np.int64),
        np.empty(crossings, np.int64),
        place[:-1].copy(),
        place[:-1].copy(),
        np.zeros(media, np.bool_),
        np.empty(crossings, np.int64),
        np.zeros(1, np.int64),
        np.empty(len(p.lane) + crossings, np.int64),
    )


@inlined
def free_links(p: ProgramArrays, queues: LinkQueues, task: int) -> None:
    """A transfer has ended; the links that others wait for are noted."""
    for j in range(p.routes.first[task], p.routes.first[task + 1]):
        m = p.routes.medium[j]
        queues.taken[m] = False
        if queues.head[m] < queues.tail[m]:
            queues.freed[queues.freed_count[0]] = m
            queues.freed_count[0] += 1


@inlined
def enqueue(p: ProgramArrays, queues: LinkQueues, task: int, now: int) -> None:
    """Insert (now, task) where it belongs in every queue of its route: nothing in a queue became ready later."""
    for j in range(p.routes.first[task], p.routes.first[task + 1]):
        m = p.routes.medium[j]
        at = queues.tail[m]
        queues.tail[m] += 1
        while at > queues.head[m] and queues.ready[at - 1] == now and queues.task[at - 1] > task:
            queues.ready[at], queues.task[at] = queues.ready[at - 1], queues.task[at - 1]
            at -= 1
        queues.ready[at], queues.task[at] = now, task


@inlined
def finds_all_free(p: ProgramArrays, queues: LinkQueues, task: int) -> bool:
    """Whether no transfer holds or waits for a link of the route."""
    for j in range(p.routes.first[task], p.routes.first[task + 1]):
        m = p.routes.medium[j]
        if queues.taken[m] or queues.head[m] < queues.tail[m]:
            return False
    return True


@inlined
def is_first_everywhere(p: ProgramArrays, queues: LinkQueues, task: int) -> bool:
    """Whether a transfer is first in all queues of its route, and all those links are free."""
    for j in range(p.routes.first[task], p.routes.first[task + 1]):
        m = p.routes.medium[j]
        if queues.taken[m] or queues.head[m] == queues.tail[m] or queues.task[queues.head[m]] != task:
            return False
    return True


@inlined
def grant(p: ProgramArrays, state: SimulationState, queues: LinkQueues) -> None:
    """Start what may start: of those that have just become ready, then of those that wait.

    A transfer that has just become ready may be first in its queues ahead of others of the same time, so it is
    considered with those that wait.
    """
    candidates, count = queues.candidates, 0
    for at in range(queues.freed_count[0]):
        m = queues.freed[at]
        if queues.head[m] < queues.tail[m]:
            candidates[count] = queues.task[queues.head[m]]
            count += 1
    queues.freed_count[0] = 0
    sort_first(state.ready, state.ready_count[0])
    for at in range(state.ready_count[0]):
        t = state.ready[at]
        if finds_all_free(p, queues, t):
            for j in range(p.routes.first[t], p.routes.first[t + 1]):
                queues.taken[p.routes.medium[j]] = True
            start_task(p, state, t)
        else:
            enqueue(p, queues, t, state.now[0])
            candidates[count] = t
            count += 1
    state.ready_count[0] = 0
    for at in range(count):
        t = candidates[at]
        if is_first_everywhere(p, queues, t):
            for j in range(p.routes.first[t], p.routes.first[t + 1]):
                queues.taken[p.routes.medium[j]] = True
                queues.head[p.routes.medium[j]] += 1
            start_task(p, state, t)


@borrowing
def run(p: ProgramArrays, state: SimulationState, queues: LinkQueues) -> None:
    """Run the program from this state."""
    goes_on = True
    while goes_on:
        while happens_now(state):
            task = pop(state.heap) >> 2
            if p.lane[task] < 0:
                free_links(p, queues, task)
            end_task(p, state, task)
        if state.ready_count[0] + queues.freed_count[0] > 0:
            grant(p, state, queues)
        goes_on = advance(state)


@compiled
@unlocked
def event_loop(p: ProgramArrays) -> RunTimes:
    """Run the program from the beginning."""
    state = initial_state(p, len(p.lane) + 1)
    run(p, state, empty_queues(p))
    return without_rates(state)


@compiled
@unlocked
def event_loop_from(p: ProgramArrays, earlier: Earlier) -> RunTimes:
    """Run the program from a moment before which it is the same as an earlier one."""
    state, queues = restored_state(p, earlier, len(p.lane) + 1, False), empty_queues(p)
    for t in range(len(p.lane)):
        if p.lane[t] < 0 and state.start[t] >= 0 and state.end[t] < 0:
            for j in range(p.routes.first[t], p.routes.first[t + 1]):
                queues.taken[p.routes.medium[j]] = True
    for n in range(len(earlier.waiting)):
        enqueue(p, queues, earlier.waiting[n], earlier.ready[n])
    run(p, state, queues)
    return without_rates(state)


# --- verification ----------------------------------------------------------------------------------------------------


def verify(timeline: Timeline) -> None:
    """A link carries one transfer at a time; none overtakes another, none waits without cause."""
    program = timeline.program
    medium, task = program.route.values, program.route.row_of_value()
    # Of those that take no time and pass at once, first what was ready first: their order cannot be observed.
    order = np.lexsort((task, timeline.ready[task], timeline.end[task], timeline.start[task], medium))
    medium, task = medium[order], task[order]
    same = np.append(False, medium[1:] == medium[:-1])[: len(task)]
    previous = np.append(-1, task[:-1])[: len(task)]
    overtaken = same & (timeline.ready[task] < timeline.ready[previous])
    if overtaken.any():
        row = int(np.argmax(overtaken))
        raise corrupt(timeline, int(previous[row]), f"overtakes task {task[row]} on {program.media[medium[row]]}")
    free = np.zeros(len(program), np.int64)
    np.maximum.at(free, task, np.where(same, timeline.end[previous], 0))
    transfers = np.flatnonzero(~program.is_compute)
    verify_starts(timeline, transfers, free[transfers], "all links of its route are free")
