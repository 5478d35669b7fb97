"""Orders of lanes come from a simulation without contention."""

from pipesim.lowering.lane_order import lane_order

LANES, DURATIONS = [0, 0, 0, -1], [5, 7, 1, 3]


def test_of_ready_tasks_that_with_the_smallest_key_runs_first():
    assert lane_order(LANES, DURATIONS, [(2, 0), (1, 0), (3, 0), (0, 0)], [[], [], [], []], 1) == [[1, 0, 2]]


def test_without_keys_what_was_ready_first_runs_first_and_of_equals_the_smaller_number():
    # Task 2 waits for task 3, until 3; task 1 was ready from the start and runs before it.
    assert lane_order(LANES, DURATIONS, None, [[], [], [3], []], 1) == [[0, 1, 2]]
    # Task 1 waits for task 0, until 5; task 2 is ready at 3.
    assert lane_order(LANES, DURATIONS, None, [[], [0], [3], []], 1) == [[0, 2, 1]]


def test_a_lane_does_not_wait_for_a_smaller_key():
    assert lane_order([0, 0, -1], [5, 7, 3], [(1, 0), (0, 0), (0, 0)], [[], [2], []], 1) == [[0, 1]]
