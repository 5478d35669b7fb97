"""Intervals beside simulated times: by runs of the same kind, wider where there are few, right as often as stated."""

from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from pipesim.studies import accuracy
from pipesim.studies.accuracy import RunKind, interval_of
from pipesim.studies.measured_runs import ShippedRun, shipped

KIND = RunKind("computed", "a100", "megatron", teams=True, gpus=64)


def run_of(ratio, *, source="one", device="a100-80gb", framework="megatron-v2", basis="computed", gpus=64, tensor=8):
    """A row that was measured to take so many times its simulation."""
    return ShippedRun("d", source, "", "", "", "", device, framework, basis, gpus, tensor, 0.0, ratio, 1.0)


def runs(count=20, **about):
    """Rows of two sources with ratios between 0.9 and 1.2."""
    return [run_of(ratio, source=f"source {n % 2}", **about) for n, ratio in enumerate(np.linspace(0.9, 1.2, count))]


def test_the_interval_is_the_middle_of_measured_over_simulated():
    found = interval_of(KIND, runs(101))
    middle = np.exp(np.quantile(np.log(np.linspace(0.9, 1.2, 101)), [0.05, 0.95]))
    assert (found.low, found.high) == pytest.approx(tuple(middle))
    assert (found.rows, found.sources, found.is_widened) == (101, 2, False)


@pytest.mark.parametrize(
    ("about", "shared"),
    [
        ({}, ("basis", "device", "framework", "teams", "gpus")),
        ({"gpus": 256}, ("basis", "device", "framework", "teams", "gpus")),
        ({"gpus": 257}, ("basis", "device", "framework", "teams")),
        ({"tensor": 1}, ("basis", "device", "framework")),
        ({"framework": "deepspeed"}, ("basis", "device")),
        ({"device": "h100-80gb"}, ("basis",)),
        ({"basis": "recorded"}, ()),
    ],
)
def test_the_narrowest_kind_with_enough_rows_counts(about, shared):
    found = interval_of(KIND, runs(**about))
    assert (found.shared, found.is_widened) == (shared, "device" not in shared)


def test_one_row_too_few_takes_the_next_kind():
    found = interval_of(KIND, [*runs(19), *runs(5, gpus=1024)])
    assert (found.rows, found.shared) == (24, ("basis", "device", "framework", "teams"))


@pytest.mark.parametrize("changed", [{"device": "h100-80gb"}, {"basis": "recorded"}])
def test_where_nothing_like_it_was_measured_the_interval_is_wider(changed):
    near, far = interval_of(KIND, runs(101)), interval_of(KIND, runs(101, **changed))
    assert (far.low, far.high) == pytest.approx((near.low**accuracy.WIDER, near.high**accuracy.WIDER))


def test_rows_of_one_source_make_a_wider_interval():
    near = interval_of(KIND, runs(101))
    far = interval_of(KIND, [replace(run, source="one") for run in runs(101)])
    assert (far.is_widened, far.high) == (True, pytest.approx(near.high**accuracy.WIDER))


def test_the_simulated_time_is_always_in_its_interval():
    found = interval_of(KIND, [run_of(ratio) for ratio in np.linspace(1.1, 1.2, 30)])
    assert found.low == 1.0
    assert found.high > 1.2


def test_replayed_and_held_out_steps_say_nothing_of_a_simulation():
    exact = [replace(run, tier=tier, measured_s=1.0) for tier in "ab" for run in runs(101)]
    assert interval_of(KIND, [*runs(20), *exact]) == interval_of(KIND, runs(20))


# --- coverage --------------------------------------------------------------------------------------------------------


def test_coverage_is_that_of_a_source_by_all_others():
    inside = [run_of(ratio, source=f"source {n % 2}") for n, ratio in enumerate(np.linspace(0.9, 1.1, 60))]
    outside = [run_of(1.5, source="far"), run_of(1.0, source="far")]
    found = {one.source: one for one in accuracy.coverage([*inside, *outside])}
    assert (found["far"].rows, found["far"].inside) == (2, 1)


def test_intervals_of_sources_left_out_hold_nine_of_ten_of_their_rows():
    """The share that the intervals state, for runs of sources that they do not know."""
    found = accuracy.coverage(shipped())
    share = sum(one.inside for one in found) / sum(one.rows for one in found)
    assert share == pytest.approx(accuracy.MIDDLE, abs=0.05)


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trace", "more", "kind"),
    [
        ("model:bert-large", {"framework": "megatron"}, ("computed", "a100", "megatron")),
        ("model:bert-large", {"efficiency": 0.4}, ("stated", "a100", "")),
        ("bert-large", {}, ("stated", "v100", "")),
        ("gpt-small-cpu", {}, ("recorded", "cpu", "")),
    ],
)
def test_results_know_their_kind(trace, more, kind):
    cluster = {"a100": "dgx_a100(1)", "v100": "dgx1_v100", "cpu": "flat(2, bandwidth='1GB/s')"}[kind[1]]
    result = ps.simulate(trace, cluster, **more)
    found = result.interval.kind
    assert (found.basis, found.device, found.framework) == kind
    data = result.as_data()["measured_interval"]
    assert data["low_s"] <= result.iteration_time <= data["high_s"]
    assert data["high_s"] == pytest.approx(result.iteration_time * result.interval.high)


def test_a_plan_has_factors_and_rows_of_a_comparison_their_own_interval():
    plan = ps.find_plan("bert-large", "dgx1_v100").as_data()["measured_interval"]
    assert plan["low"] < 1 < plan["high"]
    rows = [row.as_data(bound=False) for row in ps.compare("bert-large", "dgx1_v100", planners=["balanced"])]
    for row in rows:
        assert row["measured_interval"]["high_s"] == pytest.approx(row["iteration_time_s"] * plan["high"])
