"""Step-by-step execution of a schedule without times: how far each rank gets, and what it waits for."""

from collections import deque
from collections.abc import Callable

from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Action, Schedule


def execute(
    schedule: Schedule, plan: Plan, on_cell: Callable[[int, str, list[Action]], None] | None = None
) -> "RankProgress":
    """How far each rank gets, executing one cell of each rank that can continue in turn.

    An action waits until all replicas have done the operations it needs. Taking turns keeps messages in approximately
    the order of time: a receive that is posted too early can delay those after it. `on_cell` is called after each cell
    with its rank, its text and its actions.
    """
    run = RankProgress(schedule, plan)
    cells = (
        [list(zip(_by_cell(run, rank), row, strict=True)) for rank, row in enumerate(schedule.cells)] if on_cell else []
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
        if on_cell is not None:
            actions, cell = cells[rank][done[rank]]
            on_cell(rank, cell, actions)
            done[rank] += 1
        if run.position[rank] < run.ends[rank]:
            ready.append(rank)
    return run


def _by_cell(run: "RankProgress", rank: int) -> list[list[Action]]:
    """The actions of each cell of a rank."""
    found, at = [], run.position[rank]
    while at < run.ends[rank]:
        stop = at + 2 if run.paired[at] else at + 1
        found.append([Action(run.stage[i], run.kind[i], run.microbatch[i]) for i in range(at, stop)])
        at = stop
    return found


class RankProgress:
    """The state of an execution. An operation is a forward or backward of a (stage, microbatch), as one number.

    position              the next action of each rank; ends: where its actions end
    done[operation]       number of replicas that have done it; complete when all have
    own                   the operations that each rank itself has done
    waiting[operation]    the ranks that wait for it
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

    def operation(self, stage: int, kind: int, microbatch: int) -> int:
        """The number of the operation of this action; the same for B and I."""
        return (microbatch * self.stages + stage) * 2 + (kind != FORWARD)

    def missing(self, rank: int) -> int | None:
        """The operation that the next cell of a rank waits for, if any; -1 - operation if it must do it itself."""
        at = self.position[rank]
        for i in (at, at + 1) if self.paired[at] else (at,):
            stage, kind, microbatch = self.stage[i], self.kind[i], self.microbatch[i]
            own = _needs_own(kind)
            if own is not None and self.operation(stage, own, microbatch) not in self.own[rank]:
                return -1 - self.operation(stage, own, microbatch)
            before = _needs_other(stage, kind, self.stages)
            if before is not None:
                operation = self.operation(before, kind, microbatch)
                if self.done.get(operation, 0) < self.copies[before]:
                    return operation
        return None

    def advance(self, rank: int) -> list[int]:
        """Do the next cell of a rank; returns the ranks that waited for it."""
        at = self.position[rank]
        self.position[rank] = stop = at + 2 if self.paired[at] else at + 1
        woken: list[int] = []
        for i in range(at, stop):
            if self.kind[i] == WEIGHT:
                continue
            operation = self.operation(self.stage[i], self.kind[i], self.microbatch[i])
            self.own[rank].add(operation)
            self.done[operation] = self.done.get(operation, 0) + 1
            if self.done[operation] == self.copies[self.stage[i]]:
                woken += self.waiting.pop(operation, [])
        return woken


def _needs_own(kind: int) -> int | None:
    """The kind of action that the same rank must have done before on the same stage and microbatch."""
    return {FORWARD: None, BACKWARD: FORWARD, INPUT: FORWARD, WEIGHT: INPUT}[kind]


def _needs_other(stage: int, kind: int, stages: int) -> int | None:
    """The stage whose action on the same microbatch must be done before."""
    if kind == FORWARD:
        return stage - 1 if stage > 0 else None
    return stage + 1 if kind != WEIGHT and stage < stages - 1 else None
