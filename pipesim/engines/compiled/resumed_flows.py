"""What links and the transfers under way have come to, where a run begins in the middle (`resuming`)."""

import math

from pipesim.engines.compiled.flows import CAPACITY_CHANGES, DELAY_OVER, FLOW_ENDS, Flows, RateLog, join
from pipesim.engines.compiled.heap import push
from pipesim.engines.compiled.resuming import Earlier
from pipesim.engines.compiled.simulation_state import ProgramArrays, SimulationState


def restore_flows(p: ProgramArrays, state: SimulationState, flows: Flows, log: RateLog, earlier: Earlier) -> None:
    """All that is under way at the moment, and what happens next to it."""
    restore_capacities(p, state, flows, earlier)
    for t in range(len(p.lane)):
        if p.lane[t] < 0 and state.start[t] >= 0 and state.end[t] < 0:
            begins = state.start[t] + p.delay[t]
            if begins >= earlier.moment:
                push(state.heap, begins, 4 * t + DELAY_OVER)
            else:  # it has bytes and links, else it had ended with its delay
                join(p, flows, t, begins)
    for at in range(flows.touched_count[0]):
        flows.is_touched[flows.touched[at]] = False
    flows.touched_count[0] = 0
    restore_rates(state, flows, log, earlier)
    for t in range(len(p.lane)):
        if flows.ends[t] >= 0:
            push(state.heap, flows.ends[t], 4 * t + FLOW_ENDS)


def restore_capacities(p: ProgramArrays, state: SimulationState, flows: Flows, earlier: Earlier) -> None:
    """Changes of capacities that have been, and those that will be."""
    for n in range(len(p.changes.time)):
        if p.changes.time[n] < earlier.moment:
            flows.capacity[p.changes.medium[n]] = p.changes.capacity[n]
        else:
            push(state.heap, p.changes.time[n], 4 * n + CAPACITY_CHANGES)


def restore_rates(state: SimulationState, flows: Flows, log: RateLog, earlier: Earlier) -> None:
    """The changes of rates until now, and of each flow under way what `set_rate` has left of it."""
    for n in range(len(earlier.rate_task)):
        t, now, rate = earlier.rate_task[n], earlier.rate_time[n], earlier.rate[n]
        log.task[n], log.time[n], log.rate[n] = t, now, rate
        if state.end[t] < 0:
            flows.left[t] = max(0.0, flows.left[t] - flows.rate[t] * (now - flows.since[t]))
            flows.since[t], flows.rate[t] = now, rate
            flows.ends[t] = now + math.ceil(flows.left[t] / rate - 1e-6)
    log.length[0] = len(earlier.rate_task)
