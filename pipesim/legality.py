"""Whether a schedule can be kept: each action of its plan once, on its device, in a possible order."""

from collections import Counter, deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipesim.errors import DeadlockError, ScheduleError
from pipesim.keeping import is_kept
from pipesim.plan import Plan
from pipesim.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Action, Schedule


def check(schedule: Schedule, plan: Plan) -> None:
    """Refuse a schedule that does not do each action of the plan once, on its device, in a possible order."""
    if len(schedule) != (ranks := len(plan.devices)):
        raise ScheduleError(f"{len(schedule)} ranks found; {ranks} were expected, one per device of the plan")
    _check_stages(schedule, plan)
    _check_pairs(schedule)
    _check_microbatches(schedule, plan)
    cell = _check_complete(schedule, plan)
    if not is_kept(schedule, plan, cell):
        raise DeadlockError(f"{_IMPOSSIBLE}\n{_stuck_table(schedule, _progress(schedule, plan), plan)}")


_IMPOSSIBLE = "the order is impossible: every rank below waits for another (>waiting cell<)"


def _check_stages(schedule: Schedule, plan: Plan) -> None:
    """Every action names a stage that its rank holds."""
    for rank, held in enumerate(plan.chunks):
        wrong = ~np.isin(schedule.stage[_positions(schedule, rank)], held)
        if wrong.any():
            raise _bad_cell(schedule, rank, int(np.argmax(wrong)), f"{plan.devices[rank]} does not hold this stage")


def _check_pairs(schedule: Schedule) -> None:
    """What is done as one is a forward and a backward, next to each other on one rank."""
    first = np.flatnonzero(schedule.paired)
    inside = np.isin(first + 1, schedule.starts, invert=True) if len(first) else np.zeros(0, bool)
    second = np.minimum(first + 1, len(schedule.kind) - 1)
    apart = (schedule.kind[first] == FORWARD) & np.isin(schedule.kind[second], [BACKWARD, INPUT])
    right = inside & apart & ~schedule.paired[second]
    if not right.all():
        at = int(first[np.argmin(right)])
        rank = int(schedule.rank[at])
        reason = "a forward and then a backward can be one, no others"
        raise _bad_cell(schedule, rank, at - int(schedule.starts[rank]), reason)


def _check_microbatches(schedule: Schedule, plan: Plan) -> None:
    """Every action names a microbatch that passes through its stage on its rank."""
    for rank, held in enumerate(plan.chunks):
        here = _positions(schedule, rank)
        stage, microbatch = schedule.stage[here], schedule.microbatch[here]
        for n in held:
            passing = plan.microbatches_of(n, plan.stages[n].devices.index(plan.devices[rank]))
            stray = (stage == n) & ~(
                (microbatch < plan.microbatches) & (microbatch % passing.step == passing.start % passing.step)
            )
            if stray.any():
                reason = (
                    f"this microbatch does not pass through {plan.devices[rank]} (microbatches: {plan.microbatches})"
                )
                raise _bad_cell(schedule, rank, int(np.argmax(stray)), reason, _who_waits(schedule, plan))


def _positions(schedule: Schedule, rank: int) -> slice:
    return slice(int(schedule.starts[rank]), int(schedule.starts[rank + 1]))


def _check_complete(schedule: Schedule, plan: Plan) -> NDArray[np.int64]:
    """Per rank, stage and microbatch: one F, and either one B or one I and one W. Returns the number of these three."""
    slots = [(rank, n) for rank, held in enumerate(plan.chunks) for n in held]
    passing = [plan.microbatches_of(n, plan.stages[n].devices.index(plan.devices[rank])) for rank, n in slots]
    present = np.unique(schedule.microbatch)
    if len(present) < plan.microbatches:  # found before any memory is taken for that many
        absent = int(np.argmin(np.append(present, -1) == np.arange(len(present) + 1)))
        where = next(slot for slot, microbatches in enumerate(passing) if absent in microbatches)
        raise _incomplete(schedule, plan, *slots[where], absent, [0, 0, 0, 0])
    slot_of = np.zeros((len(plan.devices), len(plan.stages)), np.int64)
    slot_of[tuple(np.array(slots).T)] = np.arange(len(slots))
    slot_at = slot_of[schedule.rank, schedule.stage]
    begin = np.concatenate([[0], np.cumsum([len(microbatches) for microbatches in passing])]).astype(np.int64)
    cell: NDArray[np.int64] = begin[slot_at] + schedule.microbatch // np.array([one.step for one in passing])[slot_at]
    counts = np.stack([np.bincount(cell[schedule.kind == kind], minlength=int(begin[-1])) for kind in range(4)])
    right = (counts[0] == 1) & (counts[1] + counts[2] == 1) & (counts[2] == counts[3])
    if not right.all():
        wrong = int(np.argmin(right))
        slot = int(np.searchsorted(begin, wrong, side="right")) - 1
        microbatch = passing[slot][wrong - int(begin[slot])]
        raise _incomplete(schedule, plan, *slots[slot], microbatch, counts[:, wrong].tolist())
    return cell


def _incomplete(  # noqa: PLR0917 - where, and what is there
    schedule: Schedule, plan: Plan, rank: int, stage: int, microbatch: int, counts: list[int]
) -> ScheduleError:
    cells = [Action(stage, kind, microbatch) for kind in range(4)]
    found = " and ".join(f"{count} x {cell}" for count, cell in zip(counts, cells, strict=True) if count)
    return ScheduleError(
        f"rank {rank} ({plan.devices[rank]}), stage {stage}, microbatch {microbatch}: {found or 'nothing'} found; one "
        f"{cells[FORWARD]} and one {cells[BACKWARD]} (or one {cells[INPUT]} and one {cells[WEIGHT]}) were expected"
        f"{_who_waits(schedule, plan)}"
    )


