"""Lower bounds over layouts: every cut, number of chunks, schedule and placement, split backwards included.

    layout_bound    a layout: so many lanes with so many replicas each

A lane is the devices that hold the same stages: `data` replicas of a team. Lanes are ordered by their lowest stage, so
that j stages or more, of a unit or more each, are before the j-th lane (from 0). With P microbatches for each replica:

    X_j  before lane j starts: forwards of the first j units, j messages                                     B38
    E_j  after the last action of lane j: backwards of the units before it and its messages, or what         B39, B41
         follows the last backward of one of its stages: reduction, optimizer step, gather
    work     sum over lanes of (T - X_j - E_j), where positive,  >=  work of all units                       B40
    blocks   n units that take as long as t or longer: lane j has at most (T - X_j - E_j) / t of them        B42
    stages   with one stage to a lane: each takes as many units as still end in time                         B43
    latency  a microbatch passes all units and comes back; so do the others, past the slowest unit           B44
    memory   bytes that are kept, times how long, are no more than what devices have, times T                 B47
    redone   some units are done again and keep less: any weights of work and of memory                       B48
    exchange no gradient is summed before a microbatch has passed all units; then a GPU sends its part       B45

docs/certificate.md, section 15, has the proofs and what is not counted. `layout_tables` has what is read here.
"""

import bisect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.layout_tables import LayoutTables, Same, UnitSeconds, layout_tables, rates_of_kinds
from pipesim.analysis.bounds.rounding import NS
from pipesim.base.arrays import Floats
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Replicas
from pipesim.lowering import DEFAULTS, Options

PRECISION = 1e-4  # relative: to which T is searched
THRESHOLDS = 8  # of work of units, that are tried
WEIGHTS = 33  # of work beside memory, that are tried
_SLACK = 1e-12  # relative: of sums in floating point


class OpenLayout(NamedTuple):
    """What is given of a layout; all else is open."""

    pipeline: int  # lanes
    data: int  # replicas of each, of a team each
    microbatches: int  # of an iteration, for all replicas
    chunks: int | None = None  # stages on a device, at most; None: any number
    splits: bool = True  # whether backwards may be split
    mirrored: bool = True  # whether two copies of the model may go through the lanes in opposite directions
    replicas: Replicas = "whole"


class LayoutBound(NamedTuple):
    """Seconds that no layout of a space is below, and what it is that takes so long."""

    seconds: float
    reason: str


