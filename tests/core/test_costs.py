"""Seconds per layer: statistics of what was recorded, for the microbatch and its share that is asked for."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from helpers.small_traces import rows_of, trace_of
from pipesim.base.errors import InputError
from pipesim.core.costs import PHASES, SCALINGS, STATISTICS, costs_of


def test_the_median_is_taken_of_however_many_samples_a_layer_has():
    rows = [(0, "any", 4, sample, seconds) for sample, seconds in enumerate([5.0, 1.0, 2.0])]
    rows += [(1, "any", 4, sample, seconds) for sample, seconds in enumerate([7.0, 4.0])]
    assert costs_of(rows_of(*rows)).forward("any").tolist() == [2.0, 5.5]


@given(strategies.traces(recorded_sizes=(4,)), st.sampled_from(sorted(STATISTICS)))
def test_a_statistic_is_that_of_the_recorded_samples(trace, statistic):
    """In whatever order rows stand, however uneven the number of samples."""
    costs = costs_of(trace, statistic=statistic)
    table = trace.layers
    for kind in trace.device_kinds:
        for layer in range(trace.layer_count):
            rows = (table["layer"] == layer) & (table["device_kind"] == kind)
            recorded = table["forward_s"][rows]
            assert costs.forward(kind)[layer] == pytest.approx(getattr(np, statistic)(recorded), rel=1e-12)


@given(strategies.traces(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(trace, random):
    order = np.array(random.sample(range(len(trace.layers["layer"])), len(trace.layers["layer"])))
    layers = {name: values[order] for name, values in trace.layers.items()}
    shuffled = type(trace)(trace.model, trace.source, trace.microbatch_size, layers)
    for kind in trace.device_kinds:
        for phase in PHASES:
            assert np.array_equal(costs_of(trace).seconds(phase, kind), costs_of(shuffled).seconds(phase, kind))


# --- microbatch sizes and shares -------------------------------------------------------------------------------------

TWO_SIZES = rows_of((0, "any", 2, 0, 3.0), (0, "any", 6, 0, 5.0))


@pytest.mark.parametrize(
    ("size", "share", "expected"),
    [
        (2, 1.0, 3.0),  # as recorded
        (6, 1.0, 5.0),
        (4, 1.0, 4.0),  # half way between both
        (3, 1.0, 3.5),
        (5, 1.0, 4.5),
        (1, 1.0, 1.5),  # below the smallest: in proportion to it
        (12, 1.0, 10.0),  # above the largest: in proportion to it
        (6, 1 / 3, 3.0),  # a third of 6 samples are 2
        (12, 0.5, 5.0),
        (8, 0.5, 4.0),
        (2, 0.25, 0.75),
    ],
)
def test_seconds_are_interpolated_between_recorded_sizes_and_proportional_outside(size, share, expected):
    assert costs_of(TWO_SIZES, size).forward("any", share)[0] == pytest.approx(expected, rel=1e-15)


@given(strategies.traces(recorded_sizes=(4,)), st.floats(0.01, 1))
def test_with_one_recorded_size_seconds_are_proportional_to_the_share(trace, share):
    costs = costs_of(trace)
    for kind in trace.device_kinds:
        assert costs.forward(kind, share) == pytest.approx(costs.forward(kind) * share, rel=1e-12)


# Seconds that grow less than the size: small microbatches leave a device half idle.
CURVE = {1: 3.0, 2: 4.0, 4: 6.0, 8: 11.0}
FOUR_SIZES = rows_of(*((0, "any", size, 0, seconds) for size, seconds in CURVE.items()))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
def test_replicas_that_split_a_recorded_size_evenly_take_what_was_recorded_of_their_part(size, replicas):
    """Half of a microbatch of 4 takes, to the bit, what 2 took; less than the smallest is in proportion to it."""
    part = size / replicas
    expected = CURVE[int(part)] if part >= 1 else CURVE[1] * part
    for phase in ("forward", "recompute"):
        assert costs_of(FOUR_SIZES, size).seconds(phase, "any", 1 / replicas)[0] == expected


@pytest.mark.parametrize(
    ("size", "replicas", "expected"), [(6, 2, 5.0), (4, 3, 3 + 1 / 3), (16, 2, 11.0), (12, 1, 16.5)]
)
def test_a_part_between_two_recorded_sizes_is_interpolated_and_one_beyond_them_in_proportion(size, replicas, expected):
    assert costs_of(FOUR_SIZES, size).forward("any", 1 / replicas)[0] == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_part_that_is_a_recorded_size_uses_that_size_alone_whatever_floating_point_makes_of_the_share(part, replicas):
    """1/49 of 49 samples is 1, though 49 times the number nearest to 1/49 is not."""
    rows = [(0, "any", size, 0, 1.0 + size**0.5) for size in range(1, 202)]
    costs = costs_of(rows_of(*rows), part * replicas)
    assert costs.forward("any", 1 / replicas)[0] == 1.0 + part**0.5
    assert len(costs._mix("any", 1 / replicas)) == 1


@given(strategies.traces(recorded_sizes=(1, 2, 4, 8)), st.integers(1, 16), st.integers(1, 16), st.sampled_from(PHASES))
def test_between_recorded_sizes_seconds_lie_between_theirs(trace, size, replicas, phase):
    costs = costs_of(trace, size)
    part = size / replicas
    for kind in trace.device_kinds:
        recorded = {n: costs_of(trace, n).seconds(phase, kind) for n in (1, 2, 4, 8)}
        below = max((n for n in recorded if n <= part), default=1)
        above = min((n for n in recorded if n >= part), default=8)
        outside = min(1.0, part) * max(1.0, part / 8)
        ends = np.array([recorded[below], recorded[above]]) * outside
        found = costs.seconds(phase, kind, 1 / replicas)
        assert (found >= ends.min(axis=0) * (1 - 1e-9)).all()
        assert (found <= ends.max(axis=0) * (1 + 1e-9)).all()


def test_each_device_kind_is_interpolated_between_its_own_sizes():
    """One kind was timed at 2 and 8, the other at 4 alone: half of 8 is half way for one and recorded for the other."""
    rows = [(0, "v100", 2, 0, 3.0), (0, "v100", 8, 0, 9.0), (0, "a100", 4, 0, 1.0)]
    costs = costs_of(rows_of(*rows), 8)
    assert costs.forward("v100", 0.5)[0] == pytest.approx(5.0, rel=1e-15)
    assert costs.forward("a100", 0.5)[0] == 1.0
    assert costs.forward("a100")[0] == 2.0
    assert costs.is_curved


# --- linear scaling --------------------------------------------------------------------------------------------------


@given(strategies.traces(), st.integers(1, 16), st.floats(0.01, 1), st.sampled_from(PHASES))
def test_under_linear_scaling_a_share_takes_its_share_of_the_whole_and_the_whole_what_was_recorded(
    trace, size, share, phase
):
    recorded, linear = costs_of(trace, size), costs_of(trace, size, scaling="linear")
    for kind in trace.device_kinds:
        assert np.array_equal(linear.seconds(phase, kind), recorded.seconds(phase, kind))
        assert linear.seconds(phase, kind, share) == pytest.approx(recorded.seconds(phase, kind) * share, rel=1e-12)


def test_the_two_scalings_differ_by_as_much_as_the_curve_bends():
    recorded, linear = (costs_of(FOUR_SIZES, 4, scaling=scaling) for scaling in SCALINGS)
    assert (recorded.forward("any", 0.5)[0], linear.forward("any", 0.5)[0]) == (4.0, 3.0)
    assert (recorded.forward("any", 0.25)[0], linear.forward("any", 0.25)[0]) == (3.0, 1.5)


def test_draws_follow_the_scaling_too():
    rows = [(0, "any", 2, s, [3.0, 5.0][s]) for s in range(2)] + [(0, "any", 4, s, [8.0, 10.0][s]) for s in range(2)]
    trace = rows_of(*rows)
    found = {
        scaling: set(
            costs_of(trace, 4, scaling=scaling).draw("forward", "any", 0.5, 60, np.random.default_rng(0))[:, 0]
        )
        for scaling in SCALINGS
    }
    assert found == {"recorded": {3.0, 5.0}, "linear": {4.0, 5.0}}


def test_costs_are_curved_only_where_a_kind_was_timed_at_several_sizes():
    assert costs_of(TWO_SIZES).is_curved
    assert not costs_of(trace_of()).is_curved
    assert not costs_of(rows_of((0, "v100", 4, 0, 1.0), (0, "a100", 4, 0, 2.0))).is_curved
    assert not costs_of(rows_of((0, "v100", 4, 0, 1.0), (0, "a100", 8, 0, 2.0))).is_curved


# --- phases ----------------------------------------------------------------------------------------------------------


def _phases(trace, **options):
    costs = costs_of(trace, **options)
    return {phase: costs.seconds(phase, "any").tolist() for phase in PHASES}


def test_where_only_whole_backwards_were_recorded_a_stated_share_is_the_weights_gradient():
    found = _phases(trace_of(), weight_share=0.25)
    assert found == {
        "forward": [1.0, 2.0],
        "backward": [2.0, 4.0],
        "backward_first": [2.0, 4.0],
        "backward_input": [1.5, 3.0],
        "backward_weight": [0.5, 1.0],
        "recompute": [1.0, 2.0],
        "core": [0.0, 0.0],
    }
    assert costs_of(trace_of(), weight_share=0.25).weight_share == 0.25


def test_where_both_parts_were_recorded_they_are_kept_and_make_up_the_whole():
    nan = float("nan")
    trace = trace_of(backward_s=[nan, nan], backward_input_s=[1.0, 3.0], backward_weight_s=[0.5, 0.25])
    found = _phases(trace)
    assert (found["backward_input"], found["backward_weight"]) == ([1.0, 3.0], [0.5, 0.25])
    assert found["backward"] == [1.5, 3.25]
    assert costs_of(trace).weight_share is None


def test_a_first_backward_and_a_recomputation_are_used_where_recorded():
    found = _phases(trace_of(backward_first_s=[1.75, 3.5], recompute_s=[0.5, 1.0]))
    assert found["backward_first"] == [1.75, 3.5]
    assert found["recompute"] == [0.5, 1.0]
    assert found["backward"] == [2.0, 4.0]


# --- device kinds ----------------------------------------------------------------------------------------------------


def test_each_kind_has_its_own_times_and_any_fits_the_others():
    rows = [(0, "v100", 4, 0, 1.0), (0, "any", 4, 0, 3.0)]
    costs = costs_of(rows_of(*rows))
    assert costs.forward("v100")[0] == 1.0
    assert costs.forward("a100")[0] == 3.0
    assert costs.kinds == ("v100", "any")


def test_a_kind_that_was_never_timed_is_refused_by_name():
    costs = costs_of(rows_of((0, "v100", 4, 0, 1.0)))
    with pytest.raises(InputError, match="devices of kind 'a100'; the trace of 'm' has times for v100"):
        costs.forward("a100")


# --- drawing ---------------------------------------------------------------------------------------------------------


@given(strategies.traces(recorded_sizes=(4,)), st.integers(0, 2**32), st.sampled_from(PHASES))
def test_drawing_gives_recorded_samples_and_nothing_else(trace, seed, phase):
    """Each layer's own samples, of this kind: never another layer's, never a mixture."""
    costs = costs_of(trace)
    for number, kind in enumerate(costs.kinds):
        drawn = costs.draw(phase, kind, 1.0, 6, np.random.default_rng(seed))
        assert drawn.shape == (6, trace.layer_count)
        for layer in range(trace.layer_count):
            first, count = costs.first[number, layer], costs.count[number, layer]
            assert set(drawn[:, layer]) <= set(costs.samples[phase][first : first + count])
            rows = (trace.layers["layer"] == layer) & (trace.layers["device_kind"] == kind)
            if phase == "forward":
                assert set(drawn[:, layer]) <= set(trace.layers["forward_s"][rows])


def test_drawing_reaches_every_sample_and_the_same_rng_draws_the_same():
    rows = [(0, "any", 4, sample, float(sample)) for sample in range(5)]
    costs = costs_of(rows_of(*rows))
    drawn = costs.draw("forward", "any", 1.0, 200, np.random.default_rng(1))
    assert set(drawn[:, 0]) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert np.array_equal(drawn, costs.draw("forward", "any", 1.0, 200, np.random.default_rng(1)))
    assert set(costs.draw("forward", "any", 0.5, 200, np.random.default_rng(1))[:, 0]) == {0.0, 0.5, 1.0, 1.5, 2.0}


def test_between_two_recorded_sizes_samples_of_both_are_mixed():
    rows = [(0, "any", 2, s, [3.0, 5.0][s]) for s in range(2)] + [(0, "any", 6, s, [7.0, 15.0][s]) for s in range(2)]
    drawn = costs_of(rows_of(*rows), 4).draw("forward", "any", 1.0, 100, np.random.default_rng(0))
    assert set(drawn[:, 0]) == {5.0, 6.0, 9.0, 10.0}  # the means of 3 or 5 and 7 or 15


def test_only_repeated_samples_make_costs_random():
    assert not costs_of(trace_of()).is_random
    assert costs_of(rows_of((0, "any", 4, 0, 1.0), (0, "any", 4, 1, 2.0))).is_random


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "mode"}, "statistic = 'mode' found; one of median, mean"),
        ({"weight_share": 1.5}, "weight_share 1.5 found; 0 to 1"),
        ({"weight_share": float("nan")}, "weight_share nan found"),
        ({"microbatch_size": 0}, "microbatch_size = 0 found"),
        ({"scaling": "cubic"}, "scaling = 'cubic' found; one of recorded, linear was expected"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        costs_of(trace_of(), **options)


def test_what_the_refusal_of_a_width_says_to_type_works(run, tmp_path):
    """It named options that did not exist, and left out those that are needed."""
    trace_of(device_kind=["cpu", "cpu"]).save(tmp_path / "own")
    cluster = 'flat(4, bandwidth="1GB/s", device="cpu", memory="16GiB")'
    code, _, err = run("simulate", tmp_path / "own", cluster, "--tp", "2")
    assert code == 2
    (typed,) = re.findall(r"`pipesim (trace [^`]*)`", err)
    words = typed.replace("NAME", "gpt3-1.3b").replace("KIND", "h100-80gb").replace("FOLDER", str(tmp_path / "t"))
    assert run(*words.split())[0] == 0
    cluster = 'flat(4, bandwidth="25GB/s", device="h100-80gb")'
    assert run("simulate", tmp_path / "t", cluster, "--tp", "2")[0] == 0
