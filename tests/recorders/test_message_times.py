import numpy as np
import pytest

from helpers.recorded_links import PAIR, SIZES, TWO, gloo_like, links_of, only, transfers
from pipesim.base.errors import RefusedError
from pipesim.recorders import fitting, message_times


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 2, 3], [1, 2, 3]), ([2, 1, 3], [1.5, 1.5, 3]), ([3, 2, 1], [2, 2, 2]), ([1, 5, 4, 3, 9], [1, 4, 4, 4, 9])],
)
def test_tables_never_fall(values, expected):
    assert message_times.rising(np.array(values, float)).tolist() == expected


def test_one_disturbed_size_does_not_spoil_the_others():
    """4 bytes took fifty times as long as they should, in all rounds: they are left out, which is said."""
    fit = only(lambda size: 2e-3 if size == 4 else gloo_like(size))
    for size in SIZES:
        assert fit.seconds(size) == pytest.approx(gloo_like(size), rel=0.02)
    assert [one.bytes for one in fit.left_out] == [4]
    assert "4 bytes (2, 2, 2 ms in 3 rounds) took longer than 16 bytes" in fit.left_out[0].why


def test_a_size_in_the_middle_that_took_longer_than_larger_ones_is_left_out_and_not_spread_over_them():
    """64 KiB took 4 ms where processes shared a core; it was pooled with its neighbours into a flat stretch."""
    fit = only(lambda size: 4e-3 if size == 65536 else gloo_like(size))
    assert [one.bytes for one in fit.left_out] == [65536]
    assert fit.table_error < 0.01
    assert fit.seconds(65536) == pytest.approx(gloo_like(65536), rel=0.2)


def test_one_disturbed_round_of_three_changes_nothing_and_two_that_differ_leave_the_size_out():
    for size, rounds, left_out in ((256, (1, 9, 1), []), (256, (1, 9, 4), [256])):
        others = [one for one in SIZES if one != size]
        rows = transfers(*PAIR, gloo_like, sizes=others) + transfers(*PAIR, gloo_like, rounds, [size])
        fit = fitting.fits(links_of(TWO, rows))["intra"]
        assert [one.bytes for one in fit.left_out] == left_out
        assert fit.seconds(size) == pytest.approx(gloo_like(size), rel=0.02)
        assert all("is not repeatable" in one.why for one in fit.left_out)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (SIZES[-1:], r"1 of 13 sizes .*67108864 bytes \(22.28, 200.5, 89.11 ms in 3 rounds\) is not repeatable"),
        (SIZES[-2:-1], r"none from 4194304 bytes on, can be left out"),
        (SIZES[:4], r"4 of 13 sizes are not reliable: 4 bytes .* 256 bytes .* At most 25% of the sizes"),
    ],
)
def test_what_does_not_repeat_at_the_large_end_or_in_many_places_is_refused(sizes, message):
    rows = transfers(*PAIR, gloo_like, sizes=[size for size in SIZES if size not in sizes])
    rows += transfers(*PAIR, gloo_like, (1, 9, 4), sizes)
    with pytest.raises(RefusedError, match=message):
        fitting.cluster_of(links_of(TWO, rows))
