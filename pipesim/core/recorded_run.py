"""A recorded run: what every rank did in every recorded step, one row per operation, in columns.

    kind                 letter  stage and microbatch are those of
    forward              F       the computation
    backward             B       the computation
    input                I       the computation (gradient of the input)
    weight               W       the computation (gradient of the weights)
    send_activation      >       the forward whose output is sent
    receive_activation   v       the forward whose input is received
    send_gradient        <       the backward whose output is sent
    receive_gradient     ^       the backward whose input is received
    collective           C       nothing (-1), or the chunk that it is about and no microbatch
    optimizer            O       nothing
    other                .       nothing

A computation lasts as long as it computes. A communication lasts from its posting until it has ended on this rank,
waiting for the other ranks included: `arrival` gives when the last of them had posted theirs.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.checks import check_one_of, check_whole
from pipesim.base.errors import InputError

KINDS = (
    "forward",
    "backward",
    "input",
    "weight",
    "send_activation",
    "receive_activation",
    "send_gradient",
    "receive_gradient",
    "collective",
    "optimizer",
    "other",
)
LETTERS = "FBIW>v<^CO."
(
    FORWARD,
    BACKWARD,
    INPUT,
    WEIGHT,
    SEND_ACTIVATION,
    RECEIVE_ACTIVATION,
    SEND_GRADIENT,
    RECEIVE_GRADIENT,
    COLLECTIVE,
    OPTIMIZER,
    OTHER,
) = range(len(KINDS))
COMPUTATIONS = (FORWARD, BACKWARD, INPUT, WEIGHT)  # the first codes are those of a schedule's actions
SENDS = (SEND_ACTIVATION, SEND_GRADIENT)
RECEIVES = (RECEIVE_ACTIVATION, RECEIVE_GRADIENT)
POINT_TO_POINT = (SEND_ACTIVATION, RECEIVE_ACTIVATION, SEND_GRADIENT, RECEIVE_GRADIENT)

Clock = Literal["shared", "aligned", "separate"]

CLOCKS: tuple[Clock, ...] = ("shared", "aligned", "separate")

_PER_OPERATION = ("step", "rank", "kind", "name", "stage", "microbatch", "peer", "match", "start", "end", "size")
_LARGEST = 2**40  # of numbers of stages and microbatches; products of some of them fit into 64 bits


@dataclass(frozen=True, slots=True)
class RunLayout:
    """The degrees of parallelism of a run: pipeline, data and tensor, and chunks per rank of the pipeline (vpp)."""

    pp: int
    dp: int = 1
    tp: int = 1
    vpp: int = 1

    def __post_init__(self) -> None:
        for name in ("pp", "dp", "tp", "vpp"):
            check_whole(name, getattr(self, name))

    @property
    def stages(self) -> int:
        """How many stages a replica of the model has; stage s is chunk s // pp, unless chunks are placed in a V."""
        return self.pp * self.vpp


