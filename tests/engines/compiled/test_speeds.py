"""Durations at changing speeds, compiled: as `scenario.finish_time`, to the nanosecond."""

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.small_programs import pair
from pipesim.base.kernels import compiled
from pipesim.core.scenario import Degraded, Scenario, Slow, Speeds, finish_time
from pipesim.engines.compiled.speeds import STEADILY, Profiles, finish, profiles_of


@st.composite
def drawn_speeds(draw):
    steps = draw(st.lists(st.integers(1, 1000), max_size=6))
    values = [draw(st.sampled_from([0.1, 0.25, 0.5, 1.0, 1.5])) for _ in range(len(steps) + 1)]
    return Speeds((0, *np.cumsum(steps).tolist()), tuple(values))


@given(st.lists(drawn_speeds(), min_size=1, max_size=3), st.integers(0, 5000), st.integers(0, 5000))
def test_work_ends_when_the_reference_says(profiles, start, work):
    first = np.cumsum([0, *(len(speeds.times) for speeds in profiles)])
    time = np.array([time for speeds in profiles for time in speeds.times])
    value = np.array([value for speeds in profiles for value in speeds.values])
    flat = Profiles(np.zeros(1, np.int32), first, time, value)
    for number, speeds in enumerate(profiles):
        for kernel in (finish, compiled(finish)):
            assert kernel(flat, number, start, work) == finish_time(speeds, start, work)
    assert finish(flat, STEADILY, start, work) == start + work


def test_each_task_has_the_profile_of_its_lane_or_route():
    program = pair(Scenario((Slow("a", 2.0),), (Degraded("a", "b", 0.25),)))
    profiles = profiles_of(program)
    for task in range(len(program)):
        assert finish(profiles, profiles.of_task[task], 0, int(program.duration[task])) == program.finish(task, 0)
    assert (profiles.of_task >= 0).tolist() == [True, True, False, False, True, True]
    assert (profiles_of(dataclasses.replace(program, lane_speeds={}, media_speeds={})).of_task == STEADILY).all()
