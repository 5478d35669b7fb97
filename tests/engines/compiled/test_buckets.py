"""Token buckets: both engines to the last bit on drawn programs, and what each timeline's check finds."""

import random
from dataclasses import replace

import numpy as np
import pytest

from helpers.networks import network
from pipesim.base.errors import CorruptTimelineError
from pipesim.core.program import Bucket
from pipesim.core.rates import Rates
from pipesim.core.scenario import Speeds
from pipesim.engines import compiled, event
from pipesim.engines.compiled import flows


def drawn(seed, most=14):
    rng = random.Random(seed)
    links = rng.randint(1, 6)
    peaks = [rng.choice([1.0, 2.0, 3.5, 10.0]) for _ in range(links)]
    sent = [
        (
            rng.randint(0, 2000),
            rng.choice([0, 1, 100, 5000, 3333.3]),
            sorted(rng.sample(range(links), rng.randint(1, min(links, 3)))),
        )
        for _ in range(rng.randint(1, most))
    ]
    buckets = {
        m: Bucket(rng.choice([0.5, 10.0, 700.0, 5000.0]), peaks[m] * rng.choice([0.1, 0.5, 0.9]))
        for m in range(links)
        if rng.random() < 0.6
    }
    speeds = {
        m: Speeds((0, 500, 900), (1.0, rng.choice([0.2, 0.5]), rng.choice([1.0, 2.0])))
        for m in range(links)
        if rng.random() < 0.3
    }
    return replace(network(peaks, sent, "fair"), buckets=buckets, media_speeds=speeds)


def check_equal(program):
    one, other = event.run(program), compiled.run(program)
    assert (one.start == other.start).all()
    assert (one.end == other.end).all()
    for name in ("task", "time", "rate"):
        assert (getattr(one.rates, name) == getattr(other.rates, name)).all()
    one.verify()


@pytest.mark.parametrize("block", range(8))
def test_both_engines_play_drawn_programs_to_the_same_bits(block):
    for seed in range(40 * block, 40 * block + 40):
        check_equal(drawn(seed))


@pytest.mark.parametrize("seed", range(3))
def test_both_engines_agree_on_more_flows_than_the_heap_has_room_for_outdated_entries(seed):
    check_equal(drawn(seed, most=flows.MANY + 100))


def timeline_of(rates, end):
    """One flow of 1,000 bytes over a link of 10 bytes per ns whose bucket holds 450, and fills at 1."""
    program = replace(network([10.0], [(0, 1000, [0])], "fair"), buckets={0: Bucket(450.0, 1.0)})
    time, rate = np.array(rates).T
    played = event.run(program)
    return replace(
        played, end=np.array([0, end]), rates=Rates(np.ones(len(time), np.int64), time.astype(np.int64), rate)
    )


def test_what_a_bucket_allows_passes():
    timeline_of([(0, 10.0), (50, 1.0)], 550).verify()


def test_bytes_that_the_bucket_does_not_hold_are_found():
    with pytest.raises(CorruptTimelineError, match="carried 450 bytes by 100 ns that its bucket did not hold"):
        timeline_of([(0, 10.0)], 100).verify()


def test_a_flow_held_to_the_rate_while_the_bucket_is_not_empty_is_found():
    with pytest.raises(CorruptTimelineError, match=r"runs at 1.0 bytes per ns at 20 ns, below its fair share"):
        timeline_of([(0, 10.0), (20, 1.0)], 820).verify()
