"""What a scenario and other jobs do to devices and links: how fast each is at any time."""

import math
from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

from oracle.rounding import DERIVED, NS_PER_S, ULP, Refused, Rounding
from oracle.routes import Roads


class Window(NamedTuple):
    """A factor on a speed from one nanosecond on, until just before another (None: for ever)."""

    start: int
    end: int | None
    factor: Fraction

    def holds(self, time: int) -> bool:
        return self.start <= time and (self.end is None or time < self.end)


class Speeds(dict):
    """Windows of each device or medium."""

    def at(self, what: str, time: int) -> Fraction:
        """The product of all windows that are open."""
        return math.prod((window.factor for window in self.get(what, ()) if window.holds(time)), start=Fraction(1))

    def turns(self, which) -> list[int]:
        """When something may change for one of these."""
        windows = [window for what in which for window in self.get(what, ())]
        return sorted({time for window in windows for time in (window.start, window.end) if time is not None})


def of_devices(scenario, roads: Roads) -> Speeds:
    """Slow devices."""
    found = defaultdict(list)
    for slow in scenario.slow:
        if slow.device not in roads.devices:
            raise Refused("device")
        found[slow.device].append(_window(slow.start, slow.end, 1 / Fraction(slow.factor)))
    return Speeds(found)


def of_media(scenario, background: str, roads: Roads) -> Speeds:
    """Degraded links, and the load of others as a CSV with the columns link, time, share."""
    found = defaultdict(list)
    for bad in scenario.degraded:
        ends = [(bad.source, bad.target)] if bad.one_way else [(bad.source, bad.target), (bad.target, bad.source)]
        media = {roads.hop[way][1] for way in ends if way in roads.hop}
        if not media:
            raise Refused("link")
        for medium in media:
            found[medium].append(_window(bad.start, bad.end, Fraction(bad.fraction)))
    loads = defaultdict(list)
    for line in background.split()[1:]:
        link, time, share = line.split(",")
        loads[link].append((float(time), float(share)))
    for link, rows in loads.items():
        ends = [*(time for time, _ in rows[1:]), None]
        for medium in _named(link, roads):
            found[medium] += [
                _window(time, end, 1 - Fraction(share)) for (time, share), end in zip(rows, ends, strict=True)
            ]
    return Speeds(found)


def _named(link: str, roads: Roads) -> set[str]:
    """The media of "a->b", of "a<->b", or the one called so."""
    if link in roads.bandwidth:
        return {link}
    a, b = link.split("<->") if "<->" in link else link.split("->")
    ways = [(a, b), (b, a)] if "<->" in link else [(a, b)]
    return {roads.hop[way][1] for way in ways}


def _window(start: float, end: float | None, factor: Fraction) -> Window:
    """Times as whole nanoseconds."""
    first, last = (None if time is None else round(Fraction(time) * NS_PER_S) for time in (start, end))
    return Window(first, last, factor)


def over_at(work: int, start: int, turns: list[int], speed, rounding: Rounding) -> int:
    """When work of so many nanoseconds at speed 1 is over; `speed` tells the speed at a time."""
    if not work or not turns:
        return start + work
    now, left, steps = Fraction(start), Fraction(work), 0
    for turn in [turn for turn in turns if turn > start]:
        pace = speed(math.floor(now))
        if now + left / pace <= turn:
            break
        left -= (turn - now) * pace
        now, steps = Fraction(turn), steps + 1
    end = now + left / speed(math.floor(now))
    return rounding.up(end, (steps + 1) * DERIVED * ULP * end)
