"""Lists of rows, against a dictionary of the least rows by place and grade."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.analysis.bounds.frontier import (
    add,
    add_here,
    free_all,
    frontier_of,
    has_room,
    is_needed,
    taken,
    thinned,
    with_room,
)

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


def rows_of(frontier, where):
    """The rows of a list."""
    found, r = [], frontier.first[where]
    while r >= 0:
        found.append(r)
        r = frontier.after[r]
    return found


def expected_of(least, place, most):
    """What is needed of a list, from the lowest grade up."""
    expected = []
    for _, row in sorted((grade, row.tolist()) for (where, grade), row in least.items() if where == place):
        worse = any(all(x >= y for x, y in zip(row, other, strict=True)) for other in expected)
        if row[0] <= most and not worse:
            expected.append(row)
    return expected


@settings(max_examples=80)
@given(st.lists(rows, max_size=30), st.floats(0, 5))
def test_a_list_keeps_its_rows_by_grade_without_those_that_are_nowhere_less(drawn, most):
    frontier, least = filled(drawn)
    for where in range(LISTS):
        expected = expected_of(least, where, most)
        grades = frontier.grade[rows_of(frontier, where)].tolist()
        assert grades == sorted((grade for place, grade in least if place == where), reverse=True)
        assert thinned(frontier, where, most) == bool(expected)
        assert frontier.table[rows_of(frontier, where)].tolist() == expected


@settings(max_examples=80)
@given(st.lists(rows, max_size=30), st.floats(0, 5))
def test_rows_of_one_place_are_taken_as_those_of_a_list_are_kept(drawn, most):
    frontier, (_, least) = frontier_of(1, len(drawn) + 1, GRADES + 1, WIDTH), filled([(0, row) for _, row in drawn])
    for _, row in drawn:
        frontier.label[:] = row
        add_here(frontier, int(row[0]))
    count = taken(frontier, most)
    assert frontier.table[frontier.found[:count]].tolist() == expected_of(least, 0, most)
    assert (frontier.here == -1).all()


@settings(max_examples=40)
@given(st.lists(rows, max_size=30))
def test_rows_that_are_free_are_used_again(drawn):
    frontier, _ = filled(drawn)
    used = int(frontier.ends[1])
    for where in range(LISTS):
        free_all(frontier, where)
        assert frontier.first[where] == -1
    for n in range(used):
        frontier.label[:] = n
        add(frontier, n % LISTS, n)
    assert frontier.ends.tolist()[:2] == [-1, used]


@settings(max_examples=40)
@given(st.lists(rows, max_size=30), st.integers(0, 40))
def test_there_is_room_for_what_was_asked_for_and_nothing_else_changes(drawn, count):
    frontier, _ = filled(drawn)
    enough = has_room(frontier, count)
    assert frontier.ends[2] == count
    larger = with_room(frontier)
    assert (larger is frontier) == enough
    assert has_room(larger, count)
    used = frontier.ends[1]
    assert np.array_equal(larger.table[:used], frontier.table[:used])
    assert np.array_equal(larger.after[:used], frontier.after[:used])


def test_a_row_is_needed_that_is_less_in_one_column():
    table = np.array([[1.0, 5.0], [2.0, 4.0], [2.0, 5.0]])
    assert is_needed(table, np.array([0]), 1)
    assert not is_needed(table, np.array([0]), 2)
    assert not is_needed(table, np.array([0, 1]), 2)
    assert is_needed(table, np.array([], np.int64), 2)
