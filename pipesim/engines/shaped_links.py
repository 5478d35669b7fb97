"""Fair links of which some are shaped by token buckets, on SimPy.

    capacity     the peak while the bucket holds a nanosecond's worth of tokens, else the rate at which it fills
    tokens       full at first; what flows take more than that rate empties it, what they take less fills it

Rates are computed again when a bucket is empty, and of all buckets that flows join to a change when they change. That a
bucket has filled again changes no rate by itself: only flows that are below the rate let it fill.
"""

import math
from collections.abc import Iterable

from simpy import Environment
from simpy.events import Event

from pipesim.core.program import Bucket, Program
from pipesim.engines.fair_links import FairLinks
from pipesim.engines.link_manager import Done

NEVER = -1
ROUNDING = 1e-9  # a load that is above the rate by no more is equal to it: rates of flows are added up


class _State:
    """A bucket while a program runs."""

    __slots__ = ("bucket", "empties", "load", "since", "speed", "tokens")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.tokens = bucket.size  # at the time `since`
        self.since = 0
        self.load = 0.0  # bytes per ns of all flows, from then on
        self.speed = 1.0  # the part of its bandwidth that the link has
        self.empties = NEVER  # when, at this load

    @property
    def rate(self) -> float:
        return self.bucket.rate * self.speed

    def bring_to(self, now: int) -> None:
        self.tokens = min(self.bucket.size, max(0.0, self.tokens + (self.rate - self.load) * (now - self.since)))
        self.since = now

    @property
    def is_open(self) -> bool:
        return self.tokens >= self.rate


class ShapedLinks(FairLinks):
    """Links that flows share fairly, and whose capacity may depend on what has passed."""

    def __init__(self, env: Environment, program: Program, start: list[int], done: Done) -> None:
        super().__init__(env, program, start, done)
        self.buckets = {medium: _State(bucket) for medium, bucket in program.buckets.items()}
        self.changed: set[int] = set()  # media where something changed since rates were last computed

    def _flow(self, task: int) -> None:
        self.rate[task] = 0.0
        for medium in self.route[task]:
            self.crossing[medium].add(task)
        self.changed.update(self.route[task])

    def _touch(self, media: Iterable[int]) -> None:
        self.changed.update(media)
        if not self.rating:
            self._rate_soon()

    def _change_speed(self, event: Event) -> None:
        medium: int = event._value  # noqa: SLF001 - the medium, given in `FairLinks.__init__`
        if medium in self.buckets:
            now = int(self.env._now)  # noqa: SLF001 - as in LinkManager
            self.buckets[medium].bring_to(now)
            self.buckets[medium].speed = self.program.media_speed(medium, now)
        super()._change_speed(event)

    def _is_empty(self, event: Event) -> None:
        medium: int = event._value  # noqa: SLF001 - the medium, given in `_close`
        state = self.buckets[medium]
        if state.empties == int(self.env._now):  # noqa: SLF001 - as above; else a change of rates came before
            state.empties, state.tokens, state.since = NEVER, 0.0, state.empties
            self._touch((medium,))

    def _rate(self, _: Event) -> None:
        """Compute the rates of all flows that are joined to a change."""
        self.rating = False
        now = int(self.env._now)  # noqa: SLF001 - as above
        joined, media = self._joined()
        shaped = [(medium, self.buckets[medium]) for medium in media if medium in self.buckets]
        for medium, state in shaped:
            state.bring_to(now)
            full = float(self.program.capacity[medium]) * state.speed
            self.capacity[medium] = full if state.is_open else state.rate
        if joined:
            for task, rate in zip(joined, self._rates_of(joined), strict=True):
                if rate != self.rate[task]:
                    self._set_rate(task, rate, now)
        for medium, state in shaped:
            self._close(medium, state, now)
        self.changed.clear()
        self._set_timer(now)

    def _joined(self) -> tuple[list[int], list[int]]:
        """The flows joined to the changed media through common media, and all media that they cross."""
        flows, seen, stack = set[int](), set(self.changed), list(self.changed)
        while stack:
            fresh = self.crossing[stack.pop()] - flows
            flows |= fresh
            more = {medium for task in fresh for medium in self.route[task]} - seen
            seen |= more
            stack += more
        return sorted(flows), sorted(seen)

    def _close(self, medium: int, state: _State, now: int) -> None:
        """The load of a link has changed: when its bucket is empty now."""
        state.load = 0.0
        for task in sorted(self.crossing[medium]):
            state.load += self.rate[task]
        excess, empties = state.load - state.rate, NEVER
        if state.is_open and excess > ROUNDING * state.rate:
            empties = now + max(1, math.ceil(state.tokens / excess - 1e-6))
        if empties not in {NEVER, state.empties}:
            self._at(empties, self._is_empty, medium)
        state.empties = empties
