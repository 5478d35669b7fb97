"""Lists of rows, against a dictionary of the least rows by place and grade."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.analysis.bounds.frontier import add, free, frontier_of, has_room, is_needed, taken, with_room

LISTS, WIDTH, GRADES = 3, 3, 6
rows = st.tuples(st.integers(0, LISTS - 1), st.lists(st.integers(0, 5).map(float), min_size=WIDTH, max_size=WIDTH))
NOTHING = np.inf


def filled(drawn):
    """A frontier that begins with one row and grows, and the least of every column by list and grade."""
    frontier, least = frontier_of(LISTS, 1, GRADES + 1, WIDTH), {}
    for where, row in drawn:
        frontier.ends[2] = 1
        frontier = with_room(frontier)
        frontier.label[:] = row
        add(frontier, where, int(row[0]))
        key = where, int(row[0])
        least[key] = np.minimum(least.get(key, NOTHING), row)
    return frontier, least


@settings(max_examples=80)
@given(st.lists(rows, max_size=30), st.floats(0, 5))
def test_a_list_gives_its_rows_by_grade_without_those_that_are_nowhere_less(drawn, most):
    frontier, least = filled(drawn)
    for where in range(LISTS):
        expected = []
        for _, row in sorted((grade, row.tolist()) for (place, grade), row in least.items() if place == where):
            worse = any(all(x >= y for x, y in zip(row, other, strict=True)) for other in expected)
            if row[0] <= most and not worse:
                expected.append(row)
        count = taken(frontier, where, most)
        assert frontier.table[frontier.found[:count]].tolist() == expected
        assert frontier.first[where] == -1


@settings(max_examples=40)
@given(st.lists(rows, max_size=30))
def test_rows_that_are_free_are_used_again(drawn):
    frontier, _ = filled(drawn)
    used = int(frontier.ends[1])
    for where in range(LISTS):
        for i in range(taken(frontier, where, NOTHING)):
            free(frontier, frontier.found[i])
    for n in range(used):
        frontier.label[:] = n
        add(frontier, n % LISTS, n)
    assert frontier.ends.tolist()[:2] == [-1, used]


@settings(max_examples=40)
@given(st.lists(rows, max_size=30), st.integers(0, LISTS - 1), st.integers(0, 5))
def test_there_is_room_for_what_was_asked_for_and_nothing_else_changes(drawn, where, each):
    frontier, least = filled(drawn)
    count = sum(place == where for place, _ in least)
    enough = has_room(frontier, where, each)
    assert frontier.ends[2] == count * each
    larger = with_room(frontier)
    assert (larger is frontier) == enough
    assert has_room(larger, where, each)
    used = frontier.ends[1]
    assert np.array_equal(larger.table[:used], frontier.table[:used])
    assert np.array_equal(larger.after[:used], frontier.after[:used])


def test_a_row_is_needed_that_is_less_in_one_column():
    table = np.array([[1.0, 5.0], [2.0, 4.0], [2.0, 5.0]])
    assert is_needed(table, np.array([0]), 1)
    assert not is_needed(table, np.array([0]), 2)
    assert not is_needed(table, np.array([0, 1]), 2)
    assert is_needed(table, np.array([], np.int64), 2)
