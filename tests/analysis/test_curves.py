from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from helpers.networks import network, pipeline
from helpers.strategies import programs
from pipesim.analysis import curves, metrics
from pipesim.engines.event import run


def steps(curve):
    """A curve as [(time, value), ...]."""
    time, value = curve
    return list(zip(time.tolist(), value.tolist(), strict=True))


# --- memory ----------------------------------------------------------------------------------------------------------


def test_memory_grows_when_a_forward_starts_and_shrinks_when_its_backward_ends():
    timeline = run(pipeline([3], [5], 2, "gpipe"))  # F0 F1 B0 B1, one byte each
    assert steps(curves.memory_steps(timeline, 0)) == [(0, 1), (3, 2), (11, 1), (16, 0)]


def test_what_is_always_there_is_counted_in():
    program = replace(pipeline([3], [5], 1, "gpipe"), static_memory=np.array([100]))
    assert steps(curves.memory_steps(run(program), 0)) == [(0, 101), (8, 100)]


def test_what_ends_at_an_instant_makes_room_for_what_starts_at_it():
    timeline = run(pipeline([3], [5], 2, "one_f_one_b"))  # F0 B0 F1 B1: at 8 one byte goes and one comes
    assert steps(curves.memory_steps(timeline, 0)) == [(0, 1), (16, 0)]


def test_a_device_that_is_idle_at_first_holds_what_is_always_there_from_time_0_on():
    timeline = run(pipeline([3, 4], [5, 6], 1, "gpipe"))
    assert steps(curves.memory_steps(timeline, 1)) == [(0, 0), (3, 1), (13, 0)]


def test_a_device_without_memory_has_one_step_of_nothing():
    program = pipeline([3], [5], 1, "gpipe")
    nothing = np.zeros(len(program), np.int64)
    timeline = run(replace(program, memory_start=nothing, memory_end=nothing))
    assert steps(curves.memory_steps(timeline, 0)) == [(0, 0)]


@given(programs)
def test_the_highest_step_is_the_peak_that_metrics_find(program):
    timeline = run(program)
    highest = [int(value.max()) for _, value in curves.memory_curves(timeline)]
    peak = metrics.peak_memory(timeline).tolist()
    assert all(a <= b for a, b in zip(highest, peak, strict=True))
    if (timeline.end > timeline.start)[program.is_compute].all():  # else a peak may last no time at all
        assert highest == peak


# --- load ------------------------------------------------------------------------------------------------------------


def test_fair_loads_are_the_rates_on_each_medium():
    """Flow 0 (10 bytes) crosses both media, flow 1 (3 bytes, from 4 ns on) the slower: there each gets a half.

        0        4          10       13
    0   1        1/2        1        .
    1   .        1/2        .        .
    """
    timeline = run(network([2, 1], [(0, 10, [0, 1]), (4, 3, [1])], "fair"))
    assert steps(curves.load_steps(timeline, 0)) == [(0, 1.0), (4, 0.5), (10, 1.0), (13, 0.0)]
    assert steps(curves.load_steps(timeline, 1)) == [(0, 1.0), (13, 0.0)]


def test_a_fifo_transfer_loads_its_route_from_the_end_of_its_delay():
    timeline = run(network([2], [(2, 6, [0], 3)], "fifo"))
    assert steps(curves.load_steps(timeline, 0)) == [(0, 0.0), (5, 2.0), (8, 0.0)]


def test_a_wider_link_on_the_route_is_loaded_at_the_rate_of_the_bottleneck():
    timeline = run(network([2, 8], [(0, 6, [0, 1])], "fifo"))
    assert steps(curves.load_steps(timeline, 1)) == [(0, 2.0), (3, 0.0)]


def test_transfers_that_do_not_share_add_up_beyond_the_capacity():
    timeline = run(network([2], [(0, 6, [0]), (1, 6, [0])], "none"))
    assert steps(curves.load_steps(timeline, 0)) == [(0, 2.0), (1, 4.0), (3, 2.0), (4, 0.0)]


def test_a_channel_is_loaded_for_as_long_as_it_is_held_delay_included():
    timeline = run(network([1], [(2, 6, [0], 3)], "channel"))
    assert steps(curves.load_steps(timeline, 0)) == [(0, 0.0), (2, 6 / 9), (11, 0.0)]


def test_without_rates_a_fair_transfer_loads_its_route_at_its_average_rate():
    """A timeline read from a file has no rates."""
    timeline = replace(run(network([2, 1], [(0, 10, [0, 1]), (4, 3, [1])], "fair")), rates=None)
    assert steps(curves.load_steps(timeline, 0)) == [(0, 10 / 13), (13, 0.0)]


def test_transfers_one_right_after_the_other_at_one_rate_are_one_step():
    timeline = run(network([2], [(0, 6, [0]), (0, 4, [0]), (0, 2, [0])], "fifo"))
    assert steps(curves.load_steps(timeline, 0)) == [(0, 2.0), (6, 0.0)]


@given(programs)
def test_what_curves_carry_is_what_was_used(program):
    timeline = run(program)
    for medium, (time, load) in enumerate(curves.load_curves(timeline)):
        carried = float((load * np.diff(np.append(time, timeline.makespan))).sum())
        rounding = 1e-9 + 2 * len(program) * float(program.capacity[medium])  # of an end to a whole ns
        assert timeline.used[medium] == pytest.approx(carried, rel=1e-6, abs=rounding)
        assert load.min() >= 0
        assert load[-1] == 0


@given(programs)
def test_one_curve_is_the_row_of_all_curves(program):
    timeline = run(program)
    for device, row in enumerate(curves.memory_curves(timeline)):
        assert steps(curves.memory_steps(timeline, device)) == steps(row)
    for medium, (time, value) in enumerate(curves.load_curves(timeline)):
        one = curves.load_steps(timeline, medium)
        assert one[0].tolist() == time.tolist()
        assert one[1] == pytest.approx(value, rel=1e-9)


@given(programs)
def test_every_curve_starts_at_0_and_has_one_value_per_instant_that_differs_from_the_one_before(program):
    timeline = run(program)
    for time, value in [*curves.memory_curves(timeline), *curves.load_curves(timeline)]:
        assert time[0] == 0
        assert (np.diff(time) > 0).all()
        assert (np.diff(value) != 0).all()


# --- averages --------------------------------------------------------------------------------------------------------


def test_an_average_is_the_area_of_the_steps_over_the_time():
    time, value = np.array([0, 10, 30]), np.array([1.0, 4.0, 0.0])
    assert curves.averages(time, value, np.array([0, 20, 40])).tolist() == [2.5, 2.0]


def test_the_last_value_holds_to_the_last_edge():
    assert curves.averages(np.array([0]), np.array([3.0]), np.array([0, 1, 100])).tolist() == [3.0, 3.0]


def test_edges_may_lie_inside_a_step_and_before_the_end():
    time, value = np.array([0, 10]), np.array([1.0, 2.0])
    assert curves.averages(time, value, np.array([2, 4, 8])).tolist() == [1.0, 1.0]
