"""What the event loops share: how tasks start and end, without any rule."""

import numpy as np

from helpers.small_programs import pair
from pipesim.core.scenario import Degraded, Scenario, Slow
from pipesim.engines.compiled.heap import pop
from pipesim.engines.compiled.simulation_state import (
    advance,
    arrays_of,
    end_task,
    happens_now,
    initial_state,
    start_task,
    without_rates,
)


def begun(scenario=None):
    arrays = arrays_of(pair(scenario))
    return arrays, initial_state(arrays, len(arrays.lane) + 1)


def test_at_first_only_tasks_that_need_nothing_have_started():
    _, state = begun()
    assert state.start.tolist() == [0, -1, -1, -1, -1, -1]
    assert state.end.tolist() == [-1] * 6
    assert state.busy.tolist() == [True, False]
    assert state.ready_count[0] == 0


def test_a_task_that_ends_makes_its_dependents_ready():
    """The forward of a ends; its activation, task 5, is ready, and the lane waits for the gradient."""
    arrays, state = begun()
    assert not happens_now(state)
    assert advance(state)
    assert state.now[0] == arrays.duration[0]
    assert happens_now(state)
    end_task(arrays, state, pop(state.heap) >> 2)
    assert state.end[0] == arrays.duration[0]
    assert state.ready[: state.ready_count[0]].tolist() == [5]
    assert not state.busy[0]
    assert not advance(state), "nothing is left to happen until the rule starts the transfer"


def test_a_transfer_that_has_ended_starts_what_waits_on_an_idle_lane():
    arrays, state = begun()
    advance(state)
    end_task(arrays, state, pop(state.heap) >> 2)
    start_task(arrays, state, 5)
    advance(state)
    end_task(arrays, state, pop(state.heap) >> 2)
    assert state.start[2] == state.end[5] == arrays.duration[0] + arrays.duration[5]
    outcome = without_rates(state)
    assert len(outcome.rate) == 0
    assert not outcome.is_refused


def test_a_task_at_a_changed_speed_ends_when_the_program_says():
    scenario = Scenario((Slow("a", 2.0),), (Degraded("a", "b", 0.25),))
    arrays, state = begun(scenario)
    program = pair(scenario)
    advance(state)
    assert state.now[0] == program.finish(0, 0)
    start_task(arrays, state, 5)
    end_task(arrays, state, pop(state.heap) >> 2)
    advance(state)
    assert state.now[0] == program.finish(5, int(state.start[5]))


def test_changes_of_capacity_are_there_only_for_rules_that_change_rates():
    fair = arrays_of(pair(Scenario((), (Degraded("a", "b", 0.25, 1e-6, 2e-6),)))).changes
    assert np.unique(fair.time).tolist() == [0, 1000, 2000]
    assert len(arrays_of(pair()).changes.time) == 0
