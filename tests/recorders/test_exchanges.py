import pytest

from pipesim.recorders.exchanges import Take, rows, values


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (4, 1), (5, 2), (64, 16)])
def test_an_all_reduce_sums_whole_values_of_four_bytes(size, expected):
    assert values(size) == expected


def test_samples_are_numbered_on_from_the_rounds_before():
    take = Take(warmup=1, first=5, samples=2, round=1)
    assert rows(("node0.cpu0", "node0.cpu1", 64), "p2p", 2, take, [0.25, 0.5]) == [
        ("node0.cpu0", "node0.cpu1", 64, 0.25, "p2p", 2, 5, 1),
        ("node0.cpu0", "node0.cpu1", 64, 0.5, "p2p", 2, 6, 1),
    ]
