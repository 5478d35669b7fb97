"""What has to be done: one task per action, message, ring edge and optimizer step, by name.

Names are what people see on a timeline: ("F", stage, microbatch, device), (">", stage, microbatch, source, target),
("A", stage, source, target), ("O", stage, device); the second "A" or "G" of a stage on an edge has "#2" behind it.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from oracle.costs import Recorded
from oracle.exchanges import Exchanges, held, shards
from oracle.rounding import NS_PER_S, Rounding
from oracle.routes import Message, Roads

PHASE = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}


@dataclass
class Task:
    """A computation of `work` ns, or a message; `turn` settles who is first of messages that are ready together."""

    needs: set = field(default_factory=set)
    work: int = 0
    message: Message | None = None
    turn: tuple = ()


@dataclass
class Work:
    """All tasks by name, and the names on each device in order."""

    tasks: dict
    lanes: dict


def work_of(  # noqa: PLR0917 - what a job consists of
    plan, schedule: str, recorded: Recorded, roads: Roads, options, rounding: Rounding
) -> Work:
    """The tasks of one iteration."""
    return _Builder(plan, schedule, recorded, roads, options, rounding).build()


def ranks(plan) -> list[str]:
    """The device of each row of a schedule.

    In the order of their first place as (stage, replica); where replicas take whole microbatches, of their first place
    as the least replica that they are anywhere.
    """
    places = {}
    for n, stage in enumerate(plan.stages):
        for i, device in enumerate(stage.devices):
            places.setdefault(device, []).append((n, i))

    def place(device):
        least = min(i for _, i in places[device]) if _whole(plan) else None
        return min((n, i) for n, i in places[device] if least in {None, i})

    return sorted(places, key=place)


def cells(text: str, devices: list[str]) -> dict[str, list[list[tuple]]]:
    """For each device its cells: names of one action, or of two that are one."""
    rows = text.split("\n")
    return {
        device: [
            [(kind, int(n), int(m), device) for n, kind, m in re.findall(r"(\d+)([FBIW])(\d+)", cell)]
            for cell in row.split(",")
            if cell.strip()
        ]
        for device, row in zip(devices, rows, strict=True)
    }


def _whole(plan) -> bool:
    return plan.replicas == "whole"


class _Builder:
    def __init__(self, plan, schedule, recorded, roads, options, rounding):  # noqa: PLR0917 - what a job consists of
        self.plan, self.recorded, self.roads = plan, recorded, roads
        self.options, self.rounding = options, rounding
        self.devices = ranks(plan)
        self.rows = cells(schedule, self.devices)
        self.tasks = {}
        self.lanes = {device: [] for device in self.devices}
        self.cell_of = {name: cell for row in self.rows.values() for cell in row for name in cell}
        self.places, self.named, self.made_and_read, self.sent = {}, {}, [], []
        self.gaps = defaultdict(list)  # (device, place on it) -> messages there, with what orders them
        whole = all(size.denominator == 1 for size in recorded.output)  # then sums are exact in floating point too
        self.largest = Fraction(0) if whole else sum(recorded.output, Fraction(0))

    def build(self) -> Work:
        self._add_actions()
        self._add_optimizer()
        self._find_pairs()
        self._add_messages()
        self._take_turns()
        Exchanges(self, Task).add()
        return Work(self.tasks, self.lanes)

    # --- computation ---

    def _add_actions(self) -> None:
        for device, row in self.rows.items():
            written = set()  # stages whose gradients a whole backward has written
            for cell in row:
                took = []
                for kind, n, *_ in cell:
                    first = kind == "B" and n not in written
                    took.append(self._ns("backward_first" if first else PHASE[kind], n, device))
                    written |= {n} if kind == "B" else set()
                took = took if len(took) == 1 else self._together(*took)
                for name, work in zip(cell, took, strict=True):
                    self.tasks[name] = Task(work=work)
                    self.lanes[device].append(name)
        for name in list(self.tasks):
            kind, n, m, device = name
            for own in {"F": (), "B": "F", "I": "F", "W": "I"}[kind]:
                self._wait(name, (own, n, m, device))

    def _ns(self, phase: str, n: int, device: str) -> int:
        kind = self.roads.devices[device].kind
        stage, share = self.plan.stages[n], self._share(n)
        seconds = self.recorded.seconds(phase, kind, share)[stage.start : stage.stop]
        if phase in {"backward", "backward_first", "backward_input"} and self.options.recompute != "none":
            chosen = self._again()[stage.start : stage.stop]
            more = self.recorded.seconds("recompute", kind, share)[stage.start : stage.stop]
            seconds = [a + b * c for a, b, c in zip(seconds, more, chosen, strict=True)]
        return self.rounding.nearest(sum(seconds, Fraction(0)) * NS_PER_S)

    def _again(self) -> list[bool]:
        kind = self.roads.devices[self.devices[0]].kind
        return self.recorded.again(self.options.recompute, kind)

    def _together(self, first: int, second: int) -> list[int]:
        """A pair takes a factor on the sum, or the sum without what hides; each has its part of that."""
        options = self.options
        if options.pair_factor is not None:
            together = self.rounding.nearest((first + second) * Fraction(options.pair_factor))
        else:
            together = self.rounding.nearest(first + second - Fraction(options.pair_overlap) * min(first, second))
        part = self.rounding.nearest(Fraction(first * together, first + second)) if first + second else 0
        return [part, together - part]

    def _share(self, n: int) -> Fraction:
        return Fraction(1) if _whole(self.plan) else Fraction(1, len(self.plan.stages[n].devices))

    def _wait(self, name: tuple, awaited: tuple) -> None:
        """The first action of a cell waits, for the last one of a cell."""
        self.tasks[self.cell_of[name][0]].needs.add(self.cell_of[awaited][-1])

    # --- optimizer ---

    def _held(self, device: str) -> list[int]:
        return [n for n, stage in enumerate(self.plan.stages) if device in stage.devices]

    def _parameters(self, n: int) -> Fraction:
        return held(self.recorded, self.plan, self.options, n)

    def _add_optimizer(self) -> None:
        if not self.options.optimizer_s_per_byte:
            return
        for device in self.devices:
            for n in reversed(self._held(device)):
                ns = self._parameters(n) * Fraction(self.options.optimizer_s_per_byte) * NS_PER_S
                ns /= shards(self.plan, self.options, n)
                self.tasks["O", n, device] = Task(work=self.rounding.nearest(ns))
                self.lanes[device].append(("O", n, device))

    # --- messages ---

    def _holders(self, n: int, m: int) -> list[str]:
        """Who works on a microbatch."""
        devices = self.plan.stages[n].devices
        return [devices[m % len(devices)]] if _whole(self.plan) else list(devices)

    def _add_messages(self) -> None:
        """From the receivers' side: what each action reads, from everyone who makes a part of it."""
        blocks = defaultdict(list)
        for device, row in self.rows.items():
            for cell in row:
                for kind, n, m, _ in cell:
                    sender = n + {"F": -1, "B": 1, "I": 1, "W": len(self.plan.stages)}[kind]
                    if 0 <= sender < len(self.plan.stages):
                        for source in self._holders(sender, m):
                            self._hand_over(blocks, (kind, n, m, device), sender, source)
        if self.options.transfers == "posted":
            self._post_ahead()
        if self.options.sharing == "channel":
            self._add_blocks(blocks)

    def _post_ahead(self) -> None:
        """Each receive stands where its send does, when all ranks do one cell after the other in turn."""
        left = {device: list(row) for device, row in self.rows.items()}
        missing, ended = Counter(begun for _, begun, _ in self.sent), {device: [] for device in self.rows}
        before = -1
        while (count := sum(map(len, left.values()))) != before:  # what waits for ever is left
            before = count
            for device in self.devices:
                if left[device] and not missing[left[device][0][0]]:
                    cell = left[device].pop(0)
                    ended[device] += cell
                    for _, begun, task in (row for row in self.sent if row[0] == cell[-1]):
                        missing[begun] -= 1
                        task.needs.update(ended[begun[-1]][-1:])

    def _hand_over(self, blocks, reader: tuple, sender: int, source: str) -> None:
        kind, n, m, device = reader
        forward = kind == "F"
        maker = next(name for name in self._made(forward, sender, m, source) if name in self.tasks)
        if source == device:
            self._wait(reader, maker)
            return
        size = self.recorded.cut(self.plan.stages[min(n, sender)].stop - 1) * self._share(n) * self._share(sender)
        message = self.roads.message(source, device, size, 1, self.largest)
        slots = [(s, self.plan.stages[s].devices.index(name)) for s, name in ((sender, source), (n, device))]
        name = (">" if forward else "<", sender, m, source, device)
        made, begun = self._made_by(maker), self._read_by(reader)
        task = Task({made}, message=message, turn=(0, m, forward, *slots))
        waiting, transfers = [begun], self.options.transfers
        if transfers == "posted":
            self.sent.append((made, begun, task))
        elif transfers != "eager" and self._place(begun):
            task.needs.add(self.lanes[device][self._place(begun) - 1])
        if transfers in {"blocking", "paired", "sequential"}:
            waiting += self.lanes[source][self._place(made) + 1 :][:1]
        if transfers == "sequential":
            block = "", m, forward, min(n, sender)
            self._note_turn(block if self.options.sharing == "channel" else name, made, begun, forward=forward)
        if self.options.sharing == "channel":
            blocks[min(n, sender), m, forward].append((slots, name, task, waiting))
        else:
            self._put(name, task, waiting)

    # --- posting ---

    def _find_pairs(self) -> None:
        """Of each F and the B or I next on its device the other, where there are several on the device."""
        self.partner = {}
        if self.options.transfers == "paired":
            for lane in self.lanes.values():
                pairs = [(a, b) for a, b in pairwise(lane) if a[0] == "F" and b[0] in "BI"]
                self.partner |= {end: pair for pair in pairs for end in pair} if len(pairs) > 1 else {}

    def _made_by(self, maker: tuple) -> tuple:
        """After what a tensor may go."""
        end = self.cell_of[maker][-1]
        return self.partner.get(end, (end,))[-1]

    def _read_by(self, reader: tuple) -> tuple:
        """Before what it must have come."""
        begin = self.cell_of[reader][0]
        return self.partner.get(begin, (begin,))[0]

    def _place(self, name: tuple) -> int:
        if not self.places:
            self.places |= {name: place for lane in self.lanes.values() for place, name in enumerate(lane)}
        return self.places[name]

    def _note_turn(self, message: tuple, made: tuple, begun: tuple, *, forward: bool) -> None:
        """That a message is between two actions of its sender, and between two of its receiver."""
        ends = tuple((self.devices.index(name[-1]), self._place(name)) for name in (made, begun))
        self.made_and_read.append((made, begun))
        order = message[1:] if self.options.sharing == "channel" else ends
        for received, place in enumerate((self._place(made) + 1, self._place(begun))):
            device = (made, begun)[received][-1]
            self.gaps[device, place].append((message, made, forward, received, order))

    def _take_turns(self) -> None:
        """Between two actions one message after the other: by step, gradients first, sends first."""
        step = self._steps()
        latest = defaultdict(int)
        for rows in self.gaps.values():
            for message, made, *_ in rows:
                latest[message] = max(latest[message], step[made])
        for rows in self.gaps.values():
            turns = {(latest[message], *rest): message for message, _, *rest in rows}
            for before, after in pairwise([turns[key] for key in sorted(turns)]):
                self.tasks[self.named.get(after, after)].needs.add(self.named.get(before, before))

    def _steps(self) -> dict:
        """How many actions must end before each, of those that are no circle."""
        needs = defaultdict(set)
        for lane in self.lanes.values():
            for before, after in pairwise([name for name in lane if name[0] != "O"]):
                needs[after].add(before)
        for made, begun in self.made_and_read:
            needs[begun].add(made)
        step, ended = defaultdict(int), set()
        todo = {name for lane in self.lanes.values() for name in lane if name[0] != "O"}
        while ready := {name for name in todo if needs[name] <= ended}:
            todo -= ready
            ended |= ready
            for name in todo:
                step[name] = max([step[name], *(step[before] + 1 for before in needs[name] & ready)])
        return step

    def _made(self, forward: bool, n: int, m: int, device: str) -> list[tuple]:  # noqa: FBT001 - which way
        return [(kind, n, m, device) for kind in ("F" if forward else "BI")]

    def _put(self, name: tuple, task: Task, waiting: list) -> None:
        self.tasks[name] = task
        for waiter in waiting:
            self.tasks[waiter].needs.add(name)

    def _add_blocks(self, blocks) -> None:
        """On a channel all messages of a microbatch and a direction are one, at the pace of the slowest."""
        for (boundary, m, forward), parts in blocks.items():
            name = min(parts, key=lambda part: part[0])[1]
            slowest = max(task.message.duration for _, _, task, _ in parts)
            needs = set().union(*(task.needs for _, _, task, _ in parts))
            size, error = (sum(getattr(task.message, of) for _, _, task, _ in parts) for of in ("size", "error"))
            message = Message((f"channel {boundary}",), slowest, 0, size, None, len(parts) * error)
            waiting = [waiter for *_, waiters in parts for waiter in waiters]
            self.named["", m, forward, boundary] = name
            self._put(name, Task(needs, message=message, turn=(0, m, forward, boundary)), waiting)
