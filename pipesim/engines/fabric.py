"""The network of the SimPy engine: who may use which links, and when each transfer is over.

    request(task) ──> [delay] ──> waiting for links ──> under way ──> done(task)

One callback-driven manager per kind of sharing, in place of a SimPy process and a request per transfer: 3 to 4 times
faster. Rule of time: all that ends at t is finished first (events of normal priority); then, in one event of low
priority, links are granted. What waits is ordered by (ready time, task index), never by the order of insertion.
"""

import heapq
from bisect import insort
from collections.abc import Callable, Iterable
from itertools import pairwise

from simpy import Environment
from simpy.events import Event, EventPriority, Timeout

from pipesim.base import units
from pipesim.base.errors import RefusedError
from pipesim.core import limits
from pipesim.core.program import Program
from pipesim.engines.sharing import max_min

Done = Callable[[int], None]

# SimPy handles events of one time by priority. Links are granted after all that happens at that time.
NORMAL = EventPriority(1)
LOW = EventPriority(2)

PER_CHANGE = 250  # bytes for each change of a rate: a tuple of three numbers, and the columns made of them


class Fabric:
    """A network on which every transfer has its route for itself (sharing `none`)."""

    def __init__(self, env: Environment, program: Program, start: list[int], done: Done) -> None:
        self.env = env
        self.program = program
        self.start = start
        self.done = done
        self.duration: list[int] = program.duration.tolist()
        self.steady = not program.media_speeds

    def request(self, task: int) -> None:
        """A transfer's tensor is there, and whoever must have posted it has."""
        self._begin(task)

    def _begin(self, task: int) -> None:
        """Occupy the route from now until the transfer is over."""
        now = self.env._now  # noqa: SLF001 - SimPy's own clock, an int here; the property costs a call per event
        self.start[task] = now  # type: ignore[assignment]  # all delays are whole, so time is
        lasting = self.duration[task] if self.steady else self.program.finish(task, int(now)) - int(now)
        Timeout(self.env, lasting, task).callbacks.append(self._end)

    def _end(self, event: Event) -> None:
        self.done(event._value)  # noqa: SLF001 - the task, given in `_begin`

    def rates(self) -> list[tuple[int, int, float]]:
        """Changes of rates as (task, time, rate), where rates change."""
        return []


def _routes(program: Program) -> list[tuple[int, ...]]:
    """The media of each task; equal routes are one object, since there are few different ones."""
    starts, values = program.route.starts.tolist(), program.route.values.tolist()
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    routes = (tuple(values[a:b]) for a, b in pairwise(starts))
    return [known.setdefault(route, route) for route in routes]


class Queues(Fabric):
    """Links that carry one transfer at a time (sharing `fifo` and `channel`).

    Every medium has a queue, ordered by (ready, task). A transfer starts when it is first in all queues of its route
    and all those media are free; so none overtakes another on a medium that both use.
    """

    def __init__(self, env: Environment, program: Program, start: list[int], done: Done) -> None:
        super().__init__(env, program, start, done)
        self.route = _routes(program)
        self.queue: list[list[tuple[int, int]]] = [[] for _ in program.media]
        self.taken = [False] * len(program.media)
        self.arrived: list[int] = []
        self.freed: list[int] = []
        self.granting = False
        self.moment = Event(env)  # when links are granted; one event, used again and again
        self.moment._ok, self.moment._value = True, None  # noqa: SLF001 - triggered by hand, for its low priority

    def request(self, task: int) -> None:
        """Line up on every medium of the route; the grant comes when this time's events are over."""
        self.arrived.append(task)
        self._grant_soon()

    def _end(self, event: Event) -> None:
        task: int = event._value  # noqa: SLF001 - the task, given in `_begin`
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
        """Two transfers that may start now share no medium, so it does not matter which is looked at first."""
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
                    self._line_up(task)
                    waiting.append(task)
                    break
            else:  # nobody is before it anywhere: the usual case, and no queue is touched
                for medium in route:
                    taken[medium] = True
                self._begin(task)
        self.arrived.clear()
        for task in waiting:
            route = self.route[task]
            if all(not taken[medium] and queue[medium] and queue[medium][0][1] == task for medium in route):
                for medium in route:
                    taken[medium] = True
                    del queue[medium][0]
                self._begin(task)

    def _line_up(self, task: int) -> None:
        place = (int(self.env._now), task)  # noqa: SLF001 - as above
        for medium in self.route[task]:
            insort(self.queue[medium], place)


