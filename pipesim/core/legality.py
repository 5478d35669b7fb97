"""Validation of a schedule against its plan: each action once, on its device, in an order without deadlock."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from pipesim.base.errors import DeadlockError, ScheduleError
from pipesim.core.completion import completes
from pipesim.core.plan import Plan
from pipesim.core.progress import RankProgress, execute
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Action, Schedule


def check(schedule: Schedule, plan: Plan) -> None:
    """Refuse a schedule that does not do each action of its plan once, on its device, in an order without deadlock."""
    if len(schedule) != (ranks := len(plan.devices)):
        raise ScheduleError(f"{len(schedule)} ranks found; {ranks} were expected, one per device of the plan")
    _check_stages(schedule, plan)
    _check_pairs(schedule)
    _check_microbatches(schedule, plan)
    cell = _check_complete(schedule, plan)
    if not completes(schedule, plan, cell):
        raise DeadlockError(f"{_IMPOSSIBLE}\n{_stuck_table(schedule, execute(schedule, plan), plan)}")


_IMPOSSIBLE = "the order is impossible: every rank below waits for another (>waiting cell<)"


def _check_stages(schedule: Schedule, plan: Plan) -> None:
    """Every action names a stage of its rank."""
    holds = np.zeros((len(plan.devices), len(plan.stages)), bool)
    for rank, held in enumerate(plan.chunks):
        holds[rank, list(held)] = True
    known = (schedule.stage >= 0) & (schedule.stage < len(plan.stages))
    wrong = ~(known & holds[schedule.rank, np.where(known, schedule.stage, 0)])
    if wrong.any():
        at = int(np.argmax(wrong))
        rank = int(schedule.rank[at])
        reason = f"{plan.devices[rank]} does not have this stage"
        raise _bad_cell(schedule, rank, at - int(schedule.starts[rank]), reason)


def _check_pairs(schedule: Schedule) -> None:
    """An overlapped pair is a forward and then a backward, next to each other on one rank."""
    first = np.flatnonzero(schedule.paired)
    if not len(first):
        return
    inside = np.isin(first + 1, schedule.starts, invert=True)
    second = np.minimum(first + 1, len(schedule.kind) - 1)
    apart = (schedule.kind[first] == FORWARD) & np.isin(schedule.kind[second], [BACKWARD, INPUT])
    right = inside & apart & ~schedule.paired[second]
    if not right.all():
        at = int(first[np.argmin(right)])
        rank = int(schedule.rank[at])
        reason = "a pair must be a forward and then a backward"
        raise _bad_cell(schedule, rank, at - int(schedule.starts[rank]), reason)


def _check_microbatches(schedule: Schedule, plan: Plan) -> None:
    """Every action names a microbatch that passes through its stage on its rank."""
    if (schedule.microbatch < plan.microbatches).all() and plan.replicas == "split":
        return
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
                raise _bad_cell(schedule, rank, int(np.argmax(stray)), reason, _waiting_ranks(schedule, plan))


def _positions(schedule: Schedule, rank: int) -> slice:
    return slice(int(schedule.starts[rank]), int(schedule.starts[rank + 1]))


def _check_complete(schedule: Schedule, plan: Plan) -> NDArray[np.int64]:
    """Check that each rank, stage and microbatch has one F, and either one B or one I and one W.

    Returns, for every action, the number of its rank, stage and microbatch.
    """
    slots = [(rank, n) for rank, held in enumerate(plan.chunks) for n in held]
    passing = [plan.microbatches_of(n, plan.stages[n].devices.index(plan.devices[rank])) for rank, n in slots]
    present = np.unique(schedule.microbatch)
    if len(present) < plan.microbatches:  # checked before memory is allocated for that many
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


def _incomplete(  # noqa: PLR0917 - the place and its counts
    schedule: Schedule, plan: Plan, rank: int, stage: int, microbatch: int, counts: list[int]
) -> ScheduleError:
    cells = [Action(stage, kind, microbatch) for kind in range(4)]
    found = " and ".join(f"{count} x {cell}" for count, cell in zip(counts, cells, strict=True) if count)
    return ScheduleError(
        f"rank {rank} ({plan.devices[rank]}), stage {stage}, microbatch {microbatch}: {found or 'nothing'} found; one "
        f"{cells[FORWARD]} and one {cells[BACKWARD]} (or one {cells[INPUT]} and one {cells[WEIGHT]}) were expected"
        f"{_waiting_ranks(schedule, plan)}"
    )


def _waiting_ranks(schedule: Schedule, plan: Plan) -> str:
    """Where ranks wait forever if this schedule is executed."""
    run = execute(schedule, plan)
    return "" if run.position == run.ends else f"\nso these wait:\n{_stuck_table(schedule, run, plan)}"


def with_messages(schedule: Schedule, plan: Plan) -> list[list[str]]:
    """The cells of each rank with what it sends and receives, as PyTorch's `compute_comms` form has them.

    0F0, 0SEND_F0, 0F1, 0SEND_F1, 0RECV_B0, 0B0      a receive is placed where the sender reaches its send
    0B1, 0REDUCE_GRAD                                after the last gradient of a stage; PyTorch reduces there
    """
    if max(plan.replication) > 1 and plan.replicas == "split":
        raise ScheduleError("the form with messages is for stages that do not split microbatches over replicas")
    texts: list[list[str]] = [[] for _ in range(len(schedule))]
    ending = np.isin(schedule.kind, [BACKWARD, WEIGHT])
    left = Counter(zip(schedule.rank[ending].tolist(), schedule.stage[ending].tolist(), strict=True))

    def on_cell(rank: int, cell: str, actions: list[Action]) -> None:
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

    execute(schedule, plan, on_cell)
    return texts


def _receiver(plan: Plan, stage: int, kind: int, microbatch: int) -> int | None:
    """The rank that receives the output of an action, if any."""
    other = stage + 1 if kind == FORWARD else stage - 1
    if kind == WEIGHT or not 0 <= other < len(plan.stages):
        return None
    devices = plan.stages[other].devices
    return plan.devices.index(devices[microbatch % len(devices)])


def _stuck_table(schedule: Schedule, run: RankProgress, plan: Plan) -> str:
    """For each waiting rank the cells around its next one, and what that waits for."""
    lines = []
    for rank, at in enumerate(run.position):
        missing = run.missing(rank) if at < run.ends[rank] else None
        if missing is not None:
            lines.append(
                f"  rank {rank}: {_around(schedule, rank, at)}   waits for {_awaited(schedule, missing, at, plan)}"
            )
    return "\n".join(lines)


def _around(schedule: Schedule, rank: int, at: int, around: int = 3) -> str:
    """The cells around a position, which is marked."""
    begin, end = max(int(schedule.starts[rank]), at - around), min(int(schedule.starts[rank + 1]), at + around + 1)
    if begin and schedule.paired[begin - 1] and begin > schedule.starts[rank]:
        begin += 1  # do not show the second half of a pair alone
    if end < schedule.starts[rank + 1] and schedule.paired[end - 1]:
        end += 1  # nor the first
    columns = np.stack([getattr(schedule, name)[begin:end] for name in _COLUMNS], axis=1)
    columns[-1:, _COLUMNS.index("paired")] = False  # a pair needs an action after it
    cells, place = Schedule.of_arrays([columns]).cells[0], begin
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
    same = (schedule.stage == stage) & (schedule.microbatch == microbatch)
    if not own:
        parts = (same & (schedule.kind == INPUT)).any() and not (same & (schedule.kind == BACKWARD)).any()
        kind = FORWARD if not backwards else INPUT if parts else BACKWARD  # as it is in the other ranks
        return f"{Action(stage, kind, microbatch)} of {', '.join(plan.stages[stage].devices)}"
    after = slice(at, int(schedule.starts[schedule.rank[at] + 1]))
    later = (same & np.isin(schedule.kind, [INPUT, BACKWARD] if backwards else [FORWARD]))[after].any()
    where = "which comes later on the same rank" if later else "which the rank never does"
    return f"{Action(stage, INPUT if backwards else FORWARD, microbatch)}, {where}"


def _bad_cell(schedule: Schedule, rank: int, column: int, reason: str, stuck: str = "") -> ScheduleError:
    cell, row = schedule.rows[rank][column], _around(schedule, rank, int(schedule.starts[rank]) + column)
    return ScheduleError(f"rank {rank}, cell {column + 1}: {cell} found; {reason}\n  rank {rank}: {row}{stuck}")
