"""From the profiles of all ranks of a pipelined run to a recorded run: every iteration, with what was sent and reduced.

actions, communications ──┬─ messages: the k-th from rank a to b is of the k-th action of a whose output goes to b
(of all ranks)            ├─ collectives: the k-th of its name and ranks is one, on all of them
                          └─ optimizer steps: ranges such as Optimizer.step#AdamW.step
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core import recorded_run as runs
from pipesim.core.recorded_run import RecordedRun
from pipesim.importers.kineto.action_times import RankActions, at_work
from pipesim.importers.kineto.events import RANGE, Events
from pipesim.importers.kineto.process_groups import P2P, Communication
from pipesim.importers.operations.operation_columns import Members, OperationColumns, RunFacts
from pipesim.importers.operations.run_assembly import NO_FACTS, run_of_operations

_OPTIMIZER = re.compile(r"Optimizer\.step#", re.IGNORECASE)
NAMES = ("", "optimizer")  # then the kinds of collectives

Spans = tuple[Ints, Ints]


def optimizer_spans(events: Events) -> Spans:
    """When a rank worked in steps of the optimizer, in ns since the epoch."""
    hit = np.array([bool(_OPTIMIZER.match(name)) for name in events.names], bool)
    rows = events.of(RANGE)
    rows = rows[hit[events.name[rows]]]
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, end = at_work(events, rows)
    return start + events.origin, np.maximum(start, end) + events.origin


def run_of(
    actions: Sequence[RankActions],
    seen: Iterable[Communication],
    optimizer: Mapping[int, Spans],
    source: str,
    facts: RunFacts = NO_FACTS,
) -> RecordedRun:
    """The run with these actions, communications and steps of the optimizer, by rank."""
    by_rank = sorted(actions, key=lambda one: one.rank)
    places = _places(by_rank)
    rows = _RunRows(places)
    for one in by_rank:
        _add_actions(rows, one)
        _add_optimizer(rows, one, *optimizer.get(one.rank, (np.zeros(0, np.int64), np.zeros(0, np.int64))))
    kept = [one for one in seen if one.rank in places]
    notes = _add_messages(rows, by_rank, [one for one in kept if one.kind == P2P])
    _add_collectives(rows, by_rank, [one for one in kept if one.kind != P2P])
    stated = RunFacts(facts.dp, facts.tp, facts.clocks, facts.separate_clocks, (*facts.notes, *notes))
    return run_of_operations(rows.columns(), source, stated)


@dataclass
class _RunRows:
    """Operations under construction."""

    places: dict[int, tuple[int, int]]  # rank -> position in the pipeline and replica
    rows: list[tuple[int, ...]] = field(default_factory=list)  # step, rank, kind, name, stage, microbatch, start, ...
    sizes: list[float] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=lambda: {name: at for at, name in enumerate(NAMES)})
    matches: int = 0

    def add(  # noqa: PLR0917 - a row
        self, step: int, rank: int, kind: int, span: tuple[int, int], place: tuple[int, int] = (-1, -1),
        name: str = "", size: float = np.nan, match: int = -1,
    ) -> None:  # fmt: skip
        """Add an operation of a stage and microbatch, `place`."""
        number = self.names.setdefault(name, len(self.names))
        self.rows.append((step, rank, kind, number, *place, *span, match))
        self.sizes.append(size)

    def columns(self) -> OperationColumns:
        """All of them."""
        step, rank, kind, name, stage, microbatch, start, end, match = np.array(self.rows, np.int64).T
        position, replica = np.array([self.places[one] for one in rank.tolist()], np.int64).T
        members = cast("tuple[Members, ...]", ("",) * len(self.names))  # matches are stated
        return OperationColumns(
            step=step, rank=rank, kind=kind, name=name, names=tuple(self.names), members=members,
            start=start, end=np.maximum(start, end), position=position, replica=replica, stage=stage,
            microbatch=microbatch, size=np.array(self.sizes), match=match,
        )  # fmt: skip


def _places(actions: Sequence[RankActions]) -> dict[int, tuple[int, int]]:
    """Rank -> its position in the pipeline and its replica: ranks with the same stages are replicas."""
    holders: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for one in actions:
        holders[tuple(np.unique(one.stage).tolist())].append(one.rank)
    counts = {len(ranks) for ranks in holders.values()}
    stages = [stage for held in holders for stage in held]
    if len(counts) != 1 or len(stages) != len(set(stages)):
        raise InputError(
            f"stages {'; '.join(f'{list(held)} on ranks {ranks}' for held, ranks in list(holders.items())[:4])} found; "
            "as many ranks with each, the replicas of one pipeline, were expected"
        )
    return {
        rank: (position, replica)
        for position, held in enumerate(sorted(holders))
        for replica, rank in enumerate(holders[held])
    }


def _add_actions(rows: _RunRows, one: RankActions) -> None:
    columns = (one.iteration, one.kind, one.stage, one.microbatch, one.start + one.origin, one.end + one.origin)
    for step, kind, stage, microbatch, start, end in zip(*(column.tolist() for column in columns), strict=True):
        rows.add(step, one.rank, kind, (start, end), (stage, microbatch))


def _add_optimizer(rows: _RunRows, one: RankActions, start: Ints, end: Ints) -> None:
    step = _steps_at(one, start)
    for at, (number, begin, stop) in enumerate(zip(step.tolist(), start.tolist(), end.tolist(), strict=True)):
        if number >= 0 and (at == 0 or step[at - 1] != number):
            rows.add(number, one.rank, runs.OPTIMIZER, (begin, stop), name="optimizer")


def _steps_at(one: RankActions, time: Ints) -> Ints:
    """The iteration in which something begins: that of the last action that began before; -1 where there is none."""
    begins = one.start + one.origin
    at = np.searchsorted(begins, time, side="right") - 1
    found: Ints = np.where(at >= 0, one.iteration[np.maximum(at, 0)], -1)
    return found


# --- messages --------------------------------------------------------------------------------------------------------


def _add_messages(rows: _RunRows, actions: Sequence[RankActions], seen: Sequence[Communication]) -> tuple[str, ...]:
    """Sends and receives with the place of the action that makes what is sent; what could not be placed is left out."""
    sends: dict[tuple[int, int], list[Communication]] = defaultdict(list)
    receives: dict[tuple[int, int], list[Communication]] = defaultdict(list)
    for one in sorted(seen, key=lambda one: one.start):
        (receives if one.receives else sends)[one.source, one.target].append(one)
    made = _made(rows, actions)
    lost = 0
    for channel in sorted({*sends, *receives}):
        works, (sent, got) = made.get(channel, []), (sends[channel], receives[channel])
        # In some backends a rank's profile has its sends only, or its receives only.
        if not works or {len(sent), len(got)} - {0, len(works)}:
            lost += len(sent) + len(got)
            continue
        for at, (step, kind, stage, microbatch) in enumerate(works):
            forward = kind == runs.FORWARD
            both = bool(sent) and bool(got)
            match, rows.matches = (rows.matches if both else -1), rows.matches + both
            if sent:
                kinds = runs.SEND_ACTIVATION if forward else runs.SEND_GRADIENT
                rows.add(step, channel[0], kinds, (sent[at].start, sent[at].end), (stage, microbatch), "send",
                         sent[at].size, match)  # fmt: skip
            if got:
                kinds, next_stage = (
                    (runs.RECEIVE_ACTIVATION, stage + 1) if forward else (runs.RECEIVE_GRADIENT, stage - 1)
                )
                rows.add(step, channel[1], kinds, (got[at].start, got[at].end), (next_stage, microbatch), "receive",
                         got[at].size, match)  # fmt: skip
    return (f"{lost} messages left out: not as many as actions whose output goes there",) if lost else ()


def _made(rows: _RunRows, actions: Sequence[RankActions]) -> dict[tuple[int, int], list[tuple[int, int, int, int]]]:
    """(sender, receiver) -> (iteration, kind, stage, microbatch) of actions whose output goes there, in order."""
    holder = {(int(stage), rows.places[one.rank][1]): one.rank for one in actions for stage in np.unique(one.stage)}
    found: dict[tuple[int, int], list[tuple[int, int, int, int]]] = defaultdict(list)
    for one in actions:
        replica = rows.places[one.rank][1]
        order = np.lexsort((one.end, one.iteration))
        for at in order.tolist():
            kind, stage = int(one.kind[at]), int(one.stage[at])
            way = {runs.FORWARD: 1, runs.BACKWARD: -1, runs.INPUT: -1}.get(kind, 0)
            other = holder.get((stage + way, replica))
            if way and other is not None and other != one.rank:
                found[one.rank, other].append((int(one.iteration[at]), kind, stage, int(one.microbatch[at])))
    return found


# --- collectives -----------------------------------------------------------------------------------------------------


def _add_collectives(rows: _RunRows, actions: Sequence[RankActions], seen: Sequence[Communication]) -> None:
    """Collectives, those of one name, step and group that are the k-th on each rank as one."""
    of_rank = {one.rank: one for one in actions}
    groups: dict[tuple[int | str, ...], list[Communication]] = defaultdict(list)
    for number, one in _numbered(sorted(seen, key=lambda one: one.start), of_rank):
        groups[number].append(one)
    for (step, *_), members in groups.items():
        match, rows.matches = (rows.matches, rows.matches + 1) if len(members) > 1 else (-1, rows.matches)
        for one in members:
            rows.add(int(step), one.rank, runs.COLLECTIVE, (one.start, one.end), name=one.kind, size=one.size,
                     match=match)  # fmt: skip


def _numbered(
    seen: Sequence[Communication], of_rank: dict[int, RankActions]
) -> Iterator[tuple[tuple[int | str, ...], Communication]]:
    """Each collective with what is equal on all ranks that take part; those before the first action are left out."""
    count: dict[tuple[int | str, ...], int] = defaultdict(int)
    for one in seen:
        step = int(_steps_at(of_rank[one.rank], np.array([one.start]))[0])
        if step >= 0:
            key = (step, one.kind, one.source, one.target, one.participants, one.size)
            turn = count[*key, one.rank]
            count[*key, one.rank] += 1
            yield (*key, turn), one