class Shares(Fabric):
    """Links that flows share fairly (sharing `fair`), re-rated at every arrival, departure and change of a link.

    Only the flows that are joined to a change through common links are rated anew, and only those whose rate changes
    get a new end. One timer stands at the earliest end.
    """

    def __init__(self, env: Environment, program: Program, start: list[int], done: Done) -> None:
        super().__init__(env, program, start, done)
        self.route = _routes(program)
        self.delay: list[int] = program.delay.tolist()
        self.limit: list[float] = program.limit.tolist()
        self.capacity: list[float] = program.capacity.tolist()
        self.left: list[float] = program.used.tolist()  # bytes to go
        self.rate: dict[int, float] = {}  # of the flows under way
        self.since: dict[int, int] = {}  # when `left` was right
        self.finish: dict[int, int] = {}
        self.crossing: list[set[int]] = [set() for _ in program.media]
        self.ends: list[tuple[int, int]] = []  # heap of (finish, task); entries that are no longer true are skipped
        self.timer = -1
        self.touched: set[int] = set()  # media where something changed since the last rating
        self.rating = False
        self.log: list[tuple[int, int, float]] = []
        self.most_changes = limits.most_changes(PER_CHANGE)
        for medium, speeds in program.media_speeds.items():
            for time in speeds.times:
                self._at(time, self._change_speed, medium)

    def request(self, task: int) -> None:
        """Wait for the delay, then flow."""
        self.start[task] = int(self.env._now)  # noqa: SLF001 - as above
        if self.delay[task] or not self.left[task] or not self.route[task]:
            Timeout(self.env, self.delay[task], task).callbacks.append(self._join)
        else:
            self._flow(task)

    def _join(self, event: Event) -> None:
        task: int = event._value  # noqa: SLF001 - the task, given in `request`
        if self.left[task] and self.route[task]:
            self._flow(task)
        else:
            self.done(task)

    def _flow(self, task: int) -> None:
        self.rate[task] = 0.0
        self.since[task] = int(self.env._now)  # noqa: SLF001 - as above
        for medium in self.route[task]:
            self.crossing[medium].add(task)
        self._rate_soon(self.route[task])

    def _change_speed(self, event: Event) -> None:
        medium: int = event._value  # noqa: SLF001 - the medium, given in `__init__`
        speed = self.program.media_speed(medium, int(self.env._now))  # noqa: SLF001 - as above
        self.capacity[medium] = float(self.program.capacity[medium]) * speed
        self._rate_soon((medium,))

    def _rate_soon(self, media: Iterable[int]) -> None:
        self.touched.update(media)
        if not self.rating:
            self.rating = True
            self._at(int(self.env._now), self._rate, None, LOW)  # noqa: SLF001 - as above

    def _at(self, time: int, call: Callable[[Event], None], value: object, priority: EventPriority = NORMAL) -> None:
        event = Event(self.env)
        event._ok, event._value = True, value  # noqa: SLF001 - triggered by hand, to be scheduled with its priority
        event.callbacks.append(call)
        self.env.schedule(event, priority, time - int(self.env._now))  # noqa: SLF001 - as above

    def _rate(self, _: Event) -> None:
        """Rate the changed component anew."""
        self.rating = False
        now = int(self.env._now)  # noqa: SLF001 - as above
        flows = self._component()
        if flows:
            for task, rate in zip(flows, self._rates_of(flows), strict=True):
                if rate != self.rate[task]:
                    self._set_rate(task, rate, now)
        self._set_timer(now)

    def _component(self) -> list[int]:
        """The flows joined to the touched media through common media, by task index."""
        seen, flows = set(self.touched), set[int]()
        stack = list(self.touched)
        self.touched.clear()
        while stack:
            for task in self.crossing[stack.pop()]:
                if task not in flows:
                    flows.add(task)
                    fresh = [medium for medium in self.route[task] if medium not in seen]
                    seen.update(fresh)
                    stack += fresh
        return sorted(flows)

    def _rates_of(self, flows: list[int]) -> list[float]:
        media = sorted({medium for task in flows for medium in self.route[task]})
        number = {medium: i for i, medium in enumerate(media)}
        first, crossed = [0], list[int]()
        for task in flows:
            crossed += [number[medium] for medium in self.route[task]]
            first.append(len(crossed))
        return max_min(first, crossed, [self.capacity[m] for m in media], [self.limit[task] for task in flows])

    def _set_rate(self, task: int, rate: float, now: int) -> None:
        self.left[task] = max(0.0, self.left[task] - self.rate[task] * (now - self.since[task]))
        self.since[task] = now
        self.rate[task] = rate
        self.finish[task] = now + units.ns_up(self.left[task] / rate)
        if len(self.log) == self.most_changes:
            raise limits.too_many_changes(PER_CHANGE)
        self.log.append((task, now, rate))
        heapq.heappush(self.ends, (self.finish[task], task))

    def _set_timer(self, now: int) -> None:
        while self.ends and self.finish.get(self.ends[0][1]) != self.ends[0][0]:
            heapq.heappop(self.ends)
        if self.ends and (self.timer <= now or self.ends[0][0] < self.timer):
            self.timer = self.ends[0][0]
            self._at(self.timer, self._depart, None)

    def _depart(self, _: Event) -> None:
        """End the flows whose time has come; a timer that a later rating made untrue finds none."""
        now = int(self.env._now)  # noqa: SLF001 - as above
        while self.ends and self.ends[0][0] <= now:
            finish, task = heapq.heappop(self.ends)
            if self.finish.get(task) == finish:
                del self.finish[task], self.rate[task], self.since[task]
                for medium in self.route[task]:
                    self.crossing[medium].discard(task)
                self._rate_soon(self.route[task])
                self.done(task)
        if not self.rating:
            self._set_timer(now)

    def rates(self) -> list[tuple[int, int, float]]:
        """Changes of rates as (task, time, rate)."""
        return self.log


FABRICS: dict[str, type[Fabric]] = {"none": Fabric, "fifo": Queues, "channel": Queues, "fair": Shares}


def fabric_for(program: Program) -> type[Fabric]:
    """The manager for a program's sharing."""
    if program.sharing not in FABRICS:
        raise RefusedError(
            f"the event engine does not know sharing {program.sharing!r}; known are {', '.join(FABRICS)}"
        )
    return FABRICS[program.sharing]
