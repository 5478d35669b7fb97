"""The compiled engine: the same program in, the same timeline out, to the last bit, some hundred times faster.

    event loop   any program: a kernel of its sharing rule               `engines.sharing_rules`
    fixed order  where the order on every link is known beforehand       `fixed_order`
    batch        the same for many sets of durations at once             `fixed_order`
    resumed      from where a program differs from one that has been run `resuming`

To find the order takes longer than to run a program once, so a batch uses it where there is one, and a single run does
not. Everything here repeats what the SimPy engine does; tests compare the two on random programs.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.cores import core_count
from pipesim.base.errors import DeadlockError
from pipesim.core import limits
from pipesim.core.program import Program
from pipesim.core.rates import Rates
from pipesim.core.timeline import Timeline, verified_if_asked
from pipesim.engines.compiled import fixed_order, resuming
from pipesim.engines.compiled.deadlines import latest_ends
from pipesim.engines.compiled.simulation_state import PER_CHANGE, ProgramArrays, RunTimes, arrays_of
from pipesim.engines.unfinished import unfinished_tasks

NAME = "compiled"
LEAST_TASKS = 20_000  # of a program: smaller ones are not worth a kernel that is compiled once
LEAST_SAVED = 0.1  # of a run: less is not worth restoring what came before


def run(program: Program, watch: Callable[[int], None] | None = None) -> Timeline:
    """Run the program; `watch` is called at the end with the number of tasks."""
    times = _times(program, arrays_of(program))
    if watch is not None:
        watch(len(program))
    return _timeline(program, times)


def _timeline(program: Program, times: RunTimes) -> Timeline:
    rates = Rates(times.rate_task, times.rate_time, times.rate) if program.sharing_rule.rated else None
    return verified_if_asked(Timeline(program, times.start, times.end, NAME, rates))


def resume(program: Program, *earlier: Timeline) -> Timeline:
    """As `run`; begins where the program differs from that of one of these timelines, where that saves enough."""
    if len(program) < LEAST_TASKS:
        return run(program)
    moments = [resuming.first_difference(program, timeline) for timeline in earlier]
    moment, base = max(zip(moments, earlier, strict=True), key=lambda pair: pair[0])
    if moment > base.makespan:
        return verified_if_asked(Timeline(program, base.start, base.end, NAME, base.rates))
    if moment < max(1, LEAST_SAVED * base.makespan):
        return run(program)
    begin = program.sharing_rule.implementation("event_loop_from")
    times: RunTimes = begin(arrays_of(program), resuming.earlier_run(base, moment))
    if times.is_crowded:
        return run(program)
    return _timeline(program, _checked(program, times))


def _times(program: Program, arrays: ProgramArrays) -> RunTimes:
    return _checked(program, program.sharing_rule.implementation("event_loop")(arrays))


def _checked(program: Program, times: RunTimes) -> RunTimes:
    if times.is_refused:
        raise limits.too_many_changes(PER_CHANGE)
    if not times.is_late and (times.end < 0).any():
        raise DeadlockError(unfinished_tasks(program, times.end.tolist()))
    return times


def end_by(program: Program, until: int) -> int | None:
    """When everything is over; None if that is after `until`, which is mostly known before the end of the run."""
    arrays = arrays_of(program)
    times = _times(program, arrays._replace(latest=latest_ends(program, arrays, until)))
    end = int(times.end.max(initial=0))
    return None if times.is_late or end > until else end


def in_fixed_order(program: Program) -> Timeline | None:
    """The same without a heap, where the order on every link is known beforehand: pays where one order serves often."""
    order = fixed_order.order_of(program) if (program.duration > 0).all() else None
    if order is None:
        return None
    start, end = fixed_order.times(order, program.duration)
    # Under a rule that changes rates there is such an order only where nothing is transferred, so no rate changes.
    nothing = np.zeros(0, np.int64)
    rates = Rates(nothing, nothing, np.zeros(0)) if program.sharing_rule.rated else None
    return verified_if_asked(Timeline(program, start, end, NAME, rates))


def makespans(program: Program, sort: Ints, durations: Ints) -> Ints:
    """When everything is over, for many sets of durations: in set n, tasks of sort s take durations[s, n] ns.

    All at once where the order on every link is known beforehand, else on all cores.
    """
    order = fixed_order.order_of(program) if (durations > 0).all() else None
    if order is not None:
        last: Ints = fixed_order.ends(order, sort, np.ascontiguousarray(durations))
        return last
    arrays, sets = arrays_of(program), range(durations.shape[1])

    def end_of(n: int) -> int:
        return int(_times(program, arrays._replace(duration=durations[sort, n])).end.max(initial=0))

    threads = min(len(sets), core_count())
    if threads <= 1:
        return np.array([end_of(n) for n in sets], np.int64)
    with ThreadPoolExecutor(threads) as pool:
        return np.array([end_of(0), *pool.map(end_of, sets[1:])], np.int64)  # the first compiles what is not yet