def layout_bound(costs: Costs, cluster: Cluster, layout: OpenLayout, options: Options = DEFAULTS) -> LayoutBound:
    """Seconds of an iteration that no plan of this layout that fits in memory has less of; infinite where none fits.

    `costs` are those of the widths and the size of microbatches of the layout. The same objects in another call are
    quicker: what is read of them is kept.
    """
    tables = layout_tables(costs, Same(cluster), options)
    found = _bound(tables, layout)
    if layout.mirrored and layout.pipeline % 2 == 0 and layout.replicas == "whole":
        # Devices n and p - 1 - n then hold the same two stages: half as many lanes, twice the replicas.
        half = layout._replace(pipeline=layout.pipeline // 2, data=layout.data * 2, chunks=None)
        found = min(found, _bound(tables, half))
    return found


def _bound(tables: LayoutTables, layout: OpenLayout) -> LayoutBound:
    if layout.pipeline * layout.data > tables.teams.sum() or layout.pipeline > tables.units:
        return LayoutBound(np.inf, "devices")
    share = 1.0 if layout.replicas == "whole" else 1 / layout.data
    one_each = layout.chunks == 1 or layout.replicas == "split" or layout.data == 1
    resident, room = 1.0 if one_each else 1 / layout.data, tables.room(layout.pipeline, layout.data)
    if float(tables.stash.sum()) * share * resident > room:
        return LayoutBound(np.inf, "memory")
    lanes = _Lanes(tables, layout, tables.seconds(share, splits=layout.splits))
    found = max(lanes.work(), lanes.latency(), lanes.exchange(), lanes.memory(room, share), lanes.redone(room, share))
    found = max(found, lanes.blocks(found.seconds))
    if layout.chunks == 1:
        found = max(found, lanes.stages(found.seconds))
    seconds = max(0.0, (float(found.seconds) - lanes.rounding) * tables.least_part)
    return LayoutBound(seconds, found.reason)


class _Lanes:
    """The lanes of a layout: before, on and after them."""

    def __init__(self, tables: LayoutTables, layout: OpenLayout, seconds: UnitSeconds) -> None:
        self.tables, self.layout, self.seconds = tables, layout, seconds
        whole = layout.replicas == "whole"
        # Where a device has several stages it may be another replica of each: on average M / k microbatches.
        self.most = -(-layout.microbatches // layout.data) if whole else layout.microbatches
        same = layout.chunks == 1 or not whole
        self.passing = float(self.most) if same else layout.microbatches / layout.data
        count, units = layout.pipeline, tables.units
        self.comes_back = not tables.model.is_partly_frozen  # else some stages wait for no gradient
        self.message = tables.message(1 if whole else layout.data**2) if count > 1 else 0.0
        self.before = _prefix(seconds.forward)
        self.behind = _prefix(seconds.back) if self.comes_back else np.zeros(units + 1)
        self.reduction, self.step, self.gather = (
            part(layout.data) for part in (tables.reduction, tables.step, tables.gather)
        )
        self.joint = tables.options.gradient_norm  # steps wait for all gradients
        self.tail = self.reduction if self.joint else self.reduction + self.step + self.gather
        hops: Floats = np.arange(count, dtype=np.float64) * self.message
        self.start = self.before[:count] + hops  # B38
        self.end = self._ends(hops)
        self.later = float(self.step.sum() / count + self.gather.min()) if self.joint else 0.0
        chunks = min(layout.chunks or units, units - count + 1)
        halves = 3 if tables.least_part == 1 else 3 + 1 / tables.least_part
        self.rounding = (halves / 2 * self.most * chunks + 4 * units + 2 * count + 10) * NS  # R6

    @property
    def drains(self) -> bool:
        """Whether the last action of every lane is a backward that goes on to the first unit (B39)."""
        return self.comes_back and not self.layout.splits

    def _ends(self, hops: Floats) -> Floats:
        """B39, B41: the least after the last action of each lane, by the first unit of the stage that it is of."""
        lane, unit = np.arange(self.layout.pipeline)[:, None], np.arange(self.tables.units)
        after = np.broadcast_to(self.tail, (len(lane), len(unit)))
        if self.drains:
            after = np.maximum(after, self._drained() + hops[:, None])
        least: Floats = np.where(unit >= lane, after, np.inf).min(axis=1)
        return least

    def _drained(self) -> Floats:
        """What follows the last backward of a unit that goes on to the first: that, and what follows the first."""
        found: Floats = self.behind[:-1] + np.where(np.arange(len(self.tail)) > 0, self.tail[0], 0.0)
        return found

    def work(self) -> LayoutBound:
        """B40: what all devices have to do, between their starts and ends."""
        tables, data = self.tables, self.layout.data
        found = LayoutBound(0.0, "work")
        for rate in rates_of_kinds(self.seconds.by_kind):
            least = (rate[:, None] * self.seconds.by_kind).min(axis=0)
            count = self.passing * data if len(tables.kinds) == 1 else self._microbatches
            work = count * float(least.sum())
            steps = float(self.step.sum()) * data * float(rate.min())
            speeds = np.repeat(np.sort(rate)[::-1], tables.teams[np.argsort(-rate)].astype(int))
            speeds = speeds[: self.layout.pipeline * data].reshape(-1, data).sum(axis=1)
            fill = _filled(self.start + self.end, speeds, work)
            least_work = work / float(speeds.sum())
            reason = "fill" if fill > 1.01 * least_work else "work"
            found = max(found, LayoutBound(fill + self.later, reason))
            if not self.joint:
                found = max(found, LayoutBound(_filled(self.start, speeds, work + steps), reason))
        return found

    @property
    def _microbatches(self) -> int:
        """That the replicas of a lane have together."""
        return self.layout.microbatches * (1 if self.layout.replicas == "whole" else self.layout.data)

    def latency(self) -> LayoutBound:
        """B44: one microbatch there and back; the others past the slowest unit; one unit for all microbatches."""
        seconds, hops = self.seconds, (self.layout.pipeline - 1) * self.message
        found = float(seconds.forward.sum()) + hops + float(seconds.back[-1])
        if self.comes_back:
            found += float(seconds.back[:-1].sum()) + hops + float(self.tail[0])
            found += (self.most - 1) * max(float(seconds.forward.max()), float(seconds.back.max()))
        behind = np.maximum(self.tail, self._drained()) if self.drains else self.tail
        unit = float((self.before[:-1] + self.most * seconds.work + behind).max())
        return max(LayoutBound(found + self.later, "latency"), LayoutBound(unit + self.later, "blocks"))

    def exchange(self) -> LayoutBound:
        """B45: what a GPU of the lane that has most parameters sends after one microbatch has passed all units."""
        there = float(self.seconds.forward.sum()) if self.comes_back else 0.0
        sent = self.tables.sent(self.layout.data) / self.layout.pipeline
        return LayoutBound(there + sent, "exchange") if sent else LayoutBound(0.0, "exchange")

    def memory(self, room: float, share: float) -> LayoutBound:
        """B47: what a microbatch keeps, it keeps until it has passed all later units and come back."""
        if not self.comes_back or room == np.inf:
            return LayoutBound(0.0, "memory")
        way = np.cumsum((self.seconds.forward + self.seconds.back)[::-1])[::-1]
        passing = self._microbatches / self.layout.data
        held = passing * share * float((self.tables.stash * way).sum())
        return LayoutBound(held / room if room > 0 else 0.0, "memory")

    def redone(self, room: float, share: float) -> LayoutBound:
        """B48: each unit is done again, and keeps less, or it is not, where stages decide how many are."""
        tables = self.tables
        chosen = tables.options.recompute == "full" and tables.options.recompute_blocks is not None
        if not chosen or not self.comes_back or not 0 < room < np.inf:
            return LayoutBound(0.0, "memory")
        passing, whole = self._microbatches / self.layout.data, self.seconds
        way = np.cumsum((whole.forward + whole.back)[::-1])[::-1] * passing * share / room
        again = tables.again * (1.0 if self.layout.replicas == "whole" else 1 / self.layout.data)
        work, more = whole.work * passing / self.layout.pipeline, again * passing / self.layout.pipeline
        return LayoutBound(least_of_choices(work, more, tables.stash_without * way, tables.stash * way), "memory")

    def blocks(self, low: float) -> LayoutBound:
        """B42: whole units fit into the time of each lane."""
        loads = np.sort(self.passing * self.seconds.work)[::-1]
        taken = (self.start + self.end)[:, None]
        count = self.layout.pipeline
        spread = np.linspace(count, len(loads), THRESHOLDS).astype(int)
        many = np.unique(np.clip([*spread, count + 1, 2 * count + 1], 1, len(loads)))
        least = loads[many - 1]
        chosen = least > 0
        many, least = many[chosen], least[chosen]

        def fits(target: float) -> bool:
            room = np.maximum(0.0, target * (1 + _SLACK) - taken) / least
            return bool((np.floor(room * (1 + _SLACK)).sum(axis=0) >= many).all())

        return LayoutBound(_searched(max(low - self.later, 0.0), fits) + self.later, "blocks")

    def stages(self, low: float) -> LayoutBound:
        """B43: lane after lane takes the units that fit; the last must reach the last unit."""
        start, hops, drained = self.before, self.message, 0.0
        if self.drains:
            start, hops, drained = self.before + self.behind, 2 * self.message, float(self.tail[0])
        work = _prefix(self.most * self.seconds.work)
        ends = [(work.tolist(), (work - start).tolist(), hops, drained)]
        if not self.tables.options.gradient_overlap:
            tail = work + _prefix(self.tail)
            ends.append((tail.tolist(), (tail - self.before).tolist(), self.message, 0.0))
        units, count = self.tables.units, self.layout.pipeline

        def fits(target: float) -> bool:
            target, covered = target * (1 + _SLACK), 0
            for n in range(count):
                reached = min(
                    bisect.bisect_right(total, target + room[covered] - n * hop - (after if n else 0.0)) - 1
                    for total, room, hop, after in ends
                )
                if reached >= units or reached <= covered:
                    return reached >= units
                covered = reached
            return False

        return LayoutBound(_searched(max(low - self.later, 0.0), fits) + self.later, "stages")


def least_of_choices(work: Floats, more: Floats, kept: Floats, less: Floats) -> float:
    """The most, over weights y, of the least `y work + (1 - y) memory` with units done again or not (B48)."""
    found = 0.0
    for y in np.linspace(0.0, 1.0, WEIGHTS):
        once, twice = y * work + (1 - y) * kept, y * (work + more) + (1 - y) * less
        found = max(found, float(np.minimum(once, twice).sum()))
    return found


def _prefix(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _filled(taken: Floats, speeds: Floats, work: float) -> float:
    """The least T with `work <= sum of speed x (T - taken)` over lanes where that is positive; the fastest start first.

    No other order of speeds has more room: what a lane has grows with its speed and with T - taken.
    """
    order = np.sort(taken)
    rate, used = np.cumsum(speeds), np.cumsum(speeds * order)
    ends = (work + used) / rate
    later = np.append(order[1:], np.inf)
    return float(ends[np.argmax(ends <= later)])


def _searched(low: float, fits: Callable[[float], bool]) -> float:
    """The greatest T found that does not fit, or `low`."""
    if fits(low):
        return low
    step, high = 0.02, low
    while not fits(high):
        low, high, step = high, high * (1 + step) + NS, step * 2
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low
