"""Links that flows share at max-min fair rates, on SimPy; `engines.sharing_rules.fair` states the rule."""

import heapq
import itertools
from collections.abc import Callable, Iterable

from simpy import Environment
from simpy.events import Event, EventPriority, Timeout

from pipesim.base import units
from pipesim.core import limits
from pipesim.core.program import Program
from pipesim.engines.link_manager import LOW, NORMAL, Done, LinkManager, routes_of
from pipesim.engines.max_min import max_min

PER_CHANGE = 250  # bytes for each change of a rate on SimPy: a tuple of three numbers, and its row in the columns


class FairLinks(LinkManager):
    """Links that flows share fairly. One timer is set to the earliest end."""

    def __init__(self, env: Environment, program: Program, start: list[int], done: Done) -> None:
        super().__init__(env, program, start, done)
        self.route = routes_of(program)
        self.alike = _weights_of(program)
        self.delay: list[int] = program.delay.tolist()
        self.limit: list[float] = program.limit.tolist()
        self.capacity: list[float] = program.capacity.tolist()
        self.left: list[float] = program.used.tolist()  # bytes to go
        self.rate: dict[int, float] = {}  # of the flows under way
        self.since: dict[int, int] = {}  # when `left` was right
        self.finish: dict[int, int] = {}
        self.crossing: list[set[int]] = [set() for _ in program.media]
        self.ends: list[tuple[int, int]] = []  # heap of (finish, task); entries that are outdated are skipped
        self.timer = -1
        self.touched: set[int] = set()  # media where something changed since rates were last computed
        self.begun: list[int] = []  # flows that have begun since then, on media that no other crossed
        self.rating = False
        self.log: list[tuple[int, int, float]] = []
        self.most_changes = limits.most_changes(PER_CHANGE)
        for medium, speeds in program.media_speeds.items():
            for time in speeds.times:
                self._at(time, self._change_speed, medium)

    def request(self, task: int) -> None:
        """Wait for the delay, then flow."""
        self.start[task] = int(self.env._now)  # noqa: SLF001 - as in LinkManager
        if self.delay[task] or not self.left[task] or not self.route[task]:
            Timeout(self.env, self.delay[task], task).callbacks.append(self._join)
        else:
            self._flow(task)
            if not self.rating:
                self._rate_soon()

    def _join(self, event: Event) -> None:
        task: int = event._value  # noqa: SLF001 - the task, given in `request`
        if not self.left[task] or not self.route[task]:
            self.done(task)
            return
        self._flow(task)
        if not self.rating:
            if self.env.peek() > self.env._now:  # noqa: SLF001 - as above; nothing else happens now
                self._rate(event)
            else:
                self._rate_soon()

    def _flow(self, task: int) -> None:
        self.rate[task] = 0.0
        alone, crossing = True, self.crossing
        for medium in self.route[task]:
            flows = crossing[medium]
            if flows:
                alone = False
                self.touched.add(medium)
            flows.add(task)
        if alone:
            self.begun.append(task)

    def _change_speed(self, event: Event) -> None:
        medium: int = event._value  # noqa: SLF001 - the medium, given in `__init__`
        speed = self.program.media_speed(medium, int(self.env._now))  # noqa: SLF001 - as above
        self.capacity[medium] = float(self.program.capacity[medium]) * speed
        self._touch((medium,))

    def _touch(self, media: Iterable[int]) -> None:
        """Something has changed on these media; that matters where flows cross them."""
        used = [medium for medium in media if self.crossing[medium]]
        if used:
            self.touched.update(used)
            if not self.rating:
                self._rate_soon()

    def _rate_soon(self) -> None:
        """Compute rates when all that happens now has happened."""
        self.rating = True
        self._at(int(self.env._now), self._rate, None, LOW)  # noqa: SLF001 - as above

    def _at(self, time: int, call: Callable[[Event], None], value: object, priority: EventPriority = NORMAL) -> None:
        event = Event(self.env)
        event._ok, event._value = True, value  # noqa: SLF001 - triggered by hand, to be scheduled with its priority
        event.callbacks.append(call)
        self.env.schedule(event, priority, time - int(self.env._now))  # noqa: SLF001 - as above

    def _rate(self, _: Event) -> None:
        """Compute the rates of the changed flows: of those that are alone, and of the others together."""
        self.rating = False
        now = int(self.env._now)  # noqa: SLF001 - as above
        if self.touched:
            rates = self._changed_rates()
            for task in sorted(rates):
                if rates[task] != self.rate[task]:
                    self._set_rate(task, rates[task], now)
        else:  # then every flow that has begun is alone
            for task in sorted(self.begun):
                self._set_rate(task, self._rate_alone(task), now)
        self.touched.clear()
        self.begun.clear()
        self._set_timer(now)

    def _changed_rates(self) -> dict[int, float]:
        rates, shared, crossing = dict[int, float](), list[int](), self.crossing
        for task in set[int](self.begun).union(*[crossing[medium] for medium in self.touched]):
            for medium in self.route[task]:
                if len(crossing[medium]) > 1:
                    shared.append(task)
                    break
            else:
                rates[task] = self._rate_alone(task)
        if shared:
            joined = self._component(shared)
            rates.update(zip(joined, self._rates_of(joined), strict=True))
        return rates

    def _component(self, shared: list[int]) -> list[int]:
        """The flows joined to these through common media, by task index."""
        flows, seen, stack = set(shared), set[int](), shared
        while stack:
            fresh = [medium for medium in self.route[stack.pop()] if medium not in seen]
            seen.update(fresh)
            for medium in fresh:
                more = self.crossing[medium] - flows
                flows |= more
                stack += more
        return sorted(flows)

    def _rate_alone(self, task: int) -> float:
        """As `_rates_of`, for the most frequent case."""
        route, capacity = self.route[task], self.capacity
        if task in self.alike:
            return min(
                self.limit[task], *[capacity[medium] / n for medium, n in zip(route, self.alike[task], strict=True)]
            )
        rate = self.limit[task]
        for medium in route:
            if capacity[medium] < rate:  # noqa: PLR1730 - a call of min takes longer
                rate = capacity[medium]
        return rate

    def _rates_of(self, flows: list[int]) -> list[float]:
        media = sorted({medium for task in flows for medium in self.route[task]})
        number = {medium: i for i, medium in enumerate(media)}
        first, crossed, weight = [0], list[int](), list[int]()
        for task in flows:
            crossed += [number[medium] for medium in self.route[task]]
            weight += self.alike.get(task, ())
            first.append(len(crossed))
        capacity, limit = [self.capacity[m] for m in media], [self.limit[task] for task in flows]
        return max_min(first, crossed, weight, capacity, limit)

    def _set_rate(self, task: int, rate: float, now: int) -> None:
        if self.rate[task]:
            self.left[task] = max(0.0, self.left[task] - self.rate[task] * (now - self.since[task]))
        self.since[task] = now
        self.rate[task] = rate
        finish = self.finish[task] = now + units.ns_up(self.left[task] / rate)
        if len(self.log) == self.most_changes:
            raise limits.too_many_changes(PER_CHANGE)
        self.log.append((task, now, rate))
        heapq.heappush(self.ends, (finish, task))

    def _set_timer(self, now: int) -> None:
        while self.ends and self.finish.get(self.ends[0][1]) != self.ends[0][0]:
            heapq.heappop(self.ends)
        if self.ends and (self.timer <= now or self.ends[0][0] < self.timer):
            self.timer = self.ends[0][0]
            Timeout(self.env, self.timer - now).callbacks.append(self._depart)

    def _depart(self, _: Event) -> None:
        """End the flows whose time has come; a timer that a later change of rates made outdated finds none."""
        now = int(self.env._now)  # noqa: SLF001 - as above
        while self.ends and self.ends[0][0] <= now:
            finish, task = heapq.heappop(self.ends)
            if self.finish.get(task) == finish:
                del self.finish[task], self.rate[task], self.since[task]
                for medium in self.route[task]:
                    self.crossing[medium].discard(task)
                self._touch(self.route[task])
                self.done(task)
        if not self.rating:
            self._set_timer(now)

    def rates(self) -> list[tuple[int, int, float]]:
        """Changes of rates as (task, time, rate)."""
        return self.log


def _weights_of(program: Program) -> dict[int, list[int]]:
    """Beside each medium of a transfer's route how many that are alike cross it, in a program that is folded."""
    if not len(program.alike):
        return {}
    starts, values = program.route.starts.tolist(), program.alike.tolist()
    return {task: values[a:b] for task, (a, b) in enumerate(itertools.pairwise(starts))}