def _who_waits(schedule: Schedule, plan: Plan) -> str:
    """Where each rank is stuck if such a schedule is run all the same."""
    run = _progress(schedule, plan)
    return "" if run.position == run.ends else f"\nso these wait:\n{_stuck_table(schedule, run, plan)}"


def with_messages(schedule: Schedule, plan: Plan) -> list[list[str]]:
    """The cells of each rank with what it sends and receives, as PyTorch's `compute_comms` form has them.

    0F0, 0SEND_F0, 0F1, 0SEND_F1, 0RECV_B0, 0B0      a receive stands where the sender has come to its send
    0B1, 0REDUCE_GRAD                                after a stage's last gradient; PyTorch takes the mean there
    """
    if max(plan.replication) > 1 and plan.replicas == "split":
        raise ScheduleError("the form with messages is for stages that do not split microbatches over replicas")
    texts: list[list[str]] = [[] for _ in range(len(schedule))]
    ending = np.isin(schedule.kind, [BACKWARD, WEIGHT])
    left = Counter(zip(schedule.rank[ending].tolist(), schedule.stage[ending].tolist(), strict=True))

    def tell(rank: int, cell: str, actions: list[Action]) -> None:
        texts[rank].append(cell)
        for stage, kind, microbatch in actions:
            to = _receiver(plan, stage, kind, microbatch)
            if to is not None and to != rank:
                letter, other = ("F", stage + 1) if kind == FORWARD else ("B", stage - 1)
                texts[rank].append(f"{stage}SEND_{letter}{microbatch}")
                texts[to].append(f"{other}RECV_{letter}{microbatch}")
        for stage in [action.stage for action in actions if action.kind in {BACKWARD, WEIGHT}]:
            left[rank, stage] -= 1
            if not left[rank, stage]:
                texts[rank].append(f"{stage}REDUCE_GRAD")

    _progress(schedule, plan, tell)
    return texts


def _receiver(plan: Plan, stage: int, kind: int, microbatch: int) -> int | None:
    """The rank that takes what an action makes, if any does."""
    other = stage + 1 if kind == FORWARD else stage - 1
    if kind == WEIGHT or not 0 <= other < len(plan.stages):
        return None
    devices = plan.stages[other].devices
    return plan.devices.index(devices[microbatch % len(devices)])


def _progress(schedule: Schedule, plan: Plan, tell: Callable[[int, str, list[Action]], None] | None = None) -> "_Run":
    """How far each rank comes when the schedule runs without clock or costs: in turn, a cell of each that can go on.

    What an action waits for is a count: how many replicas have done an action of that stage and microbatch. Turns keep
    messages in about the order of time: a receive that stands early may hold up those after it.
    """
    run = _Run(schedule, plan)
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


def _by_cell(run: "_Run", rank: int) -> list[list[Action]]:
    """The actions of each cell of a rank."""
    found, at = [], run.position[rank]
    while at < run.ends[rank]:
        stop = at + 2 if run.paired[at] else at + 1
        found.append([Action(run.stage[i], run.kind[i], run.microbatch[i]) for i in range(at, stop)])
        at = stop
    return found


class _Run:
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


def _stuck_table(schedule: Schedule, run: _Run, plan: Plan) -> str:
    """Around the first cell that each rank cannot do, and why it waits."""
    lines = []
    for rank, at in enumerate(run.position):
        missing = run.missing(rank) if at < run.ends[rank] else None
        if missing is not None:
            lines.append(
                f"  rank {rank}: {_around(schedule, rank, at)}   waits for {_awaited(schedule, missing, at, plan)}"
            )
    return "\n".join(lines)


def _around(schedule: Schedule, rank: int, at: int, around: int = 3) -> str:
    """The cells next to a position, which is marked."""
    begin, end = max(int(schedule.starts[rank]), at - around), min(int(schedule.starts[rank + 1]), at + around + 1)
    if begin and schedule.paired[begin - 1] and begin > schedule.starts[rank]:
        begin += 1  # not the second half of a pair alone
    part = Schedule.of_arrays([np.stack([getattr(schedule, name)[begin:end] for name in _COLUMNS], axis=1)])
    cells, place = part.cells[0], begin
    for index, cell in enumerate(cells):
        if place == at:
            cells[index] = f">{cell}<"
        place += 2 if cell.startswith("(") else 1
    return " ".join(cells)


_COLUMNS = ("stage", "kind", "microbatch", "paired")


def _awaited(schedule: Schedule, missing: int, at: int, plan: Plan) -> str:
    own = missing < 0
    slot, backwards = divmod(-1 - missing if own else missing, 2)
    microbatch, stage = divmod(slot, len(plan.stages))
    if not own:
        return f"{stage}{'B' if backwards else 'F'}{microbatch} of {', '.join(plan.stages[stage].devices)}"
    after = slice(at, int(schedule.starts[schedule.rank[at] + 1]))
    same = (schedule.stage[after] == stage) & (schedule.microbatch[after] == microbatch)
    later = (same & np.isin(schedule.kind[after], [INPUT, BACKWARD] if backwards else [FORWARD])).any()
    where = "which comes later on the same rank" if later else "which the rank does not do"
    return f"{stage}{'I' if backwards else 'F'}{microbatch}, {where}"


def _bad_cell(schedule: Schedule, rank: int, column: int, reason: str, stuck: str = "") -> ScheduleError:
    cell, row = schedule.rows[rank][column], _around(schedule, rank, int(schedule.starts[rank]) + column)
    return ScheduleError(f"rank {rank}, cell {column + 1}: {cell} found; {reason}\n  rank {rank}: {row}{stuck}")
