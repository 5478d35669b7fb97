"""The abstract pipeline: PE against its bounds, against rules of its order, and against the compiled twin."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import even_trace, jobs
from pipesim.analysis import channels, metrics
from pipesim.analysis.channels import Pipeline, cycle_order, execute, pipeline_of, theorem_bound, work_bound
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import FORWARD
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.schedulers.pe import pe
from pipesim.studies import certified, loading, results

CLUSTER = 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'


@st.composite
def pipelines(draw):
    """Times of all sizes, ties and zeros among them."""
    stages, most = draw(st.integers(1, 5)), draw(st.sampled_from([2, 20, 1000]))

    def some(count, least):
        return np.array(draw(st.lists(st.integers(least, most), min_size=count, max_size=count)), np.int64)

    hops = stages - 1
    return Pipeline(
        some(stages, 1), some(stages, 1), some(hops, 0), some(hops, 0), some(stages, 0), draw(st.integers(1, 14))
    )


@settings(max_examples=240)
@given(pipelines())
def test_pe_keeps_the_bound_of_the_theorem_and_no_order_beats_the_work(pipeline):
    time = execute(pipeline).time(pipeline)
    assert work_bound(pipeline) <= time <= theorem_bound(pipeline)


@settings(max_examples=24)
@given(jobs(sharings=("none",), split_backwards=False))
def test_what_is_known_of_other_plans_changes_no_pipeline(job):
    known = {}
    for microbatches in (job.plan.microbatches, job.plan.microbatches + 1):
        plan = replace(job.plan, microbatches=microbatches)
        for parts in (plan, replace(plan, stages=(Stage(0, plan.layers, plan.stages[0].devices),)), plan):
            one, other = (pipeline_of(parts, job.costs, job.cluster, given) for given in (None, known))
            for name in Pipeline.__slots__:
                assert np.array_equal(getattr(one, name), getattr(other, name))


@settings(max_examples=48)
@given(pipelines())
def test_a_full_duplex_channel_keeps_the_work_bound_too(pipeline):
    assert execute(pipeline, full=True).time(pipeline) >= work_bound(pipeline)


@settings(max_examples=48)
@given(pipelines())
def test_each_stage_does_each_forward_before_its_backward_once(pipeline):
    for row in execute(pipeline).order.tolist():
        assert sorted(row) == list(range(2 * pipeline.microbatches))
        assert all(row.index(2 * m) < row.index(2 * m + 1) for m in range(pipeline.microbatches))


@settings(max_examples=25)
@given(pipelines(), st.booleans())
def test_the_compiled_kernel_is_its_plain_twin(pipeline, full):
    chain = channels.chain_of(pipeline)
    plain = cycle_order(chain, pipeline.microbatches, full)
    fast = compiled(cycle_order)(chain, pipeline.microbatches, full)
    assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))


def test_two_stages_by_hand():
    """F = 2, B = 3 on both, hops of 1 each way, two microbatches.

    stage 0    F0 F0 F1 F1 .  .  .  .  .  B0 B0 B0 .  .  B1 B1 B1       cycle order: F1 before B0 is there
    channel    .  .  >0 .  >1 .  .  .  <0 ...
    stage 1    .  .  .  F0 F0 B0 B0 B0 F1 F1 B1 B1 B1
    """
    one = np.array([1])
    pipeline = Pipeline(np.array([2, 2]), np.array([3, 3]), one, one, np.array([0, 0]), 2)
    found = execute(pipeline)
    assert found.order.tolist() == [[0, 2, 1, 3], [0, 1, 2, 3]]
    assert found.ends.tolist() == [17, 13]
    assert found.time(pipeline) == 17


@pytest.mark.parametrize("name", ["bert-large", "vgg-19", "resnet-152"])
@pytest.mark.parametrize("planner", ["balanced", "spp"])
def test_on_real_models_the_bounds_hold_and_the_channel_network_agrees(name, planner):
    """First come first served on channels is close to cycle order: within 2 % here."""
    case = results.make_setup(name, CLUSTER, planner, "pe", 12)
    pipeline = pipeline_of(case.plan, case.costs, case.cluster)
    time = execute(pipeline).time(pipeline)
    assert work_bound(pipeline) <= time <= theorem_bound(pipeline)
    replayed = certified.channel_time(case, by_name.run(lower(case)))
    assert replayed * 1e9 == pytest.approx(time, rel=0.02)


@settings(max_examples=25)
@given(jobs(calm=True))
def test_the_abstract_pipeline_of_any_plan_keeps_the_bounds(job):
    pipeline = pipeline_of(job.plan, job.costs, job.cluster)
    assert work_bound(pipeline) <= execute(pipeline).time(pipeline) <= theorem_bound(pipeline)


def test_a_group_goes_at_the_pace_of_its_slowest_member_and_splits_the_work():
    costs = costs_of(even_trace(2, 60e-9, 120e-9, output_bytes=600, parameter_bytes=900))
    cluster = loading.load_cluster("flat(5, bandwidth=1e9, latency=0)")
    plan = Plan(
        "even",
        2,
        4,
        (Stage(0, 1, ("gpu0", "gpu1", "gpu2")), Stage(1, 2, ("gpu3", "gpu4"))),
    )
    pipeline = pipeline_of(plan, costs, cluster)
    assert pipeline.forward.tolist() == [20, 30]
    assert pipeline.backward.tolist() == [40, 60]
    assert pipeline.ahead.tolist() == pipeline.back.tolist() == [100], "600 bytes in six pairs at 1 byte per ns"
    assert pipeline.all_reduce.tolist() == [1200, 900], "2 (k-1)/k of 900 bytes"


def test_the_pe_schedule_is_the_order_of_the_execution():
    case = results.make_setup("bert-large", CLUSTER, "balanced", "pe", 6)
    order = execute(pipeline_of(case.plan, case.costs, case.cluster)).order
    for n, row in enumerate(pe(case.plan, case.costs, case.cluster).rows):
        assert [2 * cell.microbatch + (cell.kind != FORWARD) for cell in row] == order[n].tolist()
    assert metrics.iteration_time(by_name.run(lower(case))) > 0


def test_the_size_from_which_compiling_pays_changes_nothing(monkeypatch):
    pipeline = Pipeline(
        *(np.array([3, 5, 4]) for _ in range(2)), *(np.array([2, 1]) for _ in range(2)), np.zeros(3, np.int64), 40
    )
    expected = execute(pipeline)
    monkeypatch.setattr(channels, "MANY", 0)
    assert np.array_equal(execute(pipeline).order, expected.order)
