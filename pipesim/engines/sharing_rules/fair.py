"""Sharing rule `fair`: transfers share links with max-min fair rates.

Rates change at every arrival, departure and change of a link's bandwidth. Only the flows that are joined to a change
through common links get new rates, and only those whose rate differs get a new end. The compiled engine looks at fewer
where many are joined (`engines.compiled.rate_updates`): to the last bit the rates are the same.
"""

from simpy import Environment

from pipesim.base.errors import CorruptTimelineError
from pipesim.base.kernels import borrowing, compiled, unlocked, variant
from pipesim.core import rates
from pipesim.core.program import Program
from pipesim.core.timeline import Timeline, verify_transfers_start_when_ready
from pipesim.engines.compiled.buckets import (
    change_capacity_with_buckets,
    new_rates_with_buckets,
    remove_outdated_with_buckets,
    set_timers,
)
from pipesim.engines.compiled.flows import (
    CAPACITY_CHANGES,
    CROWDED,
    SHARED,
    Flows,
    RateLog,
    empty_log,
    ended_task,
    initial_flows,
    is_too_much_left,
    longer_log,
    new_rates_by_levels,
    rate_and_levels_alone,
    request,
    share_links,
)
from pipesim.engines.compiled.heap import pop, push
from pipesim.engines.compiled.resumed_flows import restore_flows
from pipesim.engines.compiled.resuming import Earlier, restored_state
from pipesim.engines.compiled.simulation_state import (
    ProgramArrays,
    RunTimes,
    SimulationState,
    advance,
    end_task,
    happens_now,
    initial_state,
)
from pipesim.engines.fair_links import FairLinks
from pipesim.engines.link_manager import Done
from pipesim.engines.shaped_links import ShapedLinks

# --- on SimPy --------------------------------------------------------------------------------------------------------


def link_manager(env: Environment, program: Program, start: list[int], done: Done) -> FairLinks:
    """The links of a program."""
    return (ShapedLinks if program.buckets else FairLinks)(env, program, start, done)


# --- compiled --------------------------------------------------------------------------------------------------------


DONE, NEEDS_ROOM, REFUSED, LATE, CHECK, BEGIN_AGAIN = range(6)
NEVER = 2**62


@borrowing
def run(p: ProgramArrays, state: SimulationState, links: Flows, log: RateLog) -> int:
    """Run the program from this state: to the end, or as far as possible."""
    goes_on = True
    while goes_on:
        request(p, state)
        while happens_now(state):
            task = ended_task(p, state, links, pop(state.heap))
            if task >= 0:
                end_task(p, state, task)
                if len(p.latest) > 0 and state.now[0] > p.latest[task]:
                    return LATE
            request(p, state)
        if links.touched_count[0] > 0:
            if log.length[0] + links.under_way[0] > len(log.task):
                return NEEDS_ROOM  # nothing is ready and nothing happens now, so that the next run goes on here
            shared = share_links(p, state, links, log)
            if shared != SHARED:
                return BEGIN_AGAIN if shared == CROWDED else REFUSED
        if state.now[0] >= links.next_check[0]:
            return CHECK  # as above
        goes_on = advance(state)
    return DONE


def event_loop(p: ProgramArrays) -> RunTimes:
    """Run the program from the beginning; give up where rates change more often than `p.most_changes`.

    If many flows turn out to be joined, again with levels. Most programs do without, in less time.
    """
    kernel = run_with_buckets if len(p.buckets.size) else run_from_beginning
    times: RunTimes = compiled(kernel)(p)
    if times.is_crowded:
        times = compiled(run_with_levels)(p)
    return times


@unlocked
def run_from_beginning(p: ProgramArrays) -> RunTimes:
    """Run the program, unless more than MANY flows are joined by common links."""
    state, links, log = initial_state(p, heap_room(p)), initial_flows(p), empty_log(len(p.lane))
    for n in range(len(p.changes.time)):
        push(state.heap, p.changes.time[n], 4 * n + CAPACITY_CHANGES)
    return run_to_the_end(p, state, links, log)


def heap_room(p: ProgramArrays) -> int:
    """How many entries the heap has room for.

    Removing outdated entries leaves at most half of `most`. Between two removals each task adds at most one entry
    without asking for room.
    """
    most = 2 * (len(p.lane) + len(p.changes.time) + len(p.buckets.size) + 8)
    return most + len(p.lane)


def run_to_the_end(p: ProgramArrays, state: SimulationState, links: Flows, log: RateLog) -> RunTimes:
    """Run the program from this state, and make room for changes of rates where there is none left."""
    links.next_check[0] = 0 if len(p.latest) > 0 else NEVER
    result = run(p, state, links, log)
    while result in {NEEDS_ROOM, CHECK}:
        if result == NEEDS_ROOM:
            log = longer_log(log, links.under_way[0])
        elif is_too_much_left(p, state, links):
            result = LATE
            break
        result = run(p, state, links, log)
    n = log.length[0]
    return RunTimes(
        state.start,
        state.end,
        log.task[:n].copy(),
        log.time[:n].copy(),
        log.rate[:n].copy(),
        result == REFUSED,
        result == LATE,
        result == BEGIN_AGAIN,
    )


run_with_levels = variant(
    run_from_beginning, "run_with_levels", new_rates=new_rates_by_levels, rate_alone=rate_and_levels_alone
)
run_with_buckets = variant(
    run_from_beginning,
    "run_with_buckets",
    change_capacity=change_capacity_with_buckets,
    new_rates=new_rates_with_buckets,
    after_sharing=set_timers,
    remove_outdated=remove_outdated_with_buckets,
)


@compiled
@unlocked
def event_loop_from(p: ProgramArrays, earlier: Earlier) -> RunTimes:
    """Run the program from a moment before which it is the same as an earlier one; without levels and buckets."""
    state, links = restored_state(p, earlier, heap_room(p), True), initial_flows(p)
    log = empty_log(len(p.lane) + len(earlier.rate_task))
    restore_flows(p, state, links, log, earlier)
    return run_to_the_end(p, state, links, log)


# --- verification ----------------------------------------------------------------------------------------------------


def verify(timeline: Timeline) -> None:
    """Every transfer starts as soon as it is ready, and runs at max-min fair rates."""
    verify_transfers_start_when_ready(timeline)
    if timeline.rates is None:
        raise CorruptTimelineError("no rates were kept; a timeline with fair sharing cannot be checked without them")
    rates.check(timeline.program, timeline.start, timeline.end, timeline.rates)
