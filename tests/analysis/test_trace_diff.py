"""What changed from one trace to another."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from helpers.small_traces import sampled_trace
from pipesim.analysis.trace_diff import diff
from pipesim.base.errors import InputError
from pipesim.display import text


def noisy(seed, *means, names=None, n=12, slower=()):
    rng = np.random.default_rng(seed)
    factors = [1.2 if layer in slower else 1.0 for layer in range(len(means))]
    return sampled_trace(*(rng.normal(m * f, 0.02 * m, n) for m, f in zip(means, factors, strict=True)), names=names)


@given(trace=strategies.traces())
def test_a_trace_does_not_differ_from_itself(trace):
    for group in diff(trace, trace):
        assert not group.changed
        assert {change.verdict for layer in group.layers for change in layer.times} == {"same"}
        assert all(change.a_s == change.b_s for change in group.totals)


def test_the_layer_that_takes_longer_is_found_and_no_other():
    (group,) = diff(noisy(1, 1, 2, 3, 4), noisy(2, 1, 2, 3, 4, slower=[2]))
    assert [layer.a for layer in group.changed] == [2]
    for change in group.layers[2].times:
        assert change.verdict == "slower"
        assert 0 < change.low_s < change.b_s - change.a_s < change.high_s
    (back,) = diff(noisy(2, 1, 2, 3, 4, slower=[2]), noisy(1, 1, 2, 3, 4))
    assert {change.verdict for change in back.layers[2].times} == {"faster"}


def test_noise_alone_changes_nothing_19_times_of_20():
    """Of 60 pairs of recordings of the same 10 layers, at most 1 of 20 has any significant change."""
    means = range(1, 11)
    wrong = sum(bool(diff(noisy(seed, *means), noisy(1000 + seed, *means))[0].changed) for seed in range(60))
    assert wrong <= 6


def test_with_one_sample_the_verdict_is_that_there_is_none():
    (group,) = diff(sampled_trace([1.0], [2.0]), sampled_trace([1.5, 1.6], [2.0, 2.0]))
    assert [change.verdict for change in group.layers[0].times] == ["one sample: no confidence"] * 2
    assert group.layers[0].times[0].low_s is None
    assert not group.changed
    assert "2 have one sample" not in text.difference([group])
    assert "1 have one sample in A or B: no confidence" in text.difference([group])


def test_layers_are_paired_by_name_and_the_rest_came_or_went():
    a = noisy(1, 1, 2, 3, 4, names=["conv1", "relu", "conv2", "fc"])
    b = noisy(2, 1, 3, 4, 5, names=["conv1", "conv2b", "fc", "out"])
    (group,) = diff(a, b)
    assert [(layer.a, layer.b, layer.name) for layer in group.layers] == [
        (0, 0, "conv1"), (1, None, "relu"), (2, None, "conv2"), (None, 1, "conv2b"), (3, 2, "fc"), (None, 3, "out"),
    ]  # fmt: skip
    renamed = noisy(2, 1, 2, 3, 4, names=["conv1", "gelu", "conv2", "fc"])
    assert diff(a, renamed)[0].layers[1].name == "relu -> gelu"


def test_totals_are_of_all_layers_those_only_in_one_trace_included():
    (group,) = diff(sampled_trace([1.0, 1.0], [2.0, 2.0]), sampled_trace([1.0, 1.0]))
    assert [(change.a_s, change.b_s, change.verdict) for change in group.totals] == [(3, 1, "faster"), (6, 2, "faster")]


def test_sizes_that_differ_are_named():
    a = sampled_trace([1.0], [1.0])
    table = dict(a.layers)
    table["output_bytes"] = np.array([8, 16])
    (group,) = diff(a, replace(a, layers=table))
    assert [layer.sizes for layer in group.layers] == [(), (("output_bytes", 8, 16),)]
    assert "layer 1, layer 1: output 8 B -> 16 B" in text.difference([group])


def on(trace, kind, size=1):
    table = dict(trace.layers)
    count = len(table["layer"])
    table |= {"device_kind": np.full(count, kind, object), "microbatch_size": np.full(count, size)}
    return replace(trace, layers=table)


def test_the_only_device_of_each_is_compared_with_that_of_the_other():
    (group,) = diff(on(noisy(1, 1), "v100", 2), on(noisy(2, 0.5), "a100", 4))
    assert (group.kinds, group.microbatch_sizes) == (("v100", "a100"), (2, 4))
    assert group.layers[0].times[0].verdict == "faster"
    assert text.difference([group]).startswith("on v100 (A) and a100 (B), microbatch of 2 (A) and 4 (B)")


def test_traces_of_several_devices_without_a_common_one_are_refused():
    def both(a, b):
        one, two = on(noisy(1, 1), a), on(noisy(1, 1), b)
        table = {name: np.concatenate([one.layers[name], two.layers[name]]) for name in one.layers}
        return replace(one, layers=table)

    assert [group.kinds for group in diff(both("a", "b"), both("b", "c"))] == [("b", "b")]
    with pytest.raises(InputError, match=r"a with microbatches of 1, b with microbatches of 1 in one trace and c with"):
        diff(both("a", "b"), both("c", "d"))


@given(order=st.permutations(range(30)))
def test_the_largest_of_many_changes_are_shown_first(order):
    means = [float(n + 1) for n in order]
    a, b = sampled_trace(*([m] for m in means)), sampled_trace(*([m + 0.1 * m] for m in means))
    shown = text.difference(diff(a, b), 3)
    assert "... and 57 more rows (--all)" in shown
    assert f"layer {order.index(29)} " in shown
    assert f"layer {order.index(0)} " not in shown.split("backward", 1)[1]


def test_traces_are_compared_at_a_width_that_both_have():
    """Of several widths, the sizes of the first rows were compared."""
    trace = sampled_trace([1.0], [2.0])
    wide = trace.stated_at(tensor=2)
    both = replace(
        trace, layers={name: np.concatenate([wide.layers[name], trace.layers[name]]) for name in wide.layers}
    )
    (group,) = diff(both, trace)
    assert not group.changed
    with pytest.raises(InputError, match="one GPU each in one trace and tensor width 2 in the other"):
        diff(trace, wide)