@dataclass(frozen=True, eq=False)
class ClockQuality:
    """How well the clocks of the ranks agree.

    `shared`: the record has one clock. `aligned`: each rank's clock was set, per step, from what it sent and received.
    `separate`: each rank counts from a start of its own; times of different ranks cannot be compared.
    """

    kind: Clock
    doubt: Ints  # per rank, the possible remaining error in ns, the median of the steps; 0 where not known
    drift: Floats  # per rank, seconds per second that its clock was faster than that of rank 0; NaN where not known
    early: int = 0  # computations (or, without any, receives) that were recorded before what they wait for
    worst_early: int = 0  # by how many ns at most

    def __post_init__(self) -> None:
        check_one_of("clock", self.kind, CLOCKS)


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """Operations in columns, in order of step, rank and start. Valid if it exists.

    Columns named `step`, `rank` and `name` are positions in `steps`, `ranks` and `names`.
    """

    source: str  # what was read
    layout: RunLayout
    steps: tuple[int, ...]  # as numbered by the run, rising; not always consecutive
    ranks: tuple[int, ...]  # as numbered by the run, rising
    replica: Ints  # per rank, which data-parallel copy of the pipeline it belongs to, from 0
    position: Ints  # per rank, its place in that pipeline, from 0
    names: tuple[str, ...]  # of operations, as the record has them
    # One row per operation.
    step: Ints
    rank: Ints
    kind: Ints
    name: Ints
    stage: Ints  # of the whole pipeline, chunks counted: 0 has the first layers; -1 where it is not about one
    microbatch: Ints  # from 0 in each replica; -1 where it is not about one
    peer: Ints  # the rank (a position) sent to or received from; -1 where there is none, or it is not known
    match: Ints  # equal in the send and the receive of one message, and in all members of a collective; else -1
    start: Ints  # ns since the first operation of the step on any rank
    end: Ints
    size: Floats  # bytes that this rank sends, receives or reduces; NaN where not known
    clock: ClockQuality
    notes: tuple[str, ...] = ()  # what was assumed or left out in reading

    def __post_init__(self) -> None:
        _check_lengths(self)
        _check_numbers(self)
        _check_order(self)
        _check_computations(self)
        _check_matches(self)

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def microbatches(self) -> int:
        """How many microbatches a replica has in a step."""
        return int(self.microbatch.max(initial=-1)) + 1

    @cached_property
    def is_computation(self) -> Bools:
        """Which operations are forwards and backwards."""
        return np.isin(self.kind, COMPUTATIONS)

    @cached_property
    def is_communication(self) -> Bools:
        """Which operations send, receive or are collectives."""
        return np.isin(self.kind, (*POINT_TO_POINT, COLLECTIVE))

    @cached_property
    def step_ns(self) -> Ints:
        """The time of each step: from the first start to the last end on any rank."""
        first = np.full(len(self.steps), np.iinfo(np.int64).max)
        last = np.zeros(len(self.steps), np.int64)
        np.minimum.at(first, self.step, self.start)
        np.maximum.at(last, self.step, self.end)
        found: Ints = last - first
        return found

    @cached_property
    def arrival(self) -> Ints:
        """When a communication could begin to move bytes: the last start among its `match`; else its own start."""
        latest = np.zeros(int(self.match.max(initial=-1)) + 1, np.int64)
        matched = self.match >= 0
        np.maximum.at(latest, self.match[matched], self.start[matched])
        found: Ints = self.start.copy()
        found[matched] = latest[self.match[matched]]
        return found

    @cached_property
    def working(self) -> Ints:
        """The duration of each operation in ns without waiting for other ranks."""
        return np.maximum(self.end - np.where(self.is_communication, self.arrival, self.start), 0)

    def select(self, rows: Bools) -> "RecordedRun":
        """Only these operations; all steps and ranks keep their positions."""
        return replace(self, **_columns(self, rows))

    def of_steps(self, positions: Ints) -> "RecordedRun":
        """Only these steps, which are then at positions 0, 1, ... in rising order."""
        wanted = np.unique(np.asarray(positions, np.int64))
        bounds = np.searchsorted(self.step, np.stack([wanted, wanted + 1]))  # steps are one after the other
        columns = _columns(self, np.concatenate([np.arange(*pair) for pair in bounds.T.tolist()]))
        columns["step"] = np.searchsorted(wanted, columns["step"])
        return replace(self, steps=tuple(self.steps[at] for at in wanted.tolist()), **columns)

    def label(self, row: int) -> str:
        """An operation as messages name it: 0F2 on rank 5 in step 12."""
        kind = int(self.kind[row])
        on = f"on rank {self.ranks[self.rank[row]]} in step {self.steps[self.step[row]]}"
        if self.stage[row] < 0:
            return f"{self.names[self.name[row]] or KINDS[kind]} {on}"
        microbatch = self.microbatch[row] if self.microbatch[row] >= 0 else ""
        return f"{self.stage[row]}{LETTERS[kind]}{microbatch} {on}"


def _columns(run: RecordedRun, rows: Bools | Ints) -> dict[str, Any]:
    """The columns of these operations, their matches numbered from 0."""
    columns = {name: getattr(run, name)[rows] for name in _PER_OPERATION}
    matched = columns["match"] >= 0
    columns["match"][matched] = np.unique(columns["match"][matched], return_inverse=True)[1]
    return columns


