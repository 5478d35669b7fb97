"""A schedule run in steps, without clock or costs: how far each rank comes, and what it waits for."""

from collections import deque
from collections.abc import Callable

from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Action, Schedule


def progress(schedule: Schedule, plan: Plan, tell: Callable[[int, str, list[Action]], None] | None = None) -> "Run":
    """How far each rank comes when the schedule runs without clock or costs: in turn, a cell of each that can go on.

    What an action waits for is a count: how many replicas have done an action of that stage and microbatch. Turns keep
    messages in about the order of time: a receive that stands early may hold up those after it.
    """
    run = Run(schedule, plan)
    cells = (
        [list(zip(_by_cell(run, rank), row, strict=True)) for rank, row in enumerate(schedule.cells)] if tell else []
    )
    done = [0] * len(schedule)
    ready = deque(rank for rank in range(len(schedule)) if run.position[rank] < run.ends[rank])
    while ready:
        rank = ready.popleft()
        missing = run.missing(rank)
        if missing is not None:
            run.waiting.setdefault(missing, []).append(rank)
            continue
        ready += run.advance(rank)
        if tell is not None:
            actions, cell = cells[rank][done[rank]]
            tell(rank, cell, actions)
            done[rank] += 1
        if run.position[rank] < run.ends[rank]:
            ready.append(rank)
    return run


def _by_cell(run: "Run", rank: int) -> list[list[Action]]:
    """The actions of each cell of a rank."""
    found, at = [], run.position[rank]
    while at < run.ends[rank]:
        stop = at + 2 if run.paired[at] else at + 1
        found.append([Action(run.stage[i], run.kind[i], run.microbatch[i]) for i in range(at, stop)])
        at = stop
    return found


class Run:
    """The state of such a run. A deed is (stage, microbatch) of a forward, or of a backward, as one number.

    done[deed]       how many replicas have done it; complete when as many as there are have
    own              what a rank itself has done: its deeds and, after them, which of W it may do
    """

    def __init__(self, schedule: Schedule, plan: Plan) -> None:
        self.stage, self.kind = schedule.stage.tolist(), schedule.kind.tolist()
        self.microbatch, self.paired = schedule.microbatch.tolist(), schedule.paired.tolist()
        self.position: list[int] = schedule.starts[:-1].tolist()
        self.ends: list[int] = schedule.starts[1:].tolist()
        self.stages = len(plan.stages)
        self.copies = [len(stage.devices) if plan.replicas == "split" else 1 for stage in plan.stages]
        self.done: dict[int, int] = {}
        self.own: list[set[int]] = [set() for _ in range(len(schedule))]
        self.waiting: dict[int, list[int]] = {}

    def deed(self, stage: int, kind: int, microbatch: int) -> int:
        """The number of what this action does, once for B and I."""
        return (microbatch * self.stages + stage) * 2 + (kind != FORWARD)

    def missing(self, rank: int) -> int | None:
        """The deed that the next cell of a rank waits for, if any; -1 - deed if only the rank itself can do it."""
        at = self.position[rank]
        for i in (at, at + 1) if self.paired[at] else (at,):
            stage, kind, microbatch = self.stage[i], self.kind[i], self.microbatch[i]
            own = _needs_own(kind)
            if own is not None and self.deed(stage, own, microbatch) not in self.own[rank]:
                return -1 - self.deed(stage, own, microbatch)
            before = _needs_other(stage, kind, self.stages)
            if before is not None:
                deed = self.deed(before, kind, microbatch)
                if self.done.get(deed, 0) < self.copies[before]:
                    return deed
        return None

    def advance(self, rank: int) -> list[int]:
        """Do the next cell of a rank; returns who has waited for it."""
        at = self.position[rank]
        self.position[rank] = stop = at + 2 if self.paired[at] else at + 1
        woken: list[int] = []
        for i in range(at, stop):
            if self.kind[i] == WEIGHT:
                continue
            deed = self.deed(self.stage[i], self.kind[i], self.microbatch[i])
            self.own[rank].add(deed)
            self.done[deed] = self.done.get(deed, 0) + 1
            if self.done[deed] == self.copies[self.stage[i]]:
                woken += self.waiting.pop(deed, [])
        return woken


def _needs_own(kind: int) -> int | None:
    """The kind of action that the same rank must have done before, on the same stage and microbatch."""
    return {FORWARD: None, BACKWARD: FORWARD, INPUT: FORWARD, WEIGHT: INPUT}[kind]


def _needs_other(stage: int, kind: int, stages: int) -> int | None:
    """The stage whose action on the same microbatch must come before."""
    if kind == FORWARD:
        return stage - 1 if stage > 0 else None
    return stage + 1 if kind != WEIGHT and stage < stages - 1 else None
