"""From operations in columns to a recorded run: places of ranks, stages, microbatches, messages and clocks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import (
    COMPUTATIONS,
    POINT_TO_POINT,
    RECEIVE_GRADIENT,
    SEND_ACTIVATION,
    RecordedRun,
    RunLayout,
    in_order,
)
from pipesim.importers.operations.clock_alignment import aligned_clocks
from pipesim.importers.operations.communication_matching import (
    counted,
    matches,
    with_message_places,
)
from pipesim.importers.operations.operation_columns import OperationColumns, PlacedOperations, RunFacts

_MOST_RANKS, _MOST_STAGES, _MOST_MICROBATCHES = 2**20, 2**16, 2**20
NO_FACTS = RunFacts()


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Where each rank is: per rank, in rising order of their numbers."""

    numbers: Ints
    position: Ints
    replica: Ints
    member: Ints  # among the ranks of the same position and replica
    pp: int
    dp: int
    tp: int


def run_of_operations(columns: OperationColumns, source: str, facts: RunFacts = NO_FACTS) -> RecordedRun:
    """The run that these operations were recorded of; what is missing and can be found from the others is completed."""
    if not len(columns.kind):
        raise InputError("no operations found; at least one was expected")
    _check_times(columns)
    steps, step = np.unique(columns.step, return_inverse=True)
    ranks, rank, notes = _ranks(columns, facts)
    stage, vpp = _stages(columns, ranks, rank)
    order = in_order(step, rank, columns.start, columns.end, columns.kind)
    found = PlacedOperations(
        step=step[order],
        rank=rank[order],
        replica=ranks.replica[rank[order]],
        member=ranks.member[rank[order]],
        kind=columns.kind[order],
        name=columns.name[order],
        stage=stage[order],
        microbatch=np.full(len(order), -1) if columns.microbatch is None else columns.microbatch[order],
        sequence=(columns.start if columns.order is None else columns.order)[order],
        start=columns.start[order],
        end=columns.end[order],
    )
    found = _with_microbatches(found)
    holder = _holders(ranks, vpp, found)
    found, more = with_message_places(found, holder)
    match = (
        matches(found, _groups(columns, ranks, found)) if columns.match is None else _renumbered(columns.match[order])
    )
    shift, clock, clock_notes = aligned_clocks(found, match, (len(steps), len(ranks.numbers)), facts)
    return _run(
        found,
        shift,
        source=source,
        layout=RunLayout(ranks.pp, ranks.dp, ranks.tp, vpp),
        steps=tuple(steps.tolist()),
        ranks=tuple(ranks.numbers.tolist()),
        replica=ranks.replica,
        position=ranks.position,
        names=columns.names,
        peer=_peers(found, ranks, holder),
        match=match,
        size=np.full(len(order), np.nan) if columns.size is None else columns.size[order],
        clock=clock,
        notes=(*facts.notes, *notes, *more, *clock_notes),
    )


def _run(found: PlacedOperations, shift: Ints, **others: Any) -> RecordedRun:  # noqa: ANN401 - the fields of a run
    """The run on corrected clocks, each step from 0 on."""
    start, end = (column + shift[found.step, found.rank] for column in (found.start, found.end))
    first = np.full(len(shift), np.iinfo(np.int64).max)
    np.minimum.at(first, found.step, start)
    start, end = start - first[found.step], end - first[found.step]
    order = in_order(found.step, found.rank, start, end, found.kind, found.stage, found.microbatch)
    columns = {name: getattr(found, name) for name in ("step", "rank", "kind", "name", "stage", "microbatch")}
    columns |= {name: others[name] for name in ("peer", "match", "size")} | {"start": start, "end": end}
    return RecordedRun(**(others | {name: column[order] for name, column in columns.items()}))


def _check_times(columns: OperationColumns) -> None:
    for one, column in (("start", columns.start), ("end", columns.end)):
        if np.abs(column.astype(np.float64)).max() > units.LONGEST_NS:
            raise InputError(f"{one}: a time of more than 146 years found")
    backwards = columns.end < columns.start
    if backwards.any():
        at = int(np.argmax(backwards))
        raise InputError(
            f"{columns.names[columns.name[at]] or 'an operation'} on rank {columns.rank[at]} in step "
            f"{columns.step[at]} ends {columns.start[at] - columns.end[at]} ns before it starts"
        )


