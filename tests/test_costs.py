"""Seconds per layer: statistics of what was recorded, for the microbatch and its share that is asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from pipesim.costs import PHASES, STATISTICS, costs_of
from pipesim.errors import InputError
from test_trace import rows_of, trace_of


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
        ({"statistic": "mode"}, "statistic 'mode' found; one of median, mean"),
        ({"weight_share": 1.5}, "weight_share 1.5 found; 0 to 1"),
        ({"weight_share": float("nan")}, "weight_share nan found"),
        ({"microbatch_size": 0}, "microbatch size 0 found"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        costs_of(trace_of(), **options)
