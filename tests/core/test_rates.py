"""Rates of fair sharing are checked by the definition: what is right passes, each planted fault is found."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from helpers.networks import network
from helpers.strategies import jobs
from pipesim.base.errors import CorruptTimelineError
from pipesim.core.rates import Rates
from pipesim.core.scenario import Speeds
from pipesim.engines.event import run


def test_rates_over_the_capacity_of_a_link_are_found():
    timeline = run(network([1.0], [(0, 100, [0]), (0, 100, [0])], "fair"))
    fast = replace(timeline, end=np.array([0, 0, 100, 100]), rates=replace(timeline.rates, rate=np.array([1.0, 1.0])))
    with pytest.raises(CorruptTimelineError, match=r"link link0 carries 2e.09 bytes/s at 0 ns; its capacity is 1e.09"):
        fast.verify()


def test_rates_that_do_not_carry_the_bytes_are_found():
    timeline = run(network([1.0], [(0, 100, [0])], "fair"))
    slow = replace(timeline, rates=replace(timeline.rates, rate=np.array([0.5])))
    with pytest.raises(CorruptTimelineError, match=r"its rates carry 50.0 bytes; 100.0 were expected"):
        slow.verify()


def test_fair_sharing_without_rates_cannot_be_checked_and_says_so():
    timeline = run(network([1.0], [(0, 100, [0])], "fair"))
    with pytest.raises(CorruptTimelineError, match="no rates were kept"):
        replace(timeline, rates=None).verify()


@settings(max_examples=40)
@given(jobs(sharings=("fair",)))
def test_every_rate_that_begins_belongs_to_a_transfer_under_way(job):
    timeline = run(job.program)
    rates: Rates = timeline.rates
    assert (rates.time >= timeline.start[rates.task] + timeline.program.delay[rates.task]).all()
    assert (rates.time <= timeline.end[rates.task]).all()
    assert (rates.rate > 0).all()


def test_rates_that_begin_before_the_delay_is_over_are_found():
    timeline = run(network([1.0], [(0, 100, [0], 10)], "fair"))
    early = replace(timeline, rates=replace(timeline.rates, time=np.array([0])), end=np.array([0, 100]))
    with pytest.raises(CorruptTimelineError, match="rates begin at 0 ns, which is not the end of its delay"):
        early.verify()


def test_a_rate_over_the_limit_of_its_transfer_is_found():
    timeline = run(network([1.0], [(0, 100, [0])], "fair", [0.5]))
    fast = replace(timeline, rates=replace(timeline.rates, rate=np.array([1.0])), end=np.array([0, 100]))
    with pytest.raises(CorruptTimelineError, match=r"runs at 1.0 bytes per ns; its limit is 0.5"):
        fast.verify()


def degraded(rate_after, end):
    """Two flows of 1000 bytes on one link of 1 byte per ns that drops to `fraction` at 500."""
    program = replace(
        network([1.0], [(0, 1000, [0]), (0, 1000, [0])], "fair"), media_speeds={0: Speeds((0, 500), (1.0, rate_after))}
    )
    timeline = run(program)
    assert timeline.end.tolist()[2:] == [end, end]
    return timeline


def test_a_link_that_drops_while_it_is_shared_passes():
    """Until 500 each has sent 250; the other 750 go at 0.15 each. Both rates change at one instant."""
    degraded(0.3, 500 + 5000).verify()


def test_flows_that_go_on_as_if_their_link_had_not_dropped_are_found():
    """At 0.5 each they fill the whole link, of which 0.6 is left from 500 on; nothing else changes at that moment."""
    timeline = degraded(0.6, 500 + 2500)
    rates = Rates(np.array([2, 3]), np.array([0, 0]), np.array([0.5, 0.5]))
    with pytest.raises(CorruptTimelineError, match=r"carries 1e[+]09 bytes/s at 500 ns; its capacity is 6e[+]08"):
        replace(timeline, end=np.array([0, 0, 2000, 2000]), rates=rates).verify()


def test_a_transfer_that_uses_half_of_a_free_link_is_found():
    """Its bytes arrive, its limit and the link's capacity are kept; yet nothing holds it back."""
    timeline = run(network([1.0], [(0, 100, [0])], "fair"))
    slow = Rates(np.array([1]), np.array([0]), np.array([0.5]))
    with pytest.raises(CorruptTimelineError, match=r"runs at 0.5 bytes per ns at 0 ns, below its fair share"):
        replace(timeline, end=np.array([0, 200]), rates=slow).verify()


def test_equal_transfers_with_unequal_shares_of_a_full_link_are_found():
    """One at 0.1 and one at 0.9, until the faster is over: the link is full at all times, but not shared fairly."""
    timeline = run(network([1.0], [(0, 90, [0]), (0, 90, [0])], "fair"))
    rates = Rates(np.array([2, 3, 2]), np.array([0, 0, 100]), np.array([0.1, 0.9, 1.0]))
    with pytest.raises(CorruptTimelineError, match=r"task 2 .*below its fair share"):
        replace(timeline, end=np.array([0, 0, 180, 100]), rates=rates).verify()


def test_a_transfer_may_be_slower_than_others_where_its_own_link_is_full():
    """Flow 0 is held back by the narrow link 1, so that flow 1 has the rest of link 0."""
    timeline = run(network([1.0, 0.25], [(0, 100, [0, 1]), (0, 100, [0])], "fair"))
    assert timeline.rates.rate.tolist() == [0.25, 0.75]
    timeline.verify()


def test_links_a_thousand_million_times_apart_are_each_checked_on_their_own():
    """Summed over all links at once, the widest drowned the narrowest: false alarms, and excess that went unseen."""
    wide, narrow = 1e9, 1e-8
    flows = [(n, 3_000_000_007, [0]) for n in range(5)] + [(0, 3, [1]), (1, 5, [1])]
    timeline = run(network([wide, narrow], flows, "fair"))
    timeline.verify()
    rates = replace(timeline.rates, rate=np.where(timeline.rates.task == 12, 1.5e-8, timeline.rates.rate))
    with pytest.raises(CorruptTimelineError):
        replace(timeline, rates=rates).verify()
