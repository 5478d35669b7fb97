"""When everything happens: from instant to instant, whatever can happen at one does.

An instant is done in rounds: all that ends now ends, whatever can start on a device then starts, and whatever is ready
asks for links, until nothing changes; then links are granted, or rates set. If that ends something at once, again.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from oracle.rounding import DERIVED, ULP, Rounding
from oracle.sharing import fair_rates, first_in_line
from oracle.speeds import Speeds, over_at
from oracle.tasks import Work


class Stuck(Exception):  # noqa: N818 - a result that pipesim must find too
    """So many tasks can never start."""

    def __eq__(self, other):
        return isinstance(other, Stuck) and self.args == other.args

    __hash__ = Exception.__hash__


@dataclass
class Flow:
    """A message whose bytes are under way."""

    left: Fraction
    error: float  # bytes that floating point may be off by
    rate: Fraction = Fraction(0)
    since: int = 0
    end: int = -1


@dataclass
class Network:
    """Bytes/ns of media and how they change, and the rule by which they are shared.

    `buckets`: of media that a token bucket shapes, the bytes that it holds and the bytes/ns at which it fills.
    """

    sharing: str
    bandwidth: dict
    speeds: Speeds
    buckets: dict = field(default_factory=dict)


class Bucket:
    """What a bucket holds: full at first; it fills at its rate, and what flows carry empties it."""

    def __init__(self, medium, network: Network, rounding: Rounding):
        self.medium, self.network, self.rounding = medium, network, rounding
        self.size, self.full_rate = network.buckets[medium]
        self.tokens, self.since, self.load, self.empty = self.size, 0, Fraction(0), None

    def rate(self, time: int) -> Fraction:
        return self.full_rate * self.network.speeds.at(self.medium, time)

    def bring_to(self, now: int) -> None:
        """No speed changes between `since` and now."""
        grown = self.tokens + (self.rate(self.since) - self.load) * (now - self.since)
        self.tokens, self.since = Fraction(0) if self.empty == now else min(self.size, max(Fraction(0), grown)), now

    def capacity(self, now: int) -> Fraction:
        """The peak while it holds what comes in a nanosecond."""
        full, rate = self.network.bandwidth[self.medium] * self.network.speeds.at(self.medium, now), self.rate(now)
        if abs(self.tokens - rate) <= NEAR * (self.size + rate) and self.tokens not in {0, self.size}:
            self.rounding.doubts += 1
        return full if self.tokens >= rate else rate

    def set_load(self, load: Fraction, now: int) -> None:
        excess, self.load, self.empty = load - self.rate(now), load, None
        if self.tokens >= self.rate(now) and excess > NEAR * self.rate(now):
            lasting = self.tokens / excess
            self.empty = now + max(1, self.rounding.up(lasting, NEAR * (lasting + self.size / excess)))


NEAR = Fraction(1, 10**9)  # what floating point may be off by where rates were added up


def play(work: Work, network: Network, lane_speeds: Speeds, rounding: Rounding) -> dict:
    """Name -> (start, end)."""
    return _Run(work, network, lane_speeds, rounding).play()


class _Run:
    def __init__(self, work, network, lane_speeds, rounding):
        self.tasks, self.network = work.tasks, network
        self.lane_speeds, self.rounding = lane_speeds, rounding
        self.todo = {device: list(reversed(lane)) for device, lane in work.lanes.items()}
        self.idle = set(self.todo)
        self.missing = {name: set(task.needs) for name, task in self.tasks.items()}
        self.readers = {name: [] for name in self.tasks}
        for name, task in self.tasks.items():
            for need in task.needs:
                self.readers[need].append(name)
        self.start, self.end = {}, {}
        self.over = {}  # name -> when it ends, of what lasts a time that is known
        self.delayed = {}  # name -> when its first byte goes
        self.flows = {}
        self.waiting = {}  # name -> since when
        self.asking = [name for name, task in self.tasks.items() if task.message and not task.needs]
        self.now, self.rated = 0, None
        self.buckets = [Bucket(medium, network, rounding) for medium in network.buckets]

    def play(self) -> dict:
        while True:
            self._settle()
            while self._grant():
                self._settle()
            following = self._next_time()
            if following is None:
                break
            self.now = following
        if len(self.end) < len(self.tasks):
            raise Stuck(len(self.tasks) - len(self.end))
        return {name: (self.start[name], self.end[name]) for name in self.tasks}

    def _next_time(self) -> int | None:
        times = [*self.over.values(), *self.delayed.values(), *(flow.end for flow in self.flows.values())]
        times += [bucket.empty for bucket in self.buckets if bucket.empty is not None]
        if times and (self.flows or self.buckets):
            turns = self.network.speeds.turns(self.network.bandwidth)
            times += [turn for turn in turns if turn > self.now]
        return min(times, default=None)

    # --- what ends, and what starts when it has ---

    def _settle(self) -> None:
        changed = True
        while changed:
            ending = [name for name, time in self.over.items() if time == self.now]
            ending += [name for name, flow in self.flows.items() if flow.end == self.now]
            arriving = [name for name, time in self.delayed.items() if time == self.now]
            for name in ending:
                self._finish(name)
            for name in arriving:
                del self.delayed[name]
                self._arrive(name)
            asking, self.asking = self.asking, []
            for name in asking:
                self._ask(name)
            started = [device for device in sorted(self.idle) if self._start_on(device)]
            changed = bool(ending or arriving or asking or started)

    def _finish(self, name: tuple) -> None:
        self.over.pop(name, None)
        self.flows.pop(name, None)
        self.end[name] = self.now
        if self.tasks[name].message is None:
            self.idle.add(name[-1])
        for reader in self.readers[name]:
            self.missing[reader].discard(name)
            if not self.missing[reader] and self.tasks[reader].message:
                self.asking.append(reader)

    def _start_on(self, device) -> bool:
        lane = self.todo[device]
        if not lane or self.missing[lane[-1]]:
            return False
        name = lane.pop()
        self.idle.discard(device)
        self.start[name] = self.now
        turns = self.lane_speeds.turns([device])
        self.over[name] = over_at(
            self.tasks[name].work, self.now, turns, lambda time: self.lane_speeds.at(device, time), self.rounding
        )
        return True

    # --- messages ---

    def _ask(self, name: tuple) -> None:
        """A message's tensor is there, and whoever must have posted it has."""
        if self.network.sharing in {"fifo", "channel"}:
            self.waiting[name] = self.now
            return
        self.start[name] = self.now
        if self.network.sharing == "none":
            self.over[name] = self._alone(name)
        else:
            self.delayed[name] = self.now + self.tasks[name].message.delay

    def _alone(self, name: tuple) -> int:
        """When a message ends that has its route for itself; where links are slow its whole ns stretch."""
        message, network = self.tasks[name].message, self.network
        limit = [message.limit] if message.limit is not None else []

        def pace(time: int) -> Fraction:
            return min(limit + [network.bandwidth[m] * network.speeds.at(m, time) for m in message.media])

        turns = network.speeds.turns(message.media)
        full = min(limit + [network.bandwidth[m] for m in message.media]) if turns else 0
        begin = self.now + message.delay
        return over_at(message.duration - message.delay, begin, turns, lambda time: pace(time) / full, self.rounding)

    def _arrive(self, name: tuple) -> None:
        """The first byte goes; what has none is over."""
        message = self.tasks[name].message
        if message.size and message.media:
            load = self._load(message)
            self.flows[name] = Flow(load, message.error + 4 * float(ULP * load))
        else:
            self._finish(name)

    def _load(self, message) -> Fraction:
        """Bytes of capacity that it uses: its own, or for a burst all there is for as long as it takes alone."""
        least = min(self.network.bandwidth[medium] for medium in message.media)
        burst = message.limit is not None and message.limit > least * (1 + Fraction(1, 10**9))
        return message.size * least / message.limit if burst else message.size

    def _grant(self) -> bool:
        """Links to those whose turn it is, or rates to all; whether something ends at once."""
        if self.network.sharing == "fair":
            self._rate()
            return any(flow.end == self.now for flow in self.flows.values())
        busy = {medium for name in self.over for medium in self._media(name)}
        line = [(since, self.tasks[name].turn, name, self._media(name)) for name, since in self.waiting.items()]
        for name in first_in_line(line, busy):
            del self.waiting[name]
            self.start[name] = self.now
            self.over[name] = self._alone(name)
        return self.now in self.over.values()

    def _media(self, name: tuple) -> tuple:
        message = self.tasks[name].message
        return message.media if message else ()

    # --- fair shares ---

    def _rate(self) -> None:
        speeds, bandwidth = self.network.speeds, self.network.bandwidth
        asked = {name: (self.tasks[name].message.media, self.tasks[name].message.limit) for name in self.flows}
        used = sorted({medium for media, _ in asked.values() for medium in media})
        capacity = {medium: bandwidth[medium] * speeds.at(medium, self.now) for medium in used}
        for bucket in self.buckets:
            bucket.bring_to(self.now)
            if bucket.medium in capacity:
                capacity[bucket.medium] = bucket.capacity(self.now)
        if (asked, capacity) == self.rated:
            self._load_buckets()
            return
        self.rated = asked, capacity
        most = float(max(capacity.values(), default=0))
        for name, rate in fair_rates(asked, capacity).items():
            flow = self.flows[name]
            if rate != flow.rate:
                self._set_rate(flow, rate, most * (DERIVED + len(asked)) * float(ULP))
        self._load_buckets()

    def _load_buckets(self) -> None:
        for bucket in self.buckets:
            crossing = [flow.rate for name, flow in self.flows.items() if bucket.medium in self._media(name)]
            bucket.set_load(sum(crossing, Fraction(0)), self.now)

    def _set_rate(self, flow: Flow, rate: Fraction, rate_error: float) -> None:
        passed = self.now - flow.since
        flow.left = max(Fraction(0), flow.left - flow.rate * passed)
        flow.error += rate_error * passed + float(ULP) * float(flow.left)
        flow.rate, flow.since = rate, self.now
        lasting = flow.left / rate
        error = (flow.error + rate_error * float(lasting)) / float(rate)
        flow.end = self.now + self.rounding.up(lasting, error)
