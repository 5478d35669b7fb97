"""Sharing rule `none`: every transfer has its links to itself."""

from pipesim.base.kernels import borrowing, compiled, unlocked
from pipesim.core.timeline import Timeline, verify_transfers_start_when_ready
from pipesim.engines.compiled.heap import pop
from pipesim.engines.compiled.resuming import Earlier, restored_state
from pipesim.engines.compiled.simulation_state import (
    ProgramArrays,
    RunTimes,
    SimulationState,
    advance,
    end_task,
    happens_now,
    initial_state,
    start_task,
    without_rates,
)
from pipesim.engines.link_manager import LinkManager


class Links(LinkManager):
    """Links that any number of transfers use at their full bandwidth."""

    def request(self, task: int) -> None:
        """Start at once."""
        self.start_transfer(task)


@borrowing
def run(p: ProgramArrays, state: SimulationState) -> None:
    """Run the program from this state."""
    goes_on = True
    while goes_on:
        while happens_now(state):
            end_task(p, state, pop(state.heap) >> 2)
        while state.ready_count[0] > 0:
            state.ready_count[0] -= 1
            start_task(p, state, state.ready[state.ready_count[0]])
        goes_on = advance(state)


@compiled
@unlocked
def event_loop(p: ProgramArrays) -> RunTimes:
    """Run the program from the beginning."""
    state = initial_state(p, len(p.lane) + 1)
    run(p, state)
    return without_rates(state)


@compiled
@unlocked
def event_loop_from(p: ProgramArrays, earlier: Earlier) -> RunTimes:
    """Run the program from a moment before which it is the same as an earlier one."""
    state = restored_state(p, earlier, len(p.lane) + 1, False)
    run(p, state)
    return without_rates(state)


link_manager = Links


def verify(timeline: Timeline) -> None:
    """Every transfer starts as soon as it is ready."""
    verify_transfers_start_when_ready(timeline)
