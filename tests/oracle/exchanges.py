"""What replicas exchange: rings that sum gradients and gather parameters, a tied embedding's sum, the norm."""

import math
from fractions import Fraction
from itertools import zip_longest

from oracle.rounding import DERIVED, ULP, Refused
from oracle.routes import Message

BUCKET = 80_000_000  # bytes: 40 million parameters of 2


def shards(plan, options, n: int) -> int:
    """Over how many replicas a stage's optimizer is divided."""
    count = len(plan.stages[n].devices)
    size = count if options.sharding == "none" else min(options.sharding_size or count, count)
    if count % size:
        raise Refused("size of shards")
    return 1 if options.sharding == "none" else size


def held(recorded, plan, options, n: int) -> Fraction:
    """Bytes of a stage's parameters; the last, on other devices than the first, has a copy of a tied embedding."""
    first, last, stage = plan.stages[0], plan.stages[-1], plan.stages[n]
    copied = options.tied_all_reduce and n == len(plan.stages) - 1 and set(first.devices) != set(last.devices)
    return sum(recorded.parameters[stage.start : stage.stop]) + (recorded.tied if copied else Fraction(0))


class Exchanges:
    """Adds tasks to those of actions, messages and steps; `place` of an action and `begin` of its cell are given."""

    def __init__(self, builder, task):
        self.plan, self.options, self.roads = builder.plan, builder.options, builder.roads
        self.recorded, self.rounding = builder.recorded, builder.rounding
        self.tasks, self.lanes, self.cell_of, self.devices = (
            builder.tasks, builder.lanes, builder.cell_of, builder.devices
        )  # fmt: skip
        self.task, self.count, self.known = task, 0, {}
        factor = self.options.gradient_bytes
        self.factor = Fraction(1 if factor is None else factor)

    def add(self) -> None:
        stages = range(len(self.plan.stages))
        parts = {n: shards(self.plan, self.options, n) for n in stages}
        after = {
            n: self.options.sharding in {"zero1", "zero2"} and parts[n] > 1 and self._parameters(n) > 0 for n in stages
        }
        for n in stages:
            if after[n] and self.options.gradient_overlap:
                self._gather_first(n)
        ends = {n: self._reduce_stage(n, parts[n]) for n in stages}
        if self.options.tied_all_reduce:
            self._sum_tied(ends)
        if self.options.gradient_norm and len(self.devices) > 1:
            times = 2 * math.ceil(math.log2(len(self.devices)))
            lasts = self.roads.message(self.devices[0], self.devices[-1], Fraction(0), times, Fraction(0)).delay
            ends = dict.fromkeys(ends, self._pause(0, lasts, set().union(*ends.values())))
        for n in stages:
            steps = {("O", n, device) for device in self.plan.stages[n].devices} & set(self.tasks)
            for step in steps:
                self.tasks[step].needs |= ends[n]
            if after[n] and not self.options.gradient_overlap:
                self._rings("G", n, self._divided(n)[0], 1, self._parameters(n), ends[n] | steps)

    # --- what there is of a stage ---

    def _parameters(self, n: int) -> Fraction:
        return held(self.recorded, self.plan, self.options, n)

    def _bucket(self, n: int) -> Fraction:
        return min(Fraction(1), Fraction(BUCKET) / self._parameters(n))

    def _divided(self, n: int) -> tuple[list, list]:
        """Neighbours that share, and those who keep the same share."""
        devices, size = self.plan.stages[n].devices, shards(self.plan, self.options, n)
        if size == len(devices):
            return [devices], []
        return [devices[i : i + size] for i in range(0, len(devices), size)], [devices[i::size] for i in range(size)]

    def _nth(self, n: int, kinds: str) -> list[list]:
        """The first such actions of all replicas, the second, ..."""
        rows = [[name for name in self.lanes[d] if name[0] in kinds and name[1] == n] for d in self.devices]
        return [[name for name in column if name] for column in zip_longest(*filter(None, rows))]

    # --- gathers and sums ---

    def _wait(self, actions, awaited: set) -> None:
        for action in actions:
            self.tasks[self.cell_of[action][0]].needs |= awaited

    def _before(self, name: tuple) -> tuple | None:
        lane = self.lanes[name[-1]]
        return lane[lane.index(name) - 1] if lane.index(name) else None

    def _gather_first(self, n: int) -> None:
        part, groups = self._bucket(n), self._divided(n)[0]
        begun = self._rings("G", n, groups, 1, self._parameters(n) * part, set())
        self._wait(self._nth(n, "F")[0] if self._nth(n, "F") else [], begun)
        if part < 1:
            rest = self._rings("G", n, groups, 1, self._parameters(n) * (1 - part), begun)
            self._wait(self._nth(n, "BI")[0] if self._nth(n, "BI") else [], rest)

    def _gather_always(self, n: int) -> None:
        """While the cell before the one that needs them runs: when what is before that has ended."""
        for kinds in ("F", "BI"):
            for actions in self._nth(n, kinds):
                ahead = set()
                for action in actions:
                    before = self._before(self.cell_of[action][0])
                    ahead.add(before and self._before(self.cell_of[before][0]))
                self._wait(actions, self._rings("G", n, self._divided(n)[0], 1, self._parameters(n), ahead - {None}))

    def _reduce_stage(self, n: int, parts: int) -> set:
        """What must have ended before the optimizer's step."""
        rows = [[name for name in self.lanes[d] if name[0] in "BW" and name[1] == n] for d in self.devices]
        last, size = {row[-1] for row in rows if row}, self._parameters(n) * self.factor
        if self.options.sharding == "zero3" and parts > 1 and self._parameters(n):
            self._gather_always(n)
        if len(self.plan.stages[n].devices) == 1 or not size:
            return last
        if self.options.sharding in {"zero2", "zero3"} and parts > 1:
            return last.union(*[self._sum(n, size, set(actions)) for actions in self._nth(n, "BW")])
        part = self._bucket(n)
        if not self.options.gradient_overlap or part == 1:
            return self._sum(n, size, last)
        first = int(min(self.tasks[name].work for name in last) * float(part))
        begun = {self._before(name) for name in last} - {None}
        pause = self._pause(n, first, begun.union(*[self.tasks[name].needs for name in last]))
        early = self._sum(n, size * (1 - part), pause)
        late = self._sum(n, size * part, last)
        for name in late:
            self.tasks[name].needs |= early
        return early | late

    def _sum(self, n: int, size: Fraction, needs: set) -> set:
        if shards(self.plan, self.options, n) == 1:
            return self._rings("A", n, [self.plan.stages[n].devices], 2, size, needs)
        inner, outer = self._divided(n)
        done = self._rings("A", n, inner, 1, size, needs)
        return self._rings("A", n, outer, 2, size / len(inner[0]), done) if outer else done

    def _sum_tied(self, ends: dict) -> None:
        first, last = self.plan.stages[0].devices, self.plan.stages[-1].devices
        if not self.recorded.tied or set(first) == set(last):
            return
        groups = list(zip(first, last, strict=False))
        end = len(self.plan.stages) - 1
        both = self._rings("A", 0, groups, 2, self.recorded.tied * self.factor, ends[0] | ends[end])
        ends[0], ends[end] = ends[0] | both, ends[end] | both

    # --- tasks ---

    def _rings(self, letter: str, n: int, groups, rounds: int, size: Fraction, needs: set) -> set:  # noqa: PLR0917
        """All edges of the rings of these groups, each with all its messages."""
        added = set()
        for group in groups:
            rings = self._rings_of(group)
            part, times = size / len(group) / len(rings), rounds * (len(group) - 1)
            if self.options.sharing == "channel":
                pairs = [(a, b) for a in group for b in group if a != b]
                lasts = max(self.roads.message(a, b, part, times, Fraction(0)).duration for a, b in pairs)
                whole = Message((), lasts, 0, part * times, None, float(DERIVED * ULP * part * times))
                added.add(self._put((letter, n, *rings[0][:2]), whole, needs))
                continue
            for ring in rings:
                for a, b in zip(ring, ring[1:] + ring[:1], strict=True):
                    added.add(self._put((letter, n, a, b), self.roads.message(a, b, part, times, Fraction(0)), needs))
        return added

    def _rings_of(self, group) -> list[list[str]]:
        """Node after node, each where its first device stands; of several, each enters nodes at another device."""
        nodes = {}
        for device in group:
            nodes.setdefault(self.roads.devices[device].node, []).append(device)
        sizes = {len(names) for names in nodes.values()}
        several = self.options.rings == "all" and len(nodes) > 1 and len(sizes) == 1
        turns = range(sizes.pop() if several else 1)
        return [[name for names in nodes.values() for name in names[r:] + names[:r]] for r in turns]

    def _pause(self, n: int, lasts: int, needs: set) -> set:
        return {
            self._put(
                ("A", n, self.devices[0], self.devices[0]), Message((), lasts, lasts, Fraction(0), None, 0.0), needs
            )
        }

    def _put(self, name: tuple, message: Message, needs: set) -> tuple:
        self.known[name] = times = self.known.get(name, 0) + 1
        numbered = name if times == 1 else (*name, f"#{times}")
        self.count += 1
        self.tasks[numbered] = self.task(set(needs), message=message, turn=(1, self.count))
        return numbered
