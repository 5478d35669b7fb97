"""Programs in which the order on every link is known before time starts: no heap is needed.

    every task starts when the last of those is over that it needs, that is before it on its lane, that is before it on
    each medium of its route

The order on a medium is known if all that crosses it is sent by one lane: first what that lane makes first. So it is
for any durations, and many sets of durations can be timed at once. Under sharing `none` media do not matter; under
`fair` transfers share, so nothing is known beforehand.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Ints, Ragged
from pipesim.base.kernels import compiled
from pipesim.core.program import Program

BLOCK = 64  # sets of durations that go through the program together


class Order(NamedTuple):
    """Tasks in an order in which each comes after those that it waits for; `before` of task t: from first[t] on."""

    tasks: Ints
    first: Ints
    before: Ints


def order_of(program: Program) -> Order | None:
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
    return Order(tasks, first, before) if len(tasks) == len(program) else None


def _lane_chains(program: Program) -> Ints:
    """(task, the one before it on its lane)."""
    tasks, lane = program.order.values, program.order.row_of_value()
    same = lane[1:] == lane[:-1]
    return np.stack([tasks[1:][same], tasks[:-1][same]], axis=1)


def _media_chains(program: Program) -> Ints | None:
    """(transfer, the one before it on a medium), or None where two senders meet."""
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
    count, place = np.zeros(tasks + 1, np.int64), np.zeros(tasks, np.int64)
    for b in before:
        count[b + 1] += 1
    for t in range(tasks):
        count[t + 1] += count[t]
        place[t] = count[t]
    after, missing = np.empty(len(before), np.int64), np.empty(tasks, np.int64)
    for t in range(tasks):
        missing[t] = first[t + 1] - first[t]
        for at in range(first[t], first[t + 1]):
            after[place[before[at]]] = t
            place[before[at]] += 1
    done = np.empty(tasks, np.int64)
    size = 0
    for t in range(tasks):
        if missing[t] == 0:
            done[size] = t
            size += 1
    at = 0
    while at < size:
        t = done[at]
        at += 1
        for k in range(count[t], count[t + 1]):
            missing[after[k]] -= 1
            if missing[after[k]] == 0:
                done[size] = after[k]
                size += 1
    return done[:size]


@compiled
def times(tasks: Ints, first: Ints, before: Ints, duration: Ints) -> tuple[Ints, Ints]:
    """Start and end of every task."""
    start, end = np.zeros(len(tasks), np.int64), np.zeros(len(tasks), np.int64)
    for t in tasks:
        begin = 0
        for at in range(first[t], first[t + 1]):
            begin = max(begin, end[before[at]])
        start[t] = begin
        end[t] = begin + duration[t]
    return start, end


@compiled
def ends(  # noqa: C901, PLR0912, PLR0917 - one kernel, without calls
    tasks: Ints, first: Ints, before: Ints, sort: Ints, durations: Ints, block: int
) -> Ints:
    """[set]: when everything is over, for each set of durations; task t takes durations[sort[t], set] in it.

    A block of sets goes through the program together, so that every step is one on many numbers at once.
    """
    sets = durations.shape[1]
    found = np.zeros(sets, np.int64)
    end, took = np.zeros((len(tasks), block), np.int64), np.zeros((durations.shape[0], block), np.int64)
    last = np.zeros(block, np.int64)
    for base in range(0, sets, block):
        width = min(block, sets - base)
        for row in range(durations.shape[0]):
            for k in range(width):
                took[row, k] = durations[row, base + k]
        last[:] = 0
        for t in tasks:
            mine, work = end[t], took[sort[t]]
            if first[t] == first[t + 1]:
                for k in range(block):
                    mine[k] = work[k]
            elif first[t] + 1 == first[t + 1]:
                one = end[before[first[t]]]
                for k in range(block):
                    mine[k] = one[k] + work[k]
            else:
                one, other = end[before[first[t]]], end[before[first[t] + 1]]
                for k in range(block):
                    mine[k] = max(one[k], other[k])
                for at in range(first[t] + 2, first[t + 1]):
                    one = end[before[at]]
                    for k in range(block):
                        mine[k] = max(mine[k], one[k])
                for k in range(block):
                    mine[k] += work[k]
            for k in range(block):
                last[k] = max(last[k], mine[k])
        for k in range(width):
            found[base + k] = last[k]
    return found
