"""At which rates transfers ran that shared links fairly, and whether these rates were right.

Max-min fairness is checked by its definition, without asking how the rates were found: at every moment each transfer
runs at its own limit, or crosses a link that is full and on which no other runs faster. Where a token bucket shapes a
link, what the bucket holds is added up from the rates: it never holds less than nothing, and a link is full at the rate
of its bucket only when that is empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import CorruptTimelineError
from pipesim.core.program import Program

# Engines add and subtract rates of up to thousands of flows in floating point; anything wrong is off by far more.
SLACK = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Every change of a transfer's rate, in time order: from `time` ns on, `task` runs at `rate` bytes per ns."""

    task: Ints
    time: Ints
    rate: Floats


def flows(program: Program) -> NDArray[np.bool_]:
    """The transfers whose rates change while they run: they last until their rates have carried their bytes."""
    return ~program.is_compute & program.sharing_rule.rated & (program.size > 0) & (program.route.lengths > 0)


def check(program: Program, start: Ints, end: Ints, rates: Rates) -> None:
    """Raise CorruptTimelineError unless rates begin after the delay, carry every transfer's bytes, and are fair."""
    order = np.lexsort((np.arange(len(rates.task)), rates.time, rates.task))
    task, time, rate = rates.task[order], rates.time[order], rates.rate[order]
    _check_begin(program, start, task, time)
    _check_bytes(program, end, task, time, rate)
    _check_shares(program, end, task, time, rate)


def _check_begin(program: Program, start: Ints, task: Ints, time: Ints) -> None:
    begun = np.full(len(program), -1, np.int64)
    begun[task[::-1]] = time[::-1]  # of equal keys the last written stays: the first change of each
    late = flows(program) & (begun != start + program.delay)
    if late.any():
        at = int(np.argmax(late))
        raise _wrong(program, at, f"its rates begin at {begun[at]} ns, which is not the end of its delay")


def _check_bytes(program: Program, end: Ints, task: Ints, time: Ints, rate: Floats) -> None:
    """A completion is rounded up to the next ns: at most one ns at the last rate is carried too much."""
    last = np.append(task[1:] != task[:-1], np.ones(len(task[:1]), bool))
    until = np.where(last, end[task], np.append(time[1:], 0))
    carried = np.bincount(task, rate * (until - time), minlength=len(program))
    load = program.used
    slack = np.bincount(task[last], rate[last], minlength=len(program)) * (1 + SLACK) + 1e-9 * load
    wrong = flows(program) & ((carried < load * (1 - 1e-9) - SLACK * slack) | (carried > load + slack))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise _wrong(program, at, f"its rates carry {carried[at]} bytes; {load[at]} were expected")


def _check_shares(program: Program, end: Ints, task: Ints, time: Ints, rate: Floats) -> None:
    """At every moment at which a rate or a link changes: check the flows on the links that are affected."""
    changed = sorted(zip(time.tolist(), range(len(task)), strict=True))
    ended = sorted({(int(end[t]), t) for t in task.tolist()})
    speed_changes = sorted((t, m) for m, speeds in program.media_speeds.items() for t in speeds.times)
    network = _Network(program)
    at_change = at_end = at_change_of_link = 0
    for now in sorted({when for when, _ in (*changed, *ended, *speed_changes)}):
        touched = set[int]()
        while at_change < len(changed) and changed[at_change][0] == now:
            number = changed[at_change][1]
            touched.update(network.set_rate(int(task[number]), float(rate[number]), now))
            at_change += 1
        while at_end < len(ended) and ended[at_end][0] == now:
            touched.update(network.remove(ended[at_end][1], now))
            at_end += 1
        while at_change_of_link < len(speed_changes) and speed_changes[at_change_of_link][0] == now:
            touched.add(network.change_capacity(speed_changes[at_change_of_link][1], now))
            at_change_of_link += 1
        network.check(touched, now)


