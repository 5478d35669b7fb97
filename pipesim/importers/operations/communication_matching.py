"""Which operations are one communication: a send with its receive, and the members of a collective.

Messages are sent and received in the order of the computations that make and read them, so the k-th send of activations
of a rank is of its k-th forward that has a next stage on another rank.

    rank 0   0F0 > 0F1 >         the second > is of stage 0, microbatch 1: it goes with
    rank 1   v 1F0 v 1F1         the second v, of stage 1, microbatch 1
"""

from dataclasses import replace

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.core.recorded_run import (
    BACKWARD,
    COLLECTIVE,
    FORWARD,
    INPUT,
    POINT_TO_POINT,
    RECEIVE_ACTIVATION,
    RECEIVE_GRADIENT,
    SEND_ACTIVATION,
    SEND_GRADIENT,
    SENDS,
)
from pipesim.importers.operations.operation_columns import PlacedOperations

# Kind of message -> the kinds of computation that make or read it; the other end is a stage later or earlier.
_ENDS = {
    SEND_ACTIVATION: ((FORWARD,), 1),
    RECEIVE_ACTIVATION: ((FORWARD,), -1),
    SEND_GRADIENT: ((BACKWARD, INPUT), -1),
    RECEIVE_GRADIENT: ((BACKWARD, INPUT), 1),
}


def group_numbers(columns: list[Ints]) -> Ints:
    """For each row a number, equal in rows that are equal in all columns."""
    order = np.lexsort(columns)
    changes = np.zeros(len(order), np.int64)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    found = np.zeros(len(order), np.int64)
    found[order] = np.cumsum(changes)
    return found


def counted(groups: list[Ints], sequence: Ints) -> Ints:
    """For each row, how many rows of the same groups come before it in sequence."""
    number = group_numbers(groups)
    order = np.lexsort((sequence, number))
    at = np.arange(len(order))
    begins = np.concatenate([np.ones(1, bool), np.diff(number[order]) != 0])[: len(order)]
    found = np.zeros(len(order), np.int64)
    found[order] = at - np.maximum.accumulate(np.where(begins, at, 0))
    return found


def with_message_places(found: PlacedOperations, holder: Ints) -> tuple[PlacedOperations, tuple[str, ...]]:
    """The operations with stage and microbatch of messages, from the computations of their ranks; and what is missing.

    `holder` has the position in the pipeline of each stage.
    """
    lane = group_numbers([found.rank, found.step])
    lanes = int(lane.max()) + 1
    is_message = np.isin(found.kind, POINT_TO_POINT)
    known = is_message & (found.microbatch >= 0) & (found.stage >= 0)
    stage, microbatch = (np.where(is_message & ~known, -1, column) for column in (found.stage, found.microbatch))
    without = 0
    for message, (computed, way) in _ENDS.items():
        messages = np.flatnonzero((found.kind == message) & ~known)
        if not len(messages):
            continue
        other = stage + way
        leaves = np.isin(found.kind, computed) & (other >= 0) & (other < len(holder))
        leaves[leaves] = holder[other[leaves]] != holder[stage[leaves]]
        works = np.flatnonzero(leaves)
        equal = np.bincount(lane[messages], minlength=lanes) == np.bincount(lane[works], minlength=lanes)
        without += int((~equal[lane[messages]]).sum())
        mine, theirs = (
            rows[np.lexsort((found.sequence[rows], lane[rows]))]
            for rows in (messages[equal[lane[messages]]], works[equal[lane[works]]])
        )
        stage[mine], microbatch[mine] = stage[theirs], microbatch[theirs]
    note = f"{without} messages without stage and microbatch: their ranks have more or fewer computations that need one"
    return replace(found, stage=stage, microbatch=microbatch), (note,) if without else ()


def matches(found: PlacedOperations, group: Ints) -> Ints:
    """A number for each send and its receive, and for the members of each collective; -1 for other operations.

    `group` has, per operation, a number of the ranks that take part if it is a collective; -1 where not known.
    """
    match = np.full(len(found.kind), -1, np.int64)
    count = _match_messages(found, match)
    rows = np.flatnonzero((found.kind == COLLECTIVE) & (group >= 0))
    if len(rows):  # the k-th of its name on all ranks of a group
        turn = counted([found.name[rows], found.rank[rows], found.step[rows]], found.sequence[rows])
        number = group_numbers([turn, group[rows], found.name[rows], found.step[rows]])
        several = np.bincount(number) > 1
        match[rows] = np.where(several[number], count + (np.cumsum(several) - 1)[number], -1)
    return match


def _match_messages(found: PlacedOperations, match: Ints) -> int:
    """Number the messages that have one send and one receive; how many these are."""
    rows = np.flatnonzero(np.isin(found.kind, POINT_TO_POINT) & (found.microbatch >= 0))
    if not len(rows):
        return 0
    kind = found.kind[rows]
    gradient, sends = np.isin(kind, (SEND_GRADIENT, RECEIVE_GRADIENT)), np.isin(kind, SENDS)
    sender = found.stage[rows] + np.where(sends, 0, np.where(gradient, 1, -1))
    others = [getattr(found, name)[rows] for name in ("microbatch", "member", "replica", "step")]
    number = group_numbers([gradient.astype(np.int64), sender, *others])
    pairs = (np.bincount(number) == 2) & (np.bincount(number, sends) == 1)
    match[rows] = np.where(pairs[number], (np.cumsum(pairs) - 1)[number], -1)
    return int(pairs.sum())
