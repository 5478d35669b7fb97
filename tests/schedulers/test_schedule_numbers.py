"""Every schedule against its published numbers: makespan, longest stage, in flight; equal stages, no messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies  # noqa: F401 - its profile for Hypothesis
from pipesim.analysis import metrics
from pipesim.engines import by_name
from pipesim.lowering import Options, lower
from pipesim.schedulers import v_min
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

UNIT = Times()  # F = 1, B = 2, I = W = 1
MEASURED = Times.of(
    18.522, None, 18.086, 9.337, 0.601
)  # of a GPT on eight GPUs, in milliseconds, with the hop's latency


def replayed(scheduler, stages, microbatches, times=UNIT, chunks=None, **options):
    """The timeline of a schedule on equal stages."""
    made = equal_stages.setup(scheduler, stages, microbatches, times, chunks, Options(**options))
    return by_name.run(lower(made))


def seconds(timeline):
    return metrics.iteration_time(timeline)


@pytest.mark.parametrize(
    ("scheduler", "times"),
    [
        ("gpipe", {(4, 8): 33, (8, 16): 69, (8, 32): 117}),
        ("one_f_one_b", {(4, 8): 33, (8, 16): 69, (8, 32): 117, (64, 1024): 3261}),
        ("interleaved(chunks=2)", {(4, 8): 57, (8, 16): 117, (8, 32): 213}),
        ("looped_bfs(chunks=2)", {(4, 8): 57, (8, 16): 117, (8, 32): 213}),
        ("zb_h1", {(4, 8): 27, (8, 16): 55, (8, 32): 103}),
        ("zb_1p", {(4, 8): 27, (8, 16): 55, (8, 32): 103}),
        ("zb_v", {(4, 8): 51, (8, 16): 103, (8, 32): 199}),
        ("interleaved_zb(chunks=2)", {(4, 8): 51, (8, 16): 103, (8, 32): 199}),
        ("interleaved_zb_1p(chunks=2)", {(4, 8): 51, (8, 16): 103, (8, 32): 199}),
        ("v_half", {(4, 8): 53, (8, 16): 113, (4, 16): 101}),
        ("v_min", {(4, 8): 59, (8, 16): 123, (4, 16): 107}),
        ("dualpipe", {(4, 8): 26, (8, 16): 54, (8, 32): 102}),
        ("dualpipe_v", {(4, 8): 54, (8, 16): 110, (8, 32): 206}),
    ],
)
def test_makespans_are_the_published_ones(scheduler, times):
    assert {shape: seconds(replayed(scheduler, *shape)) for shape in times} == times


@pytest.mark.parametrize(("p", "m"), [(4, 4), (8, 8), (4, 8), (8, 16)])
def test_chimera_takes_2m_plus_p_minus_2_where_backwards_are_as_long_as_forwards(p, m):
    assert seconds(replayed("chimera", p, m, Times.of(1, 1))) == 2 * m + p - 2


@pytest.mark.parametrize(
    ("scheduler", "peak"),
    [
        ("gpipe", lambda _, m: m),
        ("one_f_one_b", min),
        ("zb_h1", min),
        ("zb_1p", min),
        ("zb_v", lambda p, m: min(2 * p, 2 * m)),
        ("v_half", lambda p, _: p + 2),
        ("v_min", lambda p, _: p),
        ("dualpipe_v", lambda p, _: 2 * p + 1),
        ("interleaved(chunks=2)", lambda p, _: 3 * p - 1),
    ],
)
@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 16)])
def test_as_many_are_in_flight_as_published(scheduler, peak, p, m):
    assert metrics.in_flight(replayed(scheduler, p, m)).max() == peak(p, m)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.data())
def test_interleaving_keeps_its_formula_of_chunks_on_every_rank(p, chunks, groups, data):
    """Rank r: 2 (p - r - 1) + (v - 1) p + 1, or everything where there is less."""
    m = p * groups + data.draw(st.integers(0, p - 1))
    flying = metrics.in_flight(replayed(f"interleaved(chunks={chunks})", p, m, chunks=chunks)).tolist()
    group = -(-m // (m // p))
    assert flying == [min(2 * (p - r - 1) + (chunks - 1) * group + 1, chunks * m) for r in range(p)]


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 16)])
def test_with_twice_the_memory_no_stage_pauses(p, m):
    assert metrics.longest_stage(replayed("zb_2p", p, m)) == 3 * m * 10**9


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (5, 10), (8, 32)])
def test_on_a_v_no_stage_pauses_with_the_memory_of_1f1b(p, m):
    timeline = replayed("zb_v", p, m)
    assert metrics.longest_stage(timeline) == 6 * m * 10**9
    assert seconds(timeline) == 6 * m + p - 1


@pytest.mark.parametrize(("scheduler", "published"), [("one_f_one_b", 0.2431), ("zb_1p", 0.1585), ("zb_2p", 0.0433)])
def test_bubbles_with_measured_times_are_at_most_the_published_ones(scheduler, published):
    bubble = metrics.bubble(replayed(scheduler, 8, 24, MEASURED))["longest_stage"]
    assert round(bubble, 4) <= published
    assert bubble >= published - 1e-4, "a shorter order would be news"


@given(st.integers(1, 9), st.integers(1, 20))
def test_zero_bubble_by_hand_takes_3m_plus_p_minus_1(p, m):
    """Once there are as many microbatches as stages; before that it is never longer than 1F1B."""
    time = seconds(replayed("zb_h1", p, m))
    if m >= p:
        assert time == 3 * m + p - 1
    assert time <= 3 * (m + p - 1)


@given(st.sampled_from(["zb_v", "v_half", "v_min"]), st.integers(1, 9), st.integers(1, 12))
def test_the_family_on_a_v_comes_to_its_end_for_any_number_of_stages_and_microbatches(name, p, m):
    timeline = replayed(name, p, m)
    most = {"zb_v": 2 * p, "v_half": p + 2, "v_min": v_min.limit_of(p)}[name]
    assert metrics.in_flight(timeline).max() <= most


@pytest.mark.parametrize("p", [2, 4, 6, 8])
@pytest.mark.parametrize("extra", [0, 2, 6])
def test_dualpipe_takes_its_formula(p, extra):
    """3 m + (p/2 - 1) (F&B + B - 3 W), the pair as long as both."""
    m = 2 * p + extra
    assert seconds(replayed("dualpipe", p, m)) == 3 * m + (p // 2 - 1) * (3 + 2 - 3)


def test_a_shorter_pair_shortens_dualpipe():
    """Each of the m - p/2 ... pairs on the way saves what overlaps."""
    whole, half = (seconds(replayed("dualpipe", 4, 16, pair_factor=factor)) for factor in (1.0, 0.5))
    assert half < whole
    assert seconds(replayed("dualpipe", 4, 16, pair_overlap=1.0)) < whole


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 3))
def test_waves_never_keep_more_microbatches_under_way_than_they_say(p, m, waves):
    """2p - 1 microbatches of 2 x waves chunks each."""
    flying = metrics.in_flight(replayed(f"hanayo(waves={waves})", p, m, chunks=2 * waves))
    assert flying.max() <= min(2 * p - 1, m) * 2 * waves


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 4))
def test_a_numbered_warm_up_limits_what_is_in_flight(p, m, limit):
    flying = metrics.in_flight(replayed(f"one_f_one_b(warm_up={limit})", p, m)).tolist()
    assert flying == [min(p - n, limit, m) for n in range(p)]


@given(st.integers(1, 6), st.integers(1, 12))
def test_policy_b_takes_in_twice_as_many_less_one(p, m):
    flying = metrics.in_flight(replayed("eager_1f1b", p, m)).tolist()
    assert flying == [min(2 * (p - n) - 1, m) for n in range(p)]


def test_an_earlier_warm_up_hides_messages():
    """With hops as long as forwards, policy B is faster than policy A."""
    slow = Times.of(1, 2, hop=1)
    assert seconds(replayed("eager_1f1b", 4, 16, slow)) < seconds(replayed("one_f_one_b", 4, 16, slow))


@pytest.mark.parametrize("times", [UNIT, Times.of(1, 2, hop=0.5), MEASURED])
def test_auto_is_at_least_as_good_as_every_member(times):
    best, straight = seconds(replayed("auto", 4, 6, times)), 0
    for name in set(equal_stages.family()) - {
        "auto",
        "exact",
        "dualpipe",
        "dualpipe_v",
        "interleaved",
        "looped_bfs",
        "hanayo",
    }:
        chunks = equal_stages.setup(name, 4, 6, times).plan.stages
        scale = len(chunks) / 4  # of a chunk, each action takes so much less
        part = Times.of(times.forward / scale, None, times.input_grad / scale, times.weight_grad / scale, times.hop)
        if scale == 1:
            straight += 1
            assert best <= seconds(replayed(name, 4, 6, part)) + 1e-9, name
    assert straight > 4


@pytest.mark.parametrize("p", range(2, 13))
@pytest.mark.parametrize("scheduler", ["zb_v", "v_half", "v_min"])
def test_on_a_v_each_further_microbatch_takes_six_units_for_any_number_of_devices(scheduler, p):
    """Which is the work of a device: no bubble grows with the microbatches. v_half and v_min lost time at some p."""
    few, many = (seconds(replayed(scheduler, p, m)) for m in (3 * p + 2, 3 * p + 14))
    assert (many - few) / 12 == 6


@given(st.integers(1, 8), st.data())
def test_with_few_microbatches_zb_v_is_no_slower_than_what_keeps_less(p, data):
    """Four devices and three microbatches took 26 where v_half takes 23."""
    m = data.draw(st.integers(1, 2 * p))
    time = seconds(replayed("zb_v", p, m))
    assert time <= min(seconds(replayed("v_half", p, m)), seconds(replayed("v_min", p, m)))


def test_with_few_microbatches_zb_v_takes_backwards_as_they_come():
    assert seconds(replayed("zb_v", 4, 3)) == seconds(replayed("interleaved_zb(chunks=2)", 4, 3)) == 23
