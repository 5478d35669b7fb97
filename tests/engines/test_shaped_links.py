"""Links with token buckets: what a few flows do by hand, on both engines; drawn programs: compiled/test_buckets.py."""

from dataclasses import replace

import pytest

import pipesim as ps
from helpers.networks import network
from pipesim.analysis.bounds import plan_bound
from pipesim.base.errors import RefusedError
from pipesim.core.program import Bucket
from pipesim.core.scenario import Speeds
from pipesim.engines import compiled, event
from pipesim.lowering import Options

ENGINES = (event.run, compiled.run)


def ends_of(engine, flows, buckets, speeds=None):
    """Flows over one link of 10 bytes per ns at most."""
    program = network([10.0], flows, "fair")
    timeline = engine(replace(program, buckets=buckets, media_speeds=speeds or {}))
    timeline.verify()
    return timeline.end.tolist()[len(flows) :]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_burst_passes_at_the_peak_and_the_rest_at_the_rate_of_the_bucket(engine):
    bucket = {0: Bucket(900.0, 1.0)}
    assert ends_of(engine, [(0, 1000, [0])], bucket) == [100]  # 100 more come while 1,000 pass
    assert ends_of(engine, [(0, 1500, [0])], bucket) == [100 + 500]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bucket_fills_again_while_nothing_is_sent(engine):
    bucket = {0: Bucket(900.0, 1.0)}
    assert ends_of(engine, [(0, 1000, [0]), (550, 600, [0])], bucket) == [100, 550 + 50 + 100]  # 450 have come
    assert ends_of(engine, [(0, 1000, [0]), (5000, 1000, [0])], bucket) == [100, 5100]  # full, and not more


@pytest.mark.parametrize("engine", ENGINES)
def test_flows_share_the_peak_and_then_the_rate(engine):
    """Each at 5 until 1,000 have passed, then at 0.5: the one of 700 needs 400 ns more; then the other is alone."""
    assert ends_of(engine, [(0, 700, [0]), (0, 900, [0])], {0: Bucket(900.0, 1.0)}) == [500, 700]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_flow_below_the_rate_of_the_bucket_lets_it_fill(engine):
    """Another link holds the first flow to 0.5, so that 0.5 come in each ns: 100 to 300 after the burst of 900."""
    program = network([10.0, 0.5], [(0, 1000, [0]), (100, 100, [0, 1]), (300, 500, [0])], "fair")
    timeline = engine(replace(program, buckets={0: Bucket(900.0, 1.0)}))
    timeline.verify()
    # Of the 500 at 300, 100 are in the bucket: 9.5 pass and 0.5 of the 10 are the bucket's own rate's; 12 ns.
    assert timeline.end.tolist()[3:5] == [100, 300]
    assert timeline.end[5] == 300 + 12 + (500 - 12 * 10)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_degraded_link_has_that_part_of_its_peak_and_of_its_rate(engine):
    half = {0: Speeds((0,), (0.5,))}
    assert ends_of(engine, [(0, 1500, [0])], {0: Bucket(900.0, 1.0)}, half) == [200 + 2 * 500]


SETTINGS = ("bert-large", 'flat(2, bandwidth="1GB/s")')


@pytest.fixture(scope="module")
def setup():
    return ps.make_setup(*SETTINGS, planner="balanced", microbatches=4, sharing="fair")


def shaped(setup, burst, times=4.0):
    links = tuple(replace(link, burst=burst, peak=times * link.bandwidth) for link in setup.cluster.links)
    return replace(setup, cluster=replace(setup.cluster, links=links))


def test_a_message_alone_takes_what_its_program_says(setup):
    size = max(ps.lower(setup).size)
    program = ps.lower(shaped(setup, size / 2))
    found = event.run(program)
    sent = program.size > 0
    assert sent.any()
    first = min(t for t in range(len(program)) if sent[t])
    assert abs(int(found.end[first] - found.start[first]) - int(program.duration[first])) <= 1
    assert program.duration[first] < ps.lower(setup).duration[first]


def test_a_burst_that_holds_every_message_is_a_link_of_the_peak(setup):
    fast = replace(
        setup,
        cluster=replace(
            setup.cluster, links=tuple(replace(one, bandwidth=4 * one.bandwidth) for one in setup.cluster.links)
        ),
    )
    assert event.run(ps.lower(shaped(setup, 1e15))).makespan == event.run(ps.lower(fast)).makespan


def test_rules_with_one_rate_refuse_bursts_by_name_and_without_sharing_buckets_stay_full(setup):
    case = shaped(setup, 1e6)
    with pytest.raises(RefusedError, match=r"sharing 'fifo' .* one rate; the burst of '.*' needs .*: fair"):
        ps.lower(replace(case, options=Options(sharing="fifo")))
    alone = ps.lower(replace(case, options=Options(sharing="none")))
    assert not alone.buckets
    assert (alone.duration <= ps.lower(replace(setup, options=Options(sharing="none"))).duration).all()


def test_a_plan_on_links_with_bursts_is_not_below_its_bounds(setup):
    case = shaped(setup, 1e6)
    seconds = event.run(ps.lower(case)).makespan / 1e9
    bound = plan_bound(case.costs, case.cluster, 4, "fair")
    assert 0 < bound <= seconds
    assert bound <= plan_bound(setup.costs, setup.cluster, 4, "fair")