class _Network:
    """Which flows cross which links now, and how fast."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.capacity: list[float] = program.capacity.tolist()
        self.rate: dict[int, float] = {}
        self.route: dict[int, list[int]] = {}
        self.crossing: list[set[int]] = [set() for _ in program.media]
        crossings = zip(program.route.row_of_value().tolist(), program.route.values.tolist(), strict=True)
        self.speed = dict.fromkeys(program.buckets, 1.0)
        self.tokens = {medium: bucket.size for medium, bucket in program.buckets.items()}
        self.since = dict.fromkeys(program.buckets, 0)  # when `tokens` was right
        self.alike = dict(zip(crossings, program.alike.tolist(), strict=True)) if len(program.alike) else {}

    def set_rate(self, task: int, rate: float, now: int) -> Iterable[int]:
        is_new = task not in self.route
        if is_new:
            self.route[task] = self.program.route[task].tolist()
        self._bring_to(self.route[task], now)
        self.rate[task] = rate
        if is_new:
            for medium in self.route[task]:
                self.crossing[medium].add(task)
        return self.route[task]

    def remove(self, task: int, now: int) -> Iterable[int]:
        route = self.route.pop(task)
        self._bring_to(route, now)
        del self.rate[task]
        for medium in route:
            self.crossing[medium].remove(task)
        return route

    def change_capacity(self, medium: int, now: int) -> int:
        self._bring_to([medium], now)
        speed = self.program.media_speed(medium, now)
        self.capacity[medium] = float(self.program.capacity[medium]) * speed
        self.speed[medium] = speed
        return medium

    def _bring_to(self, media: Iterable[int], now: int) -> None:
        """What buckets hold now, at the rates until now. The time at which one is empty is rounded up to a ns."""
        for medium in media:
            if now > self.since.get(medium, now):
                size, rate = self.program.buckets[medium]
                load = self._load(medium)
                left = self.tokens[medium] + (rate * self.speed[medium] - load) * (now - self.since[medium])
                if left < -load * (1 + SLACK) - SLACK * size:
                    raise CorruptTimelineError(
                        f"link {self.program.media[medium]} has carried {-left:.6g} bytes by {now} ns that its bucket "
                        "did not hold"
                    )
                self.tokens[medium], self.since[medium] = min(size, max(0.0, left)), now

    def _is_full(self, medium: int, load: float) -> bool:
        if load >= self.capacity[medium] * (1 - SLACK) or medium not in self.tokens:
            return load >= self.capacity[medium] * (1 - SLACK)
        size, rate = self.program.buckets[medium]
        rate *= self.speed[medium]
        return load >= rate * (1 - SLACK) and self.tokens[medium] <= rate * (1 + SLACK) + SLACK * size

    def check(self, touched: set[int], now: int) -> None:
        """Only flows on links where something changed can have become unfair."""
        fastest = dict[int, float]()  # on links that are full: what the fastest flow there may be
        affected = set[int]()
        for medium in sorted(touched):
            affected |= self.crossing[medium]
        for medium in sorted({medium for task in affected for medium in self.route[task]}):
            rates = [self.rate[task] for task in self.crossing[medium]]
            load, capacity = self._load(medium), self.capacity[medium]
            if load > capacity * (1 + SLACK):
                raise CorruptTimelineError(
                    f"link {self.program.media[medium]} carries {load * units.NS_PER_S:.6g} bytes/s at {now} ns; "
                    f"its capacity is {capacity * units.NS_PER_S:.6g}"
                )
            if self._is_full(medium, load):
                fastest[medium] = max(rates)
        for task in sorted(affected):
            self._check_flow(task, fastest, now)

    def _load(self, medium: int) -> float:
        flows = self.crossing[medium]
        if not self.alike:
            return sum(self.rate[task] for task in flows)
        return float(sum(self.rate[task] * self.alike[task, medium] for task in flows))

    def _check_flow(self, task: int, fastest: dict[int, float], now: int) -> None:
        rate, limit = self.rate[task], float(self.program.limit[task])
        if rate > limit * (1 + SLACK):
            raise _wrong(self.program, task, f"runs at {rate} bytes per ns; its limit is {limit}")
        held_back = any(medium in fastest and fastest[medium] <= rate * (1 + SLACK) for medium in self.route[task])
        if rate < limit * (1 - SLACK) and not held_back:
            raise _wrong(
                self.program,
                task,
                f"runs at {rate} bytes per ns at {now} ns, below its fair share: it is not at its limit, and on every "
                "link that it crosses capacity is left, or a faster transfer runs",
            )


def _wrong(program: Program, task: int, message: str) -> CorruptTimelineError:
    return CorruptTimelineError(f"task {task} ({program.label(task)}): {message}")
