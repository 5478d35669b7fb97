import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipesim.base.intervals import covered, covered_by_label, tracks, union

spans = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 6)), max_size=25)


def dealt(rows):
    row, start, length = np.array(rows, np.int64).reshape(-1, 3).T
    return tracks(row, start, start + length).tolist()


def test_the_picture_in_the_module_is_what_happens():
    a, b, c = (0, 0, 7), (0, 4, 8), (0, 10, 7)
    assert dealt([a, b, c]) == [0, 1, 0]


def test_spans_that_only_touch_share_a_track():
    assert dealt([(0, 0, 5), (0, 5, 5), (0, 10, 1)]) == [0, 0, 0]


def test_rows_are_apart_from_each_other():
    assert dealt([(0, 0, 9), (1, 0, 9), (0, 1, 1), (2, 0, 9)]) == [0, 0, 1, 0]


def test_the_lowest_track_that_is_free_is_taken():
    assert dealt([(0, 0, 10), (0, 1, 2), (0, 2, 8), (0, 5, 1)]) == [0, 1, 2, 1]


def test_no_spans_need_no_tracks():
    assert dealt([]) == []


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_order_in_which_spans_are_given_does_not_matter(order):
    rows = [(0, 0, 4), (0, 1, 5), (0, 5, 2), (0, 6, 3)]
    plain = dealt(rows)
    assert dealt([rows[i] for i in order]) == [plain[i] for i in order]


@given(spans)
def test_no_two_spans_of_a_track_overlap_and_no_more_tracks_are_used_than_spans_are_under_way_at_once(rows):
    found = dealt(rows)
    for (one, track), (other, track2) in itertools.combinations(zip(rows, found, strict=True), 2):
        if (one[0], track) == (other[0], track2):
            assert one[1] + one[2] <= other[1] or other[1] + other[2] <= one[1]
    for row in {row for row, _, _ in rows}:
        mine = [(start, start + length) for r, start, length in rows if r == row]
        under_way = [sum(a <= t < b for a, b in mine) for t in range(30)]
        used = {track for (r, _, length), track in zip(rows, found, strict=True) if r == row and length}
        assert len(used) <= max(under_way)


def ticks(rows):
    """The units of time that the intervals cover."""
    return {tick for start, length in rows for tick in range(start, start + length)}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=12))
def test_a_union_covers_the_same_time_with_intervals_that_do_not_touch(rows):
    start, length = np.array(rows, np.int64).reshape(-1, 2).T
    first, last = union(start, start + length)
    assert ticks(zip(first.tolist(), (last - first).tolist(), strict=True)) == ticks(rows)
    assert (first[1:] > last[:-1]).all()
    assert covered(start, start + length) == len(ticks(rows))


def test_each_label_covers_the_time_of_its_own_intervals():
    label, start, end = np.array([[2, 0, 2, 2], [0, 5, 3, 10], [4, 9, 6, 11]])
    assert covered_by_label(label, start, end, 4).tolist() == [4, 0, 7, 0]


def test_times_covered_by_label_are_the_same_on_one_axis_and_one_by_one():
    rng = np.random.default_rng(3)
    label, start = rng.integers(0, 7, 200), rng.integers(0, 1000, 200)
    end = start + rng.integers(0, 60, 200)
    one_by_one = [covered(start[label == at], end[label == at]) for at in range(9)]
    assert covered_by_label(label, start, end, 9).tolist() == one_by_one
    far = end.copy()
    far[0] += 2**61
    large = covered_by_label(label, start, far, 9)
    assert large[label[0]] > 2**60
    assert np.delete(large, label[0]).tolist() == np.delete(one_by_one, label[0]).tolist()