def in_order(step: Ints, rank: Ints, start: Ints, end: Ints, *ties: Ints) -> Ints:
    """The rows in the order that a `RecordedRun` has: by step, rank, start, end, and by other columns where equal."""
    return np.lexsort((*reversed(ties), end, start, rank, step)).astype(np.int64)


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_lengths(run: RecordedRun) -> None:
    if not len(run.kind):
        raise InputError("no operations were recorded")
    for names, length, what in (
        (_PER_OPERATION, len(run.kind), "operation"),
        (("replica", "position"), len(run.ranks), "rank"),
    ):
        for name in names:
            found = len(getattr(run, name))
            if found != length:
                raise InputError(f"{name}: {found} rows found; {length} were expected, one per {what}")
    for name, numbers in (("steps", run.steps), ("ranks", run.ranks)):
        if list(numbers) != sorted(set(numbers)):
            raise InputError(f"{name}: rising numbers were expected, each once")


def _check_numbers(run: RecordedRun) -> None:
    for name, least, most in (
        ("step", 0, len(run.steps) - 1),
        ("rank", 0, len(run.ranks) - 1),
        ("kind", 0, len(KINDS) - 1),
        ("name", 0, len(run.names) - 1),
        ("stage", -1, run.layout.stages - 1),
        ("microbatch", -1, _LARGEST),
        ("peer", -1, len(run.ranks) - 1),
        ("match", -1, len(run.kind) - 1),
        ("start", 0, units.LONGEST_NS),
        ("end", 0, units.LONGEST_NS),
        ("replica", 0, run.layout.dp - 1),
        ("position", 0, run.layout.pp - 1),
    ):
        column = getattr(run, name)
        if not (least <= column.min() and column.max() <= most):
            found = column.min() if column.min() < least else column.max()
            raise InputError(f"{name}: {found} found; {least} to {most} was expected")
    if (run.size < 0).any() or np.isinf(run.size).any():
        raise InputError(f"size: {run.size[(run.size < 0) | np.isinf(run.size)][0]} found; bytes were expected")


def _check_order(run: RecordedRun) -> None:
    backwards = run.end < run.start
    if backwards.any():
        at = int(np.argmax(backwards))
        raise InputError(f"{run.label(at)} ends {run.start[at] - run.end[at]} ns before it starts")
    key = run.step * len(run.ranks) + run.rank
    if (np.diff(key) < 0).any() or ((np.diff(key) == 0) & (np.diff(run.start) < 0)).any():
        raise InputError("operations in order of step, rank and start were expected")


def _check_computations(run: RecordedRun) -> None:
    """Forwards and backwards belong to a stage and a microbatch, and a rank runs each once in a step."""
    rows = np.flatnonzero(run.is_computation)
    unknown = (run.stage[rows] < 0) | (run.microbatch[rows] < 0)
    if unknown.any():
        at = int(rows[np.argmax(unknown)])
        raise InputError(f"a {KINDS[run.kind[at]]} without stage or microbatch: {run.label(at)}")
    order = rows[np.lexsort([getattr(run, name)[rows] for name in ("microbatch", "stage", "kind", "rank", "step")])]
    same = np.ones(max(len(order) - 1, 0), bool)
    for name in ("microbatch", "stage", "kind", "rank", "step"):
        same &= np.diff(getattr(run, name)[order]) == 0
    if same.any():
        raise InputError(f"{run.label(int(order[np.argmax(same)]))} was recorded twice; each action once was expected")


def _check_matches(run: RecordedRun) -> None:
    """What belongs together is of one step, on different ranks, and a message has one send and one receive."""
    rows = np.flatnonzero(run.match >= 0)
    if not run.is_communication[rows].all():
        at = int(rows[np.argmin(run.is_communication[rows])])
        raise InputError(f"{run.label(at)} has a match; only communications have one")
    rows = rows[np.lexsort((run.rank[rows], run.match[rows]))]
    together = np.diff(run.match[rows]) == 0
    before, after = rows[:-1][together], rows[1:][together]
    wrong = (run.step[before] != run.step[after]) | (run.rank[before] == run.rank[after])
    wrong |= _unlike(run, before, after)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"{run.label(int(before[at]))} and {run.label(int(after[at]))} have the same match; members of one "
            "collective, or a send and its receive, on different ranks of one step were expected"
        )


def _unlike(run: RecordedRun, before: Ints, after: Ints) -> Bools:
    """Which neighbours of one match are neither both collectives nor a send and a receive of the same tensor."""
    first, second = np.minimum(run.kind[before], run.kind[after]), np.maximum(run.kind[before], run.kind[after])
    collectives = (first == COLLECTIVE) & (second == COLLECTIVE)
    message = np.isin(first, SENDS) & (second == first + 1)
    unlike: Bools = ~(collectives | message)
    return unlike
