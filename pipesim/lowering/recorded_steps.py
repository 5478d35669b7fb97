"""One step of a recorded run as a program with its own durations and dependencies.

    rank 0   F0 ──> post ─┐          ┌─> post ...     post      a rank has come to a communication
                          ├─> send ──┘                batch     operations under way on a rank at one time: what comes
    rank 1 ──────> post ──┴─> receive ──> F0                    after waits for all of them
                                                      working   what is left of a communication once all have posted it

Computations, optimizer and the rest run on the lane of their rank in recorded order. Communications that the run did
while computing (`asynchronous`) wait for what they carry, and hold up what reads it; all others hold up their rank.
A communication that ended before another rank had posted it, as a buffered send does, does not wait for it.

The launch gap of an operation is its start minus the latest of its lane being free and its dependencies having ended:
what the host, or anything that is not in the record, took.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.base.arrays import Bools, Ints, Ragged
from pipesim.core import program as programs
from pipesim.core import recorded_run as runs
from pipesim.core.program import Program
from pipesim.core.recorded_run import RecordedRun
from pipesim.lowering.tasks import Tasks

# Operations that overlap by less, and by less than half of them, are one after the other: a record's times are rounded,
# and read on several threads.
ROUNDING = 50_000  # ns
_BACKWARDS = (runs.BACKWARD, runs.INPUT)
_SELDOM = 0.02  # the part of its operations that may overlap a computation by chance

_KINDS = np.array([
    programs.FORWARD, programs.BACKWARD, programs.INPUT, programs.WEIGHT, programs.ACTIVATION, programs.ACTIVATION,
    programs.GRADIENT, programs.GRADIENT, programs.ALL_REDUCE, programs.OPTIMIZER, programs.OPTIMIZER,
])  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RecordedStep:
    """A step as a program: task i is operation i of the step, and the others are posts and joins.

    `gap` is per operation, in ns; it precedes a task on a lane, and is the time of a post.
    """

    run: RecordedRun  # of this step alone
    program: Program  # with launch gaps
    gap: Ints
    post: Ints  # per operation the task that is its post; -1 on lanes

    def without_gaps(self) -> Program:
        """The same program where everything starts at once."""
        return self.program.with_durations(self.program.duration - self._lead())

    def starts(self, start: Ints, *, gaps: bool = True) -> Ints:
        """When operations start on a timeline whose tasks start so: posts for communications, after gaps on lanes."""
        count = len(self.run)
        lead = self.gap if gaps else np.zeros(count, np.int64)
        return np.where(self.post >= 0, start[np.maximum(self.post, 0)] + lead, start[:count] + lead)

    def _lead(self) -> Ints:
        """Per task the gap in its duration."""
        found = np.zeros(len(self.program), np.int64)
        on_lane = self.post < 0
        found[: len(self.run)][on_lane] = self.gap[on_lane]
        found[self.post[~on_lane]] = self.gap[~on_lane]
        return found


def asynchronous(run: RecordedRun) -> Bools:
    """Which operations are of a kind and name that the run does while it computes."""
    lane = run.step * len(run.ranks) + run.rank
    on_lane = np.flatnonzero(~run.is_communication)
    moves = np.flatnonzero(run.is_communication)
    if not len(moves) or not len(on_lane):
        return np.zeros(len(run), bool)
    # Rows are in order of step, rank and start, so a row's neighbours on its lane are next to it.
    after = np.searchsorted(on_lane, moves)
    before = np.maximum(after - 1, 0)
    after = np.minimum(after, len(on_lane) - 1)
    overlap = np.zeros(len(moves), np.int64)
    for neighbours in (on_lane[before], on_lane[after]):
        shared = np.minimum(run.end[moves], run.end[neighbours]) - np.maximum(run.start[moves], run.start[neighbours])
        overlap = np.maximum(overlap, np.where(lane[neighbours] == lane[moves], shared, 0))
    sort = run.name[moves] * len(runs.KINDS) + run.kind[moves]
    names = len(run.names) * len(runs.KINDS)
    often = np.bincount(sort[overlap > _tolerance(run)[moves]], minlength=names) > _SELDOM * np.bincount(
        sort, minlength=names
    )
    found = np.zeros(len(run), bool)
    found[moves] = often[sort]
    return found


def _tolerance(run: RecordedRun) -> Ints:
    """Per operation how much it may overlap another that it follows, or that follows it."""
    found: Ints = np.minimum((run.end - run.start) // 2, ROUNDING)
    return found


def recorded_step(
    run: RecordedRun, position: int, asynchronous_rows: Bools | None = None, *, posted_ahead: bool = False
) -> RecordedStep:
    """A step of a run as a program; `asynchronous_rows` of the whole run, where they are known already.

    With `posted_ahead`, sends and receives hold up no rank, and a receive does not wait for what its rank did since the
    computation before that of its direction: the rules of the published replay by Lin et al. (OSDI 2025).
    """
    rows = slice(*np.searchsorted(run.step, [position, position + 1]).tolist())
    found = asynchronous(run) if asynchronous_rows is None else asynchronous_rows
    step = run.of_steps(np.array([position]))
    tasks, post, needs = _tasks(step, found[rows], posted_ahead=posted_ahead)
    program = _program(step, tasks, needs)
    gap = _gaps(step, program, post)
    duration = program.duration.copy()
    on_lane = post < 0
    duration[: len(step)][on_lane] += gap[on_lane]
    duration[post[~on_lane]] += gap[~on_lane]
    program = program.with_durations(duration)
    programs.check(program)
    return RecordedStep(step, program, gap, post)


# --- tasks and needs -------------------------------------------------------------------------------------------------


def _tasks(step: RecordedRun, overlaps: Bools, *, posted_ahead: bool) -> tuple[Tasks, Ints, Ints]:
    """All tasks, the post of each operation, and pairs of a task and what it waits for."""
    if posted_ahead:
        overlaps = overlaps | np.isin(step.kind, runs.POINT_TO_POINT)
    tasks, count = Tasks(), len(step)
    stage = np.where(step.stage >= 0, step.stage, step.position[step.rank])  # of what is about none, the rank's first
    moves = step.is_communication
    waits = moves & (step.match >= 0) & (step.end >= step.arrival)
    duration = np.where(waits, step.working, step.end - step.start)
    rank, to = step.rank, np.where(step.peer >= 0, step.peer, step.rank)
    sends = np.isin(step.kind, runs.SENDS)
    tasks.add(
        count, kind=_kinds(step), stage=stage, microbatch=step.microbatch, lane=np.where(moves, -1, rank),
        source=np.where(moves & ~sends, to, rank), target=np.where(moves & sends, to, rank), duration=duration,
        size=np.where(moves, np.nan_to_num(step.size), 0.0),
    )  # fmt: skip
    post = np.full(count, -1, np.int64)
    posted = np.flatnonzero(moves)
    post[posted] = tasks.add(
        len(posted), kind=_kinds(step)[posted], stage=stage[posted], microbatch=step.microbatch[posted],
        source=rank[posted], target=rank[posted],
    )  # fmt: skip
    tasks.needs.append((posted, post[posted]))
    _add_arrivals(tasks, step, post, waits)
    ahead = posted_ahead & np.isin(step.kind, runs.RECEIVES)
    _add_batches(tasks, step, post, overlaps, ahead)
    _add_posts_ahead(tasks, step, post, ahead)
    _add_inputs(tasks, step, post, overlaps)
    return tasks, post, np.stack(tasks.awaited())


def _kinds(step: RecordedRun) -> Ints:
    """The kinds of tasks of operations."""
    gathers = np.array(["gather" in name.lower() for name in step.names])
    found: Ints = _KINDS[step.kind].copy()
    found[(step.kind == runs.COLLECTIVE) & gathers[step.name]] = programs.ALL_GATHER
    return found


def _add_arrivals(tasks: Tasks, step: RecordedRun, post: Ints, waits: Bools) -> None:
    """Communications wait until all that take part have posted them, those that the record shows waiting."""
    members = np.flatnonzero(step.match >= 0)
    if not len(members):
        return
    numbers, number = np.unique(step.match[members], return_inverse=True)
    first = members[np.unique(number, return_index=True)[1]]
    joins = tasks.add(
        len(numbers), kind=_kinds(step)[first], stage=np.maximum(step.stage[first], 0), source=step.rank[first],
        target=step.rank[first],
    )  # fmt: skip
    late = waits[members]
    tasks.needs += [(joins[number], post[members]), (members[late], joins[number[late]])]


def _add_batches(tasks: Tasks, step: RecordedRun, post: Ints, overlaps: Bools, ahead: Bools) -> None:
    """What holds up a rank: each batch of operations that were under way at one time waits for all of the one before.

    Without the asynchronous ones, which wait for the last batch that ended before they were posted, unless they are
    posted ahead.
    """
    rows = np.flatnonzero(~overlaps)
    if not len(rows):
        return
    rank = step.rank[rows]
    apart = (int(step.end.max()) + ROUNDING + 1) * rank  # ranks one after the other on one axis
    begin, reach = step.start[rows] + apart, np.maximum.accumulate(step.end[rows] + apart)
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (np.diff(rank) != 0) | (begin[1:] >= reach[:-1] - _tolerance(step)[rows[1:]])
    fresh[1:] |= ~(step.is_communication[rows[1:]] | step.is_communication[rows[:-1]])
    batch = np.cumsum(fresh) - 1
    ends = tasks.add(
        int(batch[-1]) + 1, kind=_kinds(step)[rows[fresh]], stage=np.maximum(step.stage[rows[fresh]], 0),
        source=rank[fresh], target=rank[fresh],
    )  # fmt: skip
    begins = np.where(post[rows] >= 0, post[rows], rows)
    follows = (batch > 0) & (rank == rank[np.maximum(np.flatnonzero(fresh)[batch] - 1, 0)])
    tasks.needs += [(ends[batch], rows), (begins[follows], ends[batch[follows] - 1])]
    later = np.flatnonzero(overlaps & ~ahead)
    if len(later):
        end_of_batch = np.full(int(batch[-1]) + 1, -1, np.int64)
        np.maximum.at(end_of_batch, batch, step.end[rows] + apart)
        apart = (int(step.end.max()) + ROUNDING + 1) * step.rank[later]
        at = (
            np.searchsorted(
                np.maximum.accumulate(end_of_batch), step.start[later] + apart + _tolerance(step)[later], "right"
            )
            - 1
        )
        same = (at >= 0) & (rank[fresh][np.maximum(at, 0)] == step.rank[later])
        tasks.needs.append((post[later[same]], ends[at[same]]))


def _add_posts_ahead(tasks: Tasks, step: RecordedRun, post: Ints, ahead: Bools) -> None:
    """Receives that wait for the computation of their direction before theirs only.

    The first of gradients waits for the second computation before its own: in 1F1B, for the forward before the last.
    """
    place = (step.rank, step.microbatch, step.stage)
    works = np.flatnonzero(step.is_computation)  # in order of rank and start
    for received, computed in ((runs.RECEIVE_ACTIVATION, (runs.FORWARD,)), (runs.RECEIVE_GRADIENT, _BACKWARDS)):
        of_direction = works[np.isin(step.kind[works], computed)]
        receives, reads = _joined(np.flatnonzero((step.kind == received) & ahead), place, of_direction, place)
        before = of_direction[np.maximum(np.searchsorted(of_direction, reads) - 1, 0)]
        follows = (before < reads) & (step.rank[before] == step.rank[reads])
        tasks.needs.append((post[receives[follows]], before[follows]))
        if received == runs.RECEIVE_GRADIENT:
            at = np.searchsorted(works, reads) - 2
            other = works[np.maximum(at, 0)]
            starts = ~follows & (at >= 0) & (step.rank[other] == step.rank[reads])
            tasks.needs.append((post[receives[starts]], other[starts]))


def _add_inputs(tasks: Tasks, step: RecordedRun, post: Ints, overlaps: Bools) -> None:
    """What waits for asynchronous communications: computations for what they read, the optimizer for collectives.

    Those of one name on a rank are one after the other.
    """
    place = (step.rank, step.microbatch, step.stage)
    for received, computed in ((runs.RECEIVE_ACTIVATION, (runs.FORWARD,)), (runs.RECEIVE_GRADIENT, _BACKWARDS)):
        receives = np.flatnonzero((step.kind == received) & overlaps & (step.microbatch >= 0))
        made, read = _joined(receives, place, np.flatnonzero(np.isin(step.kind, computed)), place)
        tasks.needs.append((read, made))
    _add_unrecorded_messages(tasks, step)
    gradients = np.flatnonzero((step.kind == runs.COLLECTIVE) & overlaps)
    reduced, steps = _joined(gradients, (step.rank,), np.flatnonzero(step.kind == runs.OPTIMIZER), (step.rank,))
    before = step.end[reduced] <= step.start[steps] + _tolerance(step)[steps]
    tasks.needs.append((steps[before], reduced[before]))
    rows = np.flatnonzero(overlaps)
    order = rows[np.lexsort((step.start[rows], step.name[rows], step.kind[rows], step.rank[rows]))]
    same = step.end[order[:-1]] <= step.start[order[1:]] + _tolerance(step)[order[1:]]
    for column in (step.name, step.kind, step.rank):
        same &= np.diff(column[order]) == 0
    tasks.needs.append((post[order[1:][same]], order[:-1][same]))


def _add_unrecorded_messages(tasks: Tasks, step: RecordedRun) -> None:
    """Computations wait for those of the stage before, or after, whose output they read, if no receive is recorded."""
    for received, computed, way in (
        (runs.RECEIVE_ACTIVATION, (runs.FORWARD,), 1),
        (runs.RECEIVE_GRADIENT, _BACKWARDS, -1),
    ):
        if (step.kind == received).any():
            continue
        works = np.flatnonzero(np.isin(step.kind, computed))
        replica = step.replica[step.rank]
        reader = (replica, step.microbatch, step.stage + way)
        made, read = _joined(works, reader, works, (replica, step.microbatch, step.stage))
        apart = step.rank[made] != step.rank[read]
        tasks.needs.append((read[apart], made[apart]))


def _joined(left: Ints, left_keys: tuple[Ints, ...], right: Ints, right_keys: tuple[Ints, ...]) -> tuple[Ints, Ints]:
    """All pairs of a row of the left and one of the right whose keys are equal."""
    width = [int(max(a.max(initial=0), b.max(initial=0))) + 2 for a, b in zip(left_keys, right_keys, strict=True)]

    def code(keys: tuple[Ints, ...], rows: Ints) -> Ints:
        found = np.zeros(len(rows), np.int64)
        for column, size in zip(keys, width, strict=True):
            found = found * size + column[rows] + 1
        return found

    there = code(left_keys, left)
    order = np.argsort(there, kind="stable")
    wanted = code(right_keys, right)
    low, high = (np.searchsorted(there[order], wanted, side) for side in ("left", "right"))
    count = high - low
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return left[order[np.repeat(low, count) + offset]], np.repeat(right, count)


# --- the program -----------------------------------------------------------------------------------------------------


def _program(step: RecordedRun, tasks: Tasks, needs: Ints) -> Program:
    """The program without launch gaps."""
    columns: dict[str, Any] = tasks.finished()
    count, lanes = tasks.count, len(step.ranks)
    pairs = np.unique(needs[0] * count + needs[1])
    on_lane = np.flatnonzero(columns["lane"] >= 0)
    zeros = np.zeros(lanes, np.int64)
    return Program(
        sharing="none",
        transfers="eager",
        devices=tuple(f"rank{rank}" for rank in step.ranks),
        media=(),
        capacity=np.zeros(0),
        **columns,
        order=Ragged.of_pairs(lanes, columns["lane"][on_lane], on_lane),
        needs=Ragged.of_pairs(count, pairs // count, pairs % count),
        route=Ragged.of_lengths(np.zeros(count, np.int64), np.zeros(0, np.int64)),
        static_memory=zeros,
        memory=zeros,
        microbatches=max(step.microbatches, 1) * step.layout.dp,
        samples=0,
        flops=None,
        peak_flops=None,
    )


def _gaps(step: RecordedRun, program: Program, post: Ints) -> Ints:
    """Per operation its start minus the latest of its lane free and its dependencies ended, as recorded."""
    count = len(step)
    end = np.zeros(len(program), np.int64)
    end[:count] = step.end
    moves = post >= 0
    end[post[moves]] = step.start[moves]
    ready = _ready(program, end)
    # Joins end when the last that they wait for has: those of batches, and those of posts, wait for no other join.
    joins = np.arange(len(program)) >= count + int(moves.sum())
    end[joins] = ready[joins]
    ready = _ready(program, end)
    begins = np.where(moves, post, np.arange(count))
    gap: Ints = np.maximum(step.start - ready[begins], 0)
    return gap


def _ready(program: Program, end: Ints) -> Ints:
    """When each task could have started, its lane included."""
    ready = np.zeros(len(program), np.int64)
    np.maximum.at(ready, program.needs.row_of_value(), end[program.needs.values])
    task, lane = program.order.values, program.order.row_of_value()
    same = np.diff(lane) == 0
    np.maximum.at(ready, task[1:][same], end[task[:-1]][same])
    return ready
