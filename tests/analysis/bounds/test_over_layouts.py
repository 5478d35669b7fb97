"""Bounds over layouts: no plan and order of a layout is faster, and what the bound is where it is known."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from helpers.drawn_layouts import drawn_case, judge
from helpers.strategies import even_trace
from pipesim.analysis import metrics
from pipesim.analysis.bounds.over_layouts import LayoutBound, OpenLayout, layout_bound, least_of_choices
from pipesim.analysis.bounds.over_plans import space_bound
from pipesim.core.cluster import Cluster, Device
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.topologies.flat import flat

CASES, PLANS = 80, 8
FREE = {"output_bytes": 0, "parameter_bytes": 0}
ONE_EACH = OpenLayout(4, 1, 8, chunks=1, splits=False, mirrored=False)


@pytest.fixture(scope="module")
def ratios():
    """The least time of the plans of drawn layouts over the bound; `judge` fails where one is below it."""
    found = []
    for seed in range(CASES):
        rng = random.Random(seed)
        found.append(judge(drawn_case(rng), rng, PLANS))
    return np.array(found)


def test_no_plan_of_a_drawn_layout_is_faster_than_its_bound(ratios):
    assert (ratios >= 1).all()


def test_some_plans_reach_their_bound_so_that_one_too_high_would_be_seen(ratios):
    assert (ratios < 1.001).sum() >= 5


@pytest.fixture
def costs():
    return costs_of(even_trace(8, **FREE))


@pytest.fixture
def cluster():
    return flat(4, bandwidth="1GB/s")


def test_equal_stages_under_1f1b_take_what_the_bound_of_one_stage_to_a_device_says(costs, cluster):
    found = layout_bound(costs, cluster, ONE_EACH, Options(sharing="none"))
    # (M + p - 1) (f + b), each stage two layers of 1 ms and 2 ms; the search and rounding leave a little
    assert 0.066 * (1 - 2e-4) < found.seconds <= 0.066 + 6 * 5e-6
    assert found.reason == "stages"
    names = [device.name for device in cluster.devices]
    plan = Plan("m", 8, 8, tuple(Stage(2 * n, 2 * n + 2, (name,)) for n, name in enumerate(names)))
    setup = Setup(plan, one_f_one_b(plan), costs, cluster, Options(sharing="none"))
    assert found.seconds <= metrics.iteration_time(run(lower(setup))) < found.seconds * 1.001


@pytest.mark.parametrize(
    ("change", "less"),
    [({"chunks": 2}, True), ({"chunks": None}, True), ({"splits": True}, True), ({"mirrored": True}, True)],
)
def test_a_wider_space_has_no_greater_bound(costs, cluster, change, less):
    narrow = layout_bound(costs, cluster, ONE_EACH)
    assert (layout_bound(costs, cluster, ONE_EACH._replace(**change)) < narrow) is less


def test_recomputed_work_counts(costs, cluster):
    none, full = (layout_bound(costs, cluster, ONE_EACH, Options(recompute=how)).seconds for how in ("none", "full"))
    assert full == pytest.approx(none * 4 / 3, rel=1e-2)


def test_so_many_recomputed_blocks_of_each_stage_count_nothing_as_cuts_decide_how_many_there_are(costs, cluster):
    some, none = (
        layout_bound(costs, cluster, ONE_EACH, options)
        for options in (Options(recompute="full", recompute_blocks=1), Options())
    )
    assert some == none


def test_nine_equal_layers_on_four_devices_leave_three_on_one(cluster):
    costs = costs_of(even_trace(9, **FREE))
    found = layout_bound(costs, cluster, OpenLayout(4, 1, 100, mirrored=False))
    assert found.reason == "blocks"
    assert found.seconds == pytest.approx(3 * 100 * 3e-3, rel=1e-2)


def test_one_microbatch_passes_all_layers_and_comes_back(costs, cluster):
    found = layout_bound(costs, cluster, OpenLayout(4, 1, 1, splits=False))
    assert found.reason == "latency"
    assert found.seconds == pytest.approx(8 * 3e-3, rel=1e-2)


def test_devices_of_two_kinds_share_the_work_as_fast_as_they_are():
    trace = even_trace(64, **FREE)
    rows = {name: np.concatenate([column, column]) for name, column in trace.layers.items()}
    rows["device_kind"] = np.repeat(np.array(["slow", "fast"], object), 64)
    rows |= {name: rows[name] * np.repeat([3.0, 1.0], 64) for name in ("forward_s", "backward_s")}
    costs = costs_of(replace(trace, layers=rows))
    mixed = Cluster("mixed", tuple(Device(f"gpu{n}", kind) for n, kind in enumerate(("slow", "slow", "fast", "fast"))))
    found = layout_bound(costs, mixed, OpenLayout(4, 1, 64, mirrored=False), Options(sharing="none"))
    # speeds 1/3 + 1/3 + 1 + 1
    assert found.seconds == pytest.approx(64 * 64 * 3e-3 / (8 / 3), rel=2e-2)


def test_gradients_are_summed_after_the_last_backward(cluster):
    costs = costs_of(even_trace(1, parameter_bytes=1_000_000_000))
    layout = OpenLayout(1, 4, 4, chunks=1, splits=False)
    assert layout_bound(costs, cluster, layout).seconds == pytest.approx(3e-3 + 1.5, rel=1e-3)
    overlapped = layout_bound(costs, cluster, layout, Options(gradient_overlap=True)).seconds
    assert overlapped < 1.6
    assert layout_bound(costs, cluster, layout, Options(sharing="none")).seconds > 1.5


def test_what_does_not_fit_is_infinitely_slow(costs):
    small = flat(4, bandwidth="1GB/s", memory="8MB")
    heavy = costs_of(even_trace(8, parameter_bytes=100_000_000))
    trace = even_trace(8)
    stashing = costs_of(replace(trace, layers=trace.layers | {"stash_bytes": np.full(8, 1_000_000)}))
    assert heavy.model.parameter_bytes.sum() == 8e8
    assert layout_bound(costs, small, ONE_EACH._replace(pipeline=8)) == LayoutBound(np.inf, "devices")
    assert layout_bound(stashing, small, ONE_EACH).reason == "memory"
    large = flat(4, bandwidth="1GB/s", memory="16MB")
    assert layout_bound(stashing, large, ONE_EACH).seconds < 1


def test_what_is_kept_must_fit_as_long_as_it_is_kept():
    """Of 8 equal layers with 1 MB each, the first is kept for 8 x 3 ms, the last for 3 ms: 108 MB ms a microbatch."""
    trace = even_trace(8, output_bytes=0, parameter_bytes=1)
    costs = costs_of(replace(trace, layers=trace.layers | {"stash_bytes": np.full(8, 1_000_000)}))
    tight, loose = (flat(4, bandwidth="1GB/s", memory=f"{size} B") for size in (2_100_000, 9_000_000))
    found = layout_bound(costs, tight, OpenLayout(4, 1, 100, mirrored=False, splits=False))
    assert found.reason == "memory"
    assert found.seconds == pytest.approx(100 * 0.108 / 8.4, rel=1e-3)
    assert layout_bound(costs, loose, OpenLayout(4, 1, 100, mirrored=False)).reason != "memory"


def test_the_space_of_all_plans_has_no_greater_bound_than_a_layout(costs, cluster):
    found = space_bound(costs, cluster, 8)
    assert found.seconds <= layout_bound(costs, cluster, ONE_EACH._replace(chunks=None, splits=True)).seconds
    assert found.seconds == pytest.approx(8 * 8 * 3e-3 / 4, rel=1e-2)


def test_the_space_of_all_plans_is_empty_where_one_copy_and_one_microbatch_do_not_fit():
    trace = even_trace(8, output_bytes=0, parameter_bytes=1)
    costs = costs_of(replace(trace, layers=trace.layers | {"stash_bytes": np.full(8, 1_000_000)}))
    tight, full = (flat(4, bandwidth="1GB/s", memory=f"{size} B") for size in (2_100_000, 1_900_000))
    assert space_bound(costs, full, 100) == LayoutBound(np.inf, "memory")
    assert space_bound(costs, full, 100, memory=False) == space_bound(costs, tight, 100)


def test_what_is_done_again_costs_work_and_what_is_not_costs_memory():
    rng = np.random.default_rng(0)
    for _ in range(20):
        work, more, kept = rng.uniform(0, 2, (3, 6))
        less = kept * rng.uniform(0, 0.5, 6)
        chosen = np.array(list(itertools.product((0, 1), repeat=6)))
        both = np.maximum((work + chosen * more).sum(axis=1), (kept + chosen * (less - kept)).sum(axis=1))
        found = least_of_choices(work, more, kept, less)
        assert max(work.sum(), less.sum()) * (1 - 1e-12) <= found <= both.min() * (1 + 1e-12)


def test_stages_that_choose_what_is_done_again_are_between_none_and_all():
    trace = even_trace(8, output_bytes=0, parameter_bytes=1)
    costs = costs_of(replace(trace, layers=trace.layers | {"stash_bytes": np.full(8, 1_000_000)}))
    tight = flat(4, bandwidth="1GB/s", memory="2100000 B")
    shape = OpenLayout(4, 1, 100, mirrored=False)
    ways = Options(), Options(recompute="full", recompute_blocks=0), Options(recompute="full")
    none, chosen, full = (layout_bound(costs, tight, shape, how).seconds for how in ways)
    assert 100 * 0.024 / 4 < chosen < min(none, full)
