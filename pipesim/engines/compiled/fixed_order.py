"""Programs in which the order on every link is known before time starts: no heap is needed.

    a task starts at the latest end among the tasks that it needs, the one before it on its lane, and the one before it
    on each medium of its route

The order on a medium is known if all that crosses it is sent by one lane: first what that lane makes first. It is the
same for any durations, so that many sets of durations can be timed at once. Where transfers do not contend media do
not matter; where their rates change nothing is known beforehand.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Ints, Ragged
from pipesim.base.kernels import compiled
from pipesim.core.program import Program
from pipesim.engines.compiled.dependents import dependents_of

BLOCK = 64  # sets of durations that go through the program together


class FixedOrder(NamedTuple):
    """Tasks in an order in which each comes after those that it waits for, before[first[t] : first[t + 1]]."""

    tasks: Ints
    first: Ints
    before: Ints


def order_of(program: Program) -> FixedOrder | None:
    """The fixed order of a program, if it has one that holds for any durations above zero."""
    if program.media_speeds or program.lane_speeds:
        return None  # then durations depend on when things start
    chains = [_lane_chains(program)]
    if program.sharing_rule.contended and (~program.is_compute).any():
        media = _media_chains(program) if program.sharing_rule.one_at_a_time else None
        if media is None:
            return None
        chains.append(media)
    needs = np.stack([program.needs.row_of_value(), program.needs.values], axis=1)
    after, earlier = np.concatenate([needs, *chains]).T
    waits = Ragged.of_pairs(len(program), after, earlier)
    first, before = waits.starts, waits.values
    tasks = sorted_tasks(first, before, len(program))
    return FixedOrder(tasks, first, before) if len(tasks) == len(program) else None


def _lane_chains(program: Program) -> Ints:
    """(task, the one before it on its lane)."""
    tasks, lane = program.order.values, program.order.row_of_value()
    same = lane[1:] == lane[:-1]
    return np.stack([tasks[1:][same], tasks[:-1][same]], axis=1)


def _media_chains(program: Program) -> Ints | None:
    """(transfer, the one before it on a medium), or None where several lanes send over one medium."""
    if (program.needs.lengths[~program.is_compute] != 1).any() or (program.duration[program.is_compute] == 0).any():
        return None  # what waits for several things, or for what takes no time, may become ready in another order
    place = np.full(len(program), -1, np.int64)
    lanes = program.order.row_of_value()
    place[program.order.values] = np.arange(len(lanes))
    task, medium = program.route.row_of_value(), program.route.values
    maker = program.needs.values[program.needs.starts[task]]
    if (program.lane[maker] < 0).any():
        return None
    sender, sole = program.lane[maker], np.full(len(program.capacity), -1, np.int64)
    sole[medium] = sender
    if (sole[medium] != sender).any():
        return None
    by = np.lexsort((task, place[maker], medium))
    task, medium = task[by], medium[by]
    same = medium[1:] == medium[:-1]
    return np.stack([task[1:][same], task[:-1][same]], axis=1)


@compiled
def sorted_tasks(first: Ints, before: Ints, tasks: int) -> Ints:
    """Every task after those that it waits for; fewer than all where they wait in a circle."""
    first_after, after = dependents_of(first, before, tasks)
    missing, done, size = np.empty(tasks, np.int64), np.empty(tasks, np.int64), 0
    for t in range(tasks):
        missing[t] = first[t + 1] - first[t]
        if missing[t] == 0:
            done[size] = t
            size += 1
    at = 0
    while at < size:  # done[at : size] are the tasks that wait for nothing and whose dependents have not been visited
        t = done[at]
        at += 1
        for k in range(first_after[t], first_after[t + 1]):
            missing[after[k]] -= 1
            if missing[after[k]] == 0:
                done[size] = after[k]
                size += 1
    return done[:size]


@compiled
def times(order: FixedOrder, duration: Ints) -> tuple[Ints, Ints]:
    """Start and end of every task."""
    first, before = order.first, order.before
    start, end = np.zeros(len(order.tasks), np.int64), np.zeros(len(order.tasks), np.int64)
    for t in order.tasks:
        begin = 0
        for at in range(first[t], first[t + 1]):
            begin = max(begin, end[before[at]])
        start[t] = begin
        end[t] = begin + duration[t]
    return start, end


@compiled
def ends(order: FixedOrder, sort: Ints, durations: Ints) -> Ints:
    """[set]: when everything is over, for each set of durations; task t takes durations[sort[t], set] in it.

    A block of sets goes through the program together, so that every step is one on many numbers at once. In the last
    block columns beyond the sets hold what the block before left there, and are not read.
    """
    sorts, sets = durations.shape
    found, last = np.zeros(sets, np.int64), np.zeros(BLOCK, np.int64)
    end, took = np.zeros((len(order.tasks), BLOCK), np.int64), np.zeros((sorts, BLOCK), np.int64)
    for base in range(0, sets, BLOCK):
        width = min(BLOCK, sets - base)
        for row in range(sorts):
            for k in range(width):
                took[row, k] = durations[row, base + k]
        last[:] = 0
        for t in order.tasks:
            end_block(order, end, t, took[sort[t]])
            for k in range(BLOCK):
                last[k] = max(last[k], end[t, k])
        for k in range(width):
            found[base + k] = last[k]
    return found


def end_block(order: FixedOrder, end: Ints, task: int, work: Ints) -> None:
    """The ends of a task in a block of sets: the latest end before it, and its work."""
    mine, at, stop = end[task], order.first[task], order.first[task + 1]
    if at == stop:
        for k in range(BLOCK):
            mine[k] = work[k]
    elif at + 1 == stop:
        one = end[order.before[at]]
        for k in range(BLOCK):
            mine[k] = one[k] + work[k]
    else:
        one, other = end[order.before[at]], end[order.before[at + 1]]
        for k in range(BLOCK):
            mine[k] = max(one[k], other[k])
        for more in range(at + 2, stop):
            one = end[order.before[more]]
            for k in range(BLOCK):
                mine[k] = max(mine[k], one[k])
        for k in range(BLOCK):
            mine[k] += work[k]
