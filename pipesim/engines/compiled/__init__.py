"""The compiled engine: the same program in, the same timeline out, to the last bit, some hundred times faster.

    heap        anything                                                           `playing`
    fixed       the order on every link is known beforehand, so no heap is needed  `fixed`
    batch       the same for many sets of durations at once                        `fixed`

To find the order takes longer than to play a program once with a heap, so a batch takes it where there is one, and a
single run does not.

It repeats what `event` and `fabric` do; tests hold the two against each other on random programs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import DeadlockError, RefusedError
from pipesim.core import limits
from pipesim.core.program import Program
from pipesim.core.rates import Rates
from pipesim.core.timeline import Timeline, verified_if_asked
from pipesim.engines.compiled import fixed
from pipesim.engines.compiled.playing import ALONE, QUEUES, SHARES, TOO_MANY, play
from pipesim.engines.compiled.speeds import profiles_of
from pipesim.engines.compiled.waiters import turned
from pipesim.engines.deadlock import stuck

NAME = "compiled"
PER_CHANGE = 100  # bytes for each change of a rate: a list that grows, and the columns made of it
MODES = {"none": ALONE, "fifo": QUEUES, "channel": QUEUES, "fair": SHARES}


def run(program: Program, watch: Callable[[int], None] | None = None) -> Timeline:
    """Play the program; `watch` is told at the end how many tasks have ended."""
    if program.sharing not in MODES:
        raise RefusedError(
            f"the compiled engine does not know sharing {program.sharing!r}; known are {', '.join(MODES)}"
        )
    start, end, task, time, rate = play(*_columns(program))
    _check_changes(end)
    if (end < 0).any():
        raise DeadlockError(stuck(program, end.tolist()))
    if watch is not None:
        watch(len(program))
    rates = Rates(task.copy(), time.copy(), rate.copy()) if program.sharing_rule.rated else None
    return verified_if_asked(Timeline(program, start, end, NAME, rates))


def in_fixed_order(program: Program) -> Timeline | None:
    """The same without a heap, where the order on every link is known beforehand: pays where one order serves often."""
    order = fixed.order_of(program) if (program.duration > 0).all() else None
    if order is None:
        return None
    start, end = fixed.times(*order, program.duration)
    # Under `fair` there is such an order only where nothing is transferred, so no rate ever changes.
    nothing = np.zeros(0, np.int64)
    rates = Rates(nothing, nothing, np.zeros(0)) if program.sharing_rule.rated else None
    return verified_if_asked(Timeline(program, start, end, NAME, rates))


def makespans(program: Program, sort: Ints, durations: Ints) -> Ints:
    """When everything is over, for many sets of durations: in set n, tasks of sort s take durations[s, n] ns.

    All at once where the order on every link is known beforehand, else one after the other.
    """
    order = fixed.order_of(program) if (durations > 0).all() else None
    if order is not None:
        last: Ints = fixed.ends(*order, sort, np.ascontiguousarray(durations), fixed.BLOCK)
        return last
    columns: list[Any] = list(_columns(program))
    missing, found = columns[MISSING], np.zeros(durations.shape[1], np.int64)
    for n in range(durations.shape[1]):
        columns[DURATION], columns[MISSING] = durations[sort, n], missing.copy()
        _, end, *_ = play(*columns)
        _check_changes(end)
        if (end < 0).any():
            raise DeadlockError(stuck(program, end.tolist()))
        found[n] = end.max(initial=0)
    return found


def _check_changes(end: Ints) -> None:
    if len(end) and end[0] == TOO_MANY:
        raise limits.too_many_changes(PER_CHANGE)


DURATION, MISSING = 2, 6  # places in the columns that differ from set to set


def _columns(program: Program) -> tuple[object, ...]:
    """What the loop reads."""
    first_waiter, waiter = turned(program.needs.starts, program.needs.values, len(program))
    profiles = profiles_of(program)
    fair = program.sharing_rule.rated
    changes = [
        (time, medium, float(program.capacity[medium]) * program.media_speed(medium, time))
        for medium, speeds in (program.media_speeds.items() if fair else ())
        for time in speeds.times
    ]
    change = np.array(changes, np.float64).reshape(-1, 3)
    small = np.int32  # half the memory to walk through; a program of more tasks than that fits in no machine
    return (
        MODES[program.sharing],
        program.lane.astype(small),
        program.duration,
        program.delay,
        program.used,
        program.limit,
        program.needs.lengths.astype(small),
        first_waiter,
        waiter,
        program.order.starts.astype(small),
        program.order.values.astype(small),
        program.route.starts.astype(small),
        program.route.values.astype(small),
        program.capacity,
        profiles.of_task.astype(small),
        profiles.first,
        profiles.time,
        profiles.value,
        np.array([time for time, _, _ in changes], np.int64),
        np.array([medium for _, medium, _ in changes], np.int64),
        np.ascontiguousarray(change[:, 2]),
        limits.most_changes(PER_CHANGE),
    )
