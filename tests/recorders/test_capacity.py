import pytest

from helpers.recorded_links import PAIR, SIZES, TWO, bucket, links_of, only, transfers
from pipesim.base.errors import RefusedError
from pipesim.recorders import fitting


def test_the_capacity_of_a_link_is_what_its_large_messages_reach_and_not_a_burst_of_a_small_one():
    """16 times what the link carries was written, so that nothing ever contended on it."""
    fit = only(bucket)
    assert fit.bandwidth == pytest.approx(25e6, rel=1e-3)
    for size in SIZES:
        assert fit.seconds(size) == pytest.approx(bucket(size), rel=0.02), "alone a burst is as fast as recorded"
    cluster = fitting.cluster_of(links_of(TWO, transfers(*PAIR, bucket)))
    assert set(cluster.media_bandwidth) == {fit.bandwidth}


def test_one_slow_large_size_does_not_turn_the_slope():
    """Of the three largest sizes the middle one took 10 % longer: the median of the slopes is off by less than that."""
    fit = only(lambda size: bucket(size) * (1.1 if size == SIZES[-2] else 1.0))
    assert fit.bandwidth == pytest.approx(25e6, rel=0.03)


def test_messages_that_are_all_delay_tell_no_capacity():
    with pytest.raises(RefusedError, match=r"16384 bytes .* takes hardly longer than 1024 bytes .* --largest"):
        only(lambda size: 1e-3 + size / 1e9, sizes=SIZES[:7])


@pytest.mark.parametrize(
    ("ratios", "kind", "is_clear"),
    [
        ((2.0, 2.0, 2.0), "half", True),
        ((1.0, 1.0, 1.0), "full", True),
        ((1.7, 1.3, 2.0), "half", False),
        ((1.4, 1.4, 1.4), "full", False),
        ((1.3, 9.0, 1.2), "full", False),
        ((), "full", False),
    ],
)
def test_a_link_is_half_duplex_if_both_ways_at_once_take_longer_than_one(ratios, kind, is_clear):
    """Full was written whatever was recorded, although all-reduces took twice as long as a ring over such links."""
    rows = transfers(*PAIR, bucket) + transfers(*PAIR, bucket, ratios, SIZES[-3:], kind="both_ways")
    links = links_of(TWO, rows)
    fit = fitting.fits(links)["intra"]
    assert (fit.duplex.kind, fit.duplex.is_clear) == (kind, is_clear)
    assert fit.duplex.rounds == pytest.approx(ratios)
    assert {link.duplex for link in fitting.cluster_of(links).links} == {kind}
    size, ring = 2 * SIZES[-1], 2 * bucket(SIZES[-1])
    assert fit.ring(2, size) == pytest.approx(ring * (1 + (kind == "half")), rel=0.01)