def _renumbered(match: Ints) -> Ints:
    found = np.full(len(match), -1, np.int64)
    matched = match >= 0
    found[matched] = np.unique(match[matched], return_inverse=True)[1]
    return found


# --- ranks and stages ------------------------------------------------------------------------------------------------


def _ranks(columns: OperationColumns, facts: RunFacts) -> tuple[_Ranks, Ints, tuple[str, ...]]:
    """The place of each rank, by what the record has or by Megatron's order: tensor first, then data, then pipeline."""
    numbers, rank = np.unique(columns.rank, return_inverse=True)
    count = len(numbers)
    if count > _MOST_RANKS:
        raise InputError(f"{count} ranks found; at most {_MOST_RANKS} were expected")
    position = _per_rank("position", columns.position, rank, count)
    replica = _per_rank("replica", columns.replica, rank, count)
    notes: tuple[str, ...] = ()
    if position is None or replica is None:
        tp = facts.tp or 1
        dp = facts.dp or (int(replica.max()) + 1 if replica is not None else _dp_by_position(position, count, tp))
        if count % (dp * tp):
            raise InputError(f"{count} ranks found, which dp = {dp} and tp = {tp} do not divide; state others")
        place = np.arange(count)
        position = place // (dp * tp) if position is None else position
        replica = place // tp % dp if replica is None else replica
        if count > 1:
            notes = ("places of ranks by their numbers: tensor-parallel ones first, then data, then pipeline",)
    (positions, position), (replicas, replica) = (
        np.unique(column, return_inverse=True) for column in (position, replica)
    )
    member = counted([position, replica], np.arange(count))
    tp = int(member.max()) + 1
    found = _Ranks(
        numbers, position.astype(np.int64), replica.astype(np.int64), member, len(positions), len(replicas), tp
    )
    if count > 1 and tp == 1 and (stride := int(np.gcd.reduce(np.diff(numbers)))) > 1:
        notes += (f"ranks are numbered in steps of {stride}: one of {stride} that work in lockstep was recorded",)
    return found, rank.astype(np.int64), notes


def _per_rank(what: str, column: Ints | None, rank: Ints, count: int) -> Ints | None:
    """The value that all operations of a rank have."""
    if column is None:
        return None
    found = np.zeros(count, np.int64)
    found[rank] = column
    if (found[rank] != column).any():
        at = int(np.argmax(found[rank] != column))
        raise InputError(f"a rank with {what} {column[at]} and {found[rank[at]]}; one for each rank was expected")
    if found.min() < 0:
        raise InputError(f"{what}: {found.min()} found; 0 or more was expected")
    return found


