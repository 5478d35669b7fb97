"""What goes wrong, as speeds over time, and when work is over that meets them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from pipesim.base import serialisation
from pipesim.base.errors import FormatError, InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.scenario import CALM, STEADY, Degraded, Scenario, Slow, Speeds, finish_time
from pipesim.engines.compiled.speeds import Profiles, finish
from pipesim.studies.loading import load_cluster

HALF_FROM_100_TO_300 = Speeds((0, 100, 300), (1.0, 0.5, 1.0))


@pytest.mark.parametrize(
    ("start", "work", "end"),
    [
        (0, 50, 50),  # over before
        (0, 100, 100),  # over just then
        (0, 150, 200),  # 100 at full speed, 50 at half
        (0, 200, 300),  # 100 at full speed, 100 at half
        (0, 250, 350),  # and 50 more at full speed
        (100, 100, 300),
        (200, 10, 220),
        (200, 60, 310),
        (300, 70, 370),  # begun just after
        (99, 2, 102),  # 1 at full speed, and 1 at half
        (250, 0, 250),  # nothing to do
    ],
)
def test_work_takes_longer_while_its_device_is_slow(start, work, end):
    assert finish_time(HALF_FROM_100_TO_300, start, work) == end


def test_at_full_speed_work_takes_its_time():
    assert finish_time(STEADY, 123, 456) == 579
    assert finish_time(Speeds((0,), (1.0,)), 123, 456) == 579
    assert finish_time(Speeds((0,), (0.25,)), 10, 100) == 410


@st.composite
def speeds(draw):
    times = sorted(draw(st.sets(st.integers(1, 400), max_size=4)))
    values = st.sampled_from([0.25, 0.5, 1.0, 2.0, 1 / 3, 0.1])
    return Speeds((0, *times), tuple(draw(st.lists(values, min_size=len(times) + 1, max_size=len(times) + 1))))


def _integrated(speeds, start, work):
    """The first whole ns at which as much has been done, adding up ns by ns, exactly."""
    done, now = Fraction(0), start
    while done < work - Fraction(1, 10**6):
        done += Fraction(speeds.values[max(i for i, time in enumerate(speeds.times) if time <= now)])
        now += 1
    return now


@given(speeds(), st.integers(0, 500), st.integers(0, 120))
def test_a_finish_is_when_the_integral_of_the_speed_reaches_the_work(speeds, start, work):
    assert finish_time(speeds, start, work) == _integrated(speeds, start, work)


@given(speeds(), st.integers(0, 500), st.integers(0, 120), st.integers(0, 50), st.integers(0, 50))
def test_who_starts_later_or_does_more_is_not_over_sooner(speeds, start, work, later, more):
    end = finish_time(speeds, start, work)
    assert end >= start
    assert finish_time(speeds, start + later, work) >= end
    assert finish_time(speeds, start, work + more) >= end


# --- what a scenario means -------------------------------------------------------------------------------------------


def test_a_factor_of_two_is_half_the_speed_from_start_to_end():
    scenario = Scenario((Slow("a", 2.0, 1e-7, 3e-7),))
    assert scenario.of_device("a") == HALF_FROM_100_TO_300
    assert scenario.of_device("b") is STEADY
    assert CALM.of_device("a") is STEADY


def test_without_a_window_it_is_throughout():
    assert Scenario((Slow("a", 4.0),)).of_device("a") == Speeds((0,), (0.25,))


def test_a_team_is_at_any_time_as_slow_as_the_slowest_of_its_devices():
    slow = (Slow("a", 2.0, 0.0, 4e-9), Slow("b", 4.0, 2e-9, 6e-9), Slow("c", 0.5))
    assert Scenario(slow).of_team(["a", "b"]) == Speeds((0, 2, 4, 6), (0.5, 0.25, 0.25, 1.0))
    assert Scenario(slow).of_team(["c", "d"]) == Speeds((0,), (1.0,))
    assert Scenario(slow).of_team(["d", "e"]) is STEADY
    assert Scenario(slow).of_team(["c"]) == Speeds((0,), (2.0,))


def test_windows_that_overlap_multiply():
    scenario = Scenario((Slow("a", 2.0, 0.0, 2e-7), Slow("a", 4.0, 1e-7, 3e-7), Slow("b", 5.0)))
    assert scenario.of_device("a") == Speeds((0, 100, 200, 300), (0.5, 0.125, 0.25, 1.0))


CLUSTER = Cluster(
    "c",
    tuple(Device(name, "gpu") for name in "abc"),
    (Link("a", "b", 1e9), Link("b", "c", 1e9, 0.0, "half"), Link("c", "a", 1e9, 0.0, "shared", "wire")),
)


@pytest.mark.parametrize(
    ("ends", "media"),
    [(("a", "b"), {"a->b", "b->a"}), (("b", "a"), {"a->b", "b->a"}), (("c", "b"), {"b<->c"}), (("a", "c"), {"wire"})],
)
def test_a_degraded_link_is_degraded_in_both_directions_however_it_is_named(ends, media):
    found = Scenario((), (Degraded(*ends, 0.5),)).of_media(CLUSTER)
    assert found == dict.fromkeys(media, Speeds((0,), (0.5,)))


def test_a_link_degraded_twice_has_what_is_left_of_what_is_left():
    scenario = Scenario((), (Degraded("a", "b", 0.5), Degraded("b", "a", 0.5, 1e-6)))
    assert scenario.of_media(CLUSTER)["a->b"] == Speeds((0, 1000), (0.5, 0.25))


def test_devices_and_links_that_the_cluster_does_not_have_are_refused():
    with pytest.raises(InputError, match=r"slow\[1\]\.device: cluster 'c' has no device 'x'"):
        Scenario((Slow("a", 2.0), Slow("x", 2.0))).check_devices(CLUSTER)
    with pytest.raises(InputError, match=r"degraded\[0\]: cluster 'c' has no link 'a' - 'x'"):
        Scenario((), (Degraded("a", "x", 0.5),)).of_media(CLUSTER)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Slow("a", 0.0), r"factor: 0\.0 found; more than 0 was expected"),
        (lambda: Slow("a", -1.0), r"factor: -1\.0 found"),
        (lambda: Slow("a", math.inf), "factor: inf found"),
        (lambda: Slow("a", math.nan), "factor: nan found"),
        (lambda: Slow("a", 2.0, 3.0, 3.0), r"end: 3\.0 s found; a time after the start, 3\.0 s"),
        (lambda: Degraded("a", "b", 0.0), r"fraction: 0\.0 found; more than 0 and at most 1"),
        (lambda: Degraded("a", "b", 1.5), r"fraction: 1\.5 found"),
        (lambda: Degraded("a", "b", 0.5, 3.0, 1.0), r"end: 1\.0 s found"),
    ],
)
def test_impossible_troubles_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@given(scenario=strategies.clusters().flatmap(strategies.scenarios))
def test_a_scenario_is_saved_and_loaded_exactly(tmp_path_factory, suffix, scenario):
    """Troubles without an end too."""
    path = tmp_path_factory.mktemp("scenario") / f"s{suffix}"
    serialisation.save(scenario, path)
    assert serialisation.load(Scenario, path) == scenario


def test_times_may_be_written_with_units(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        'format = "pipesim.scenario"\nversion = 1\n'
        '[[slow]]\ndevice = "gpu3"\nfactor = 1.5\nstart = "10ms"\nend = "50ms"\n'
        '[[degraded]]\nsource = "nic"\ntarget = "core"\nfraction = 0.25\n'
    )
    assert serialisation.load(Scenario, path) == Scenario(
        (Slow("gpu3", 1.5, 0.01, 0.05),), (Degraded("nic", "core", 0.25, 0.0, None),)
    )


def test_a_newer_scenario_is_refused(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('format = "pipesim.scenario"\nversion = 7\n')
    with pytest.raises(FormatError, match=r"pipesim\.scenario version 7 is newer"):
        serialisation.load(Scenario, path)


@pytest.mark.parametrize("start", [0, 2**53 + 1, 2**61 + 3])
def test_work_that_begins_after_years_takes_as_long_as_at_once(start):
    """A start held as a float is rounded: beyond 104 days such work ended a nanosecond before it began."""
    speeds = Speeds((0, start + 10, start + 20), (1.0, 0.5, 1.0))
    assert finish_time(speeds, start, 0) == start
    assert finish_time(speeds, start, 1) == start + 1
    assert finish_time(speeds, start, 17) == start + 22
    profiles = Profiles(np.zeros(1, np.int32), np.array([0, 3]), np.array(speeds.times), np.array(speeds.values))
    assert [finish(profiles, 0, start, work) for work in (0, 1, 17)] == [start, start + 1, start + 22]


@pytest.mark.parametrize(
    ("slow", "names"),
    [
        (Slow("node0.gpu1", 2.0), ["node0.gpu1"]),
        (Slow("node1.*", 2.0), ["node1.gpu0", "node1.gpu1"]),
        (Slow("*.gpu1", 2.0), ["node0.gpu1", "node1.gpu1"]),
        (Slow(node="node1", factor=2.0), ["node1.gpu0", "node1.gpu1"]),
        (Slow("*.gpu0", 2.0, node="node[01]"), ["node0.gpu0", "node1.gpu0"]),
    ],
)
def test_slow_devices_are_named_by_patterns_and_nodes(slow, names):
    cluster = load_cluster('servers(2, 2, intra="25GB/s", inter="1GB/s")')
    assert [one.device for one in Scenario((slow,)).on(cluster).slow] == names
    assert all(one.factor == 2.0 for one in Scenario((slow,)).on(cluster).slow)


@pytest.mark.parametrize(
    ("slow", "message"),
    [
        (Slow("node0.gpu9", 2.0), r"slow\[0\].device: cluster 'servers-2x2' has no device 'node0.gpu9'; did you mean"),
        (Slow("rack*", 2.0), r"has no device 'rack\*'"),
        (Slow("node1", 2.0), r"has no device 'node1'; it is a node: 'node1\.\*' is all of it"),
        (Slow(node="node7", factor=2.0), r"has no node 'node7'; did you mean"),
    ],
)
def test_slow_devices_that_are_not_there_are_refused_with_what_is(slow, message):
    with pytest.raises(InputError, match=message):
        Scenario((slow,)).on(load_cluster('servers(2, 2, intra="25GB/s", inter="1GB/s")'))


def test_slow_devices_are_typed_as_name_and_factor():
    assert Scenario.of_text("gpu2=1.1; node1.*=2").slow == (Slow("gpu2", 1.1), Slow("node1.*", 2.0))
    for text in ("gpu2", "gpu2=", "gpu2=fast", "=1.1", "gpu2=1.1;"):
        with pytest.raises(InputError, match="expected"):
            Scenario.of_text(text)
    with pytest.raises(InputError, match="neither device nor node found"):
        Slow(factor=2.0)
