import pytest

from pipesim.base.errors import InputError
from pipesim.recorders.links import LinkSettings


def test_rounds_share_the_samples():
    assert [(t.first, t.samples, t.round) for t in LinkSettings(samples=7).takes()] == [(0, 3, 0), (3, 2, 1), (5, 2, 2)]
    assert LinkSettings().large_sizes() == [2**22, 2**24, 2**26]
    assert LinkSettings(smallest=4, largest=8).large_sizes() == [4, 8]


def test_sizes_go_from_the_smallest_to_the_largest():
    assert LinkSettings().sizes(2) == [2**n for n in range(2, 27)]
    assert LinkSettings(smallest=4, largest=100).sizes(4) == [4, 16, 64, 100]


@pytest.mark.parametrize("given", [{"smallest": 2}, {"smallest": 8, "largest": 8}, {"samples": 2}, {"rounds": 0}])
def test_sizes_that_make_no_table_are_refused(given):
    with pytest.raises(InputError, match="found"):
        LinkSettings(**given)
