"""Ragged columns behave as the lists of lists that they stand for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies  # noqa: F401 - registers the settings of Hypothesis
from pipesim.base.arrays import Ragged, row_codes

rows_of_ints = st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=6)


def _lists(ragged):
    return [row.tolist() for row in ragged]


@given(rows_of_ints)
def test_rows_come_back_as_they_were(rows):
    ragged = Ragged.of(rows)
    assert _lists(ragged) == rows
    assert len(ragged) == len(rows)
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert ragged.row_of_value().tolist() == [i for i, row in enumerate(rows) for _ in row]


@given(rows_of_ints, st.data())
def test_taking_rows_takes_those_rows_in_that_order(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    assert _lists(Ragged.of(rows).take(np.array(chosen, np.int64))) == [rows[i] for i in chosen]


@given(rows_of_ints)
def test_the_inverse_lists_for_each_value_the_rows_that_hold_it(rows):
    expected = [[i for i, row in enumerate(rows) for held in row if held == value] for value in range(7)]
    assert _lists(Ragged.of(rows).inverse(7)) == expected


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=12))
def test_pairs_in_any_order_keep_the_order_of_their_values_within_a_row(pairs):
    row, value = (np.array([pair[i] for pair in pairs], np.int64) for i in range(2))
    assert _lists(Ragged.of_pairs(5, row, value)) == [[v for r, v in pairs if r == i] for i in range(5)]


def test_equality_is_of_rows_not_of_values_alone():
    assert Ragged.of([[1], [2, 3]]) == Ragged.of([[1], [2, 3]])
    assert Ragged.of([[1], [2, 3]]) != Ragged.of([[1, 2], [3]])
    assert Ragged.of([[1]]) != [[1]]


@given(
    st.lists(st.tuples(*[st.integers(0, 5) | st.integers(0, 2**40)] * 3), min_size=1, max_size=30),
)
def test_codes_of_rows_are_equal_for_equal_rows_and_in_their_order(rows):
    """Three numbers of 40 bits do not fit one of 63: what occurs is then numbered."""
    codes = row_codes(*np.array(rows, np.int64).T)
    assert [rows[n] for n in np.argsort(codes, kind="stable").tolist()] == sorted(rows)
    assert len(set(codes.tolist())) == len(set(rows))