def _dp_by_position(position: Ints | None, count: int, tp: int) -> int:
    """How many replicas there are if only positions are known, or nothing: then one."""
    return 1 if position is None else max(count // (tp * len(np.unique(position))), 1)


def _stages(columns: OperationColumns, ranks: _Ranks, rank: Ints) -> tuple[Ints, int]:
    """Per operation its stage of the whole pipeline, -1 where it is about none; and chunks per rank."""
    computes = np.isin(columns.kind, COMPUTATIONS)
    if columns.stage is not None:
        stage = np.where(columns.stage < 0, -1, columns.stage)
        if (stage[computes] < 0).any():
            raise InputError("a forward or backward without a stage found")
        vpp = -(-(int(stage.max(initial=-1)) + 1) // ranks.pp)
    else:
        chunk = np.zeros(len(rank), np.int64) if columns.chunk is None else columns.chunk
        vpp = max(int(chunk[computes].max(initial=0)), 0) + 1
        known = computes | (chunk >= 0) if columns.chunk is not None else computes
        stage = np.where(known, np.minimum(np.maximum(chunk, 0), vpp - 1) * ranks.pp + ranks.position[rank], -1)
    if vpp * ranks.pp > _MOST_STAGES:
        raise InputError(f"{vpp * ranks.pp} stages found; at most {_MOST_STAGES} were expected")
    return stage.astype(np.int64), max(vpp, 1)


def _holders(ranks: _Ranks, vpp: int, found: PlacedOperations) -> Ints:
    """Stage -> the position in the pipeline of the ranks that computed it."""
    holder = np.arange(ranks.pp * vpp) % ranks.pp
    rows = np.flatnonzero(np.isin(found.kind, COMPUTATIONS))
    holder[found.stage[rows]] = ranks.position[found.rank[rows]]
    return holder


# --- microbatches and collectives ------------------------------------------------------------------------------------


def _with_microbatches(found: PlacedOperations) -> PlacedOperations:
    """The operations with the microbatch of each forward and backward, from 0 in each replica.

    Where it was not recorded, the k-th of its kind and stage on a rank is of microbatch k.
    """
    step, replica = found.step, found.replica
    computes = np.isin(found.kind, COMPUTATIONS)
    number = np.where(found.microbatch < 0, -1, found.microbatch)
    number[~computes & ~np.isin(found.kind, POINT_TO_POINT)] = -1
    unknown = np.flatnonzero(computes & (number < 0))
    if len(unknown):
        if len(unknown) != computes.sum():
            raise InputError("some forwards and backwards have a microbatch, and others have none")
        groups = [getattr(found, name)[unknown] for name in ("stage", "kind", "rank", "step")]
        number[unknown] = counted(groups, found.sequence[unknown])
    rows = np.flatnonzero(number >= 0)
    if not len(rows):
        return replace(found, microbatch=number)
    # Some frameworks number microbatches through all replicas: in each replica they are numbered from 0.
    order = rows[np.lexsort((number[rows], replica[rows], step[rows]))]
    begins = np.concatenate([np.ones(1, bool), (np.diff(replica[order]) != 0) | (np.diff(step[order]) != 0)])
    rises = np.cumsum(begins | np.concatenate([np.zeros(1, bool), np.diff(number[order]) != 0]))
    dense = rises - np.maximum.accumulate(np.where(begins, rises, 0))
    if int(dense.max()) > _MOST_MICROBATCHES:
        raise InputError(f"{dense.max() + 1} microbatches found; at most {_MOST_MICROBATCHES} were expected")
    number[order] = dense
    return replace(found, microbatch=number)


def _peers(found: PlacedOperations, ranks: _Ranks, holder: Ints) -> Ints:
    """The rank at the other end of each message, -1 where it is not known."""
    peer = np.full(len(found.kind), -1, np.int64)
    rows = np.flatnonzero(np.isin(found.kind, POINT_TO_POINT) & (found.stage >= 0))
    later = np.isin(found.kind[rows], (SEND_ACTIVATION, RECEIVE_GRADIENT))
    other = found.stage[rows] + np.where(later, 1, -1)
    inside = (other >= 0) & (other < len(holder))
    rows, other = rows[inside], other[inside]
    place = (ranks.replica * ranks.pp + ranks.position) * ranks.tp + ranks.member
    sorted_ranks = np.argsort(place)
    wanted = (found.replica[rows] * ranks.pp + holder[other]) * ranks.tp + found.member[rows]
    at = sorted_ranks[np.minimum(np.searchsorted(place[sorted_ranks], wanted), len(place) - 1)]
    peer[rows] = np.where(place[at] == wanted, at, -1)
    return peer


def _groups(columns: OperationColumns, ranks: _Ranks, found: PlacedOperations) -> Ints:
    """Per operation a number of the ranks that take part if it is a collective; -1 where they are not known."""
    group = np.full(len(found.kind), -1, np.int64)
    numbers = {
        "data": ranks.position * ranks.tp + ranks.member,
        "replica": ranks.replica * ranks.tp + ranks.member,
        "tensor": ranks.replica * ranks.pp + ranks.position,
        "all": np.zeros(len(ranks.numbers), np.int64),
    }
    for at, members in enumerate(columns.members):
        if members:
            rows = found.name == at
            group[rows] = numbers[members][found.rank[rows]]
    return group
