"""SPP+ as a whole: never worse than SPP, and devices that only cost time stay idle."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.islands import SLOW, with_a_slow_server
from helpers.strategies import clusters, even_trace, jobs, traces
from pipesim.analysis import metrics
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.errors import DoesNotFitError, InputError
from pipesim.core.costs import costs_of
from pipesim.core.members import ProblemSize
from pipesim.core.plan import Plan, Stage
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower
from pipesim.planners.spp import BANDWIDTHS, holds, memory_limit, spp
from pipesim.planners.spp_plus import spp_plus, table_bytes
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies import loading, pricing, results, setups
from pipesim.studies.pricing import simulated_seconds

SCHEDULERS_OF = {"gpipe": gpipe, "one_f_one_b": one_f_one_b}
SERVERS = 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'


@settings(max_examples=30)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 6))
def test_never_worse_than_spp_by_the_abstract_time(trace, cluster, microbatches):
    costs = costs_of(trace)

    def time(plan):
        pipeline = pipeline_of(plan, costs, cluster)
        return execute(pipeline).time(pipeline) / 1e9

    better = spp_plus(costs.model, cluster, costs, microbatches, evaluations=10)
    for bandwidth in BANDWIDTHS:
        first = spp(costs.model, cluster, costs, microbatches, bandwidth=bandwidth)
        assert time(better) <= time(first) * (1 + 1e-12)
    assert better.objective_s == pytest.approx(time(better))


@pytest.mark.parametrize("name", ["bert-large", "vgg-19"])
def test_never_worse_than_spp_on_the_contended_network(name):
    costs, cluster = costs_of(loading.load_trace(name)), loading.load_cluster(SERVERS)
    better = setups.plan_with("spp_plus", costs, cluster, 8)
    assert better.objective_s == simulated_seconds(costs, cluster, better)
    for bandwidth in BANDWIDTHS:
        first = setups.plan_with(f"spp(bandwidth={bandwidth!r})", costs, cluster, 8)
        assert better.objective_s <= simulated_seconds(costs, cluster, first)


def test_where_the_estimate_misleads_the_exact_time_decides():
    """An estimate that loves everything but SPP's plan, and an exact time that loves only that."""
    costs, cluster = costs_of(even_trace(6)), loading.load_cluster('flat(3, bandwidth="1GB/s")')
    first = spp(costs.model, cluster, costs, 4)
    found = spp_plus(
        costs.model, cluster, costs, 4,
        estimate=lambda plan: 2.0 if plan.stages == first.stages else 1.0,
        exact=lambda plan: 1.0 if plan.stages == first.stages else 2.0,
    )  # fmt: skip
    assert found.stages == first.stages


@pytest.mark.parametrize("schedule", ["one_f_one_b", "gpipe"])
def test_with_a_memory_limit_all_that_is_priced_and_the_plan_hold_what_they_must(schedule):
    """Six layers of 4 MB with parameters and state, 1 MB of stash per microbatch: data parallelism does not fit."""
    costs, plain = costs_of(even_trace(6)), loading.load_cluster('flat(3, bandwidth="1GB/s")')
    cluster = replace(plain, devices=tuple(replace(device, memory=17_000_000) for device in plain.devices))
    limit, priced = memory_limit(costs, cluster, [0, 1, 2], 4, schedule), []

    def estimate(plan):
        priced.append(plan)
        return simulated_seconds(costs, cluster, plan)

    free = spp_plus(costs.model, cluster, costs, 4, estimate=estimate)
    assert not all(holds(limit, cluster, plan) for plan in priced)
    priced.clear()
    held = spp_plus(costs.model, cluster, costs, 4, estimate=estimate, memory=schedule)
    assert held.stages != free.stages
    assert len(priced) > 1
    assert all(holds(limit, cluster, plan) for plan in priced)
    setup = results.make_setup(even_trace(6), cluster, held, schedule, fit=False)
    assert metrics.fits_memory(by_name.run(lower(setup)))
    with pytest.raises(DoesNotFitError, match="no plan fits in memory"):
        spp_plus(costs.model, cluster, costs, 40, memory="gpipe")


ROUNDED = 3  # bytes: half of one for each of four microbatches, and for what is always held


@settings(max_examples=40)
@given(jobs(sharings=("none",), split_backwards=False), st.sampled_from(["one_f_one_b", "gpipe"]))
def test_what_plans_of_one_stage_per_device_must_hold_is_what_is_counted_for_their_schedule(job, schedule):
    """Stage n of S keeps min(S - n, M) microbatches under 1F1B, all under GPipe; each replica its share of each."""
    plan = replace(job.plan, microbatches=min(job.plan.microbatches, 4))
    assume(plan.replicas == "split" and len(plan.devices) == sum(plan.replication) and not plan.teams)
    order = list(range(len(job.cluster.devices)))
    limit = memory_limit(job.costs, job.cluster, order, plan.microbatches, schedule)
    setup = Setup(plan, SCHEDULERS_OF[schedule](plan, job.costs, job.cluster), job.costs, job.cluster)
    peak = dict(zip(plan.devices, metrics.peak_memory(by_name.run(lower(setup))).tolist(), strict=True))
    assume(max(peak.values()) > ROUNDED)
    for spare, fits in ((ROUNDED, True), (-ROUNDED, False)):
        capacity = np.array([max(0.0, peak.get(d.name, 0) + spare) for d in job.cluster.devices], np.float64)
        assert holds(replace(limit, capacity=capacity), job.cluster, plan) == fits


def test_a_server_that_only_costs_time_stays_idle():
    """A link at a hundredth of the others' bandwidth: SPP takes the devices behind it too."""
    cluster = with_a_slow_server(loading.load_cluster(SLOW))
    costs = costs_of(even_trace(6, parameter_bytes=1_000_000, output_bytes=200_000_000))
    better, first = (setups.plan_with(name, costs, cluster, 8) for name in ("spp_plus", "spp"))
    assert {name.partition(".")[0] for name in better.devices} == {"node0", "node1"}
    assert simulated_seconds(costs, cluster, better) < 0.8 * simulated_seconds(costs, cluster, first)


def test_several_stages_on_each_device_are_never_worse_and_are_what_their_schedule_takes():
    """GPT-3 6.7B on a DGX-1 with eight microbatches: interleaved, where the pipeline is filled and drained sooner."""
    single, several = (
        results.simulate(
            "gpt3-6.7b", "dgx1_v100", planner=f"spp_plus(chunks={chunks})", scheduler=order, microbatches=8
        )
        for chunks, order in ((1, "pe"), (4, "interleaved"))
    )
    stages = several.setup.plan.stages
    assert len({stage.devices for stage in stages}) < len(stages)
    assert several.iteration_time == several.setup.plan.objective_s
    assert several.iteration_time < 0.95 * single.setup.plan.objective_s


def test_schedules_that_split_backwards_are_compared_where_they_may_be():
    costs, cluster = costs_of(even_trace(8)), loading.load_cluster('flat(4, bandwidth="100GB/s")')
    whole, split = (setups.plan_with(f"spp_plus(split={split})", costs, cluster, 4) for split in (False, True))
    assert split.objective_s == simulated_seconds(costs, cluster, split, split=True)
    assert split.objective_s <= whole.objective_s


@pytest.mark.parametrize("options", [{"chunks": 2}, {"split": True}])
def test_chunks_and_split_backwards_need_plans_to_be_simulated(options):
    costs, cluster = costs_of(even_trace(4)), loading.load_cluster('flat(2, bandwidth="1GB/s")')
    with pytest.raises(InputError, match="it needs plans to be simulated"):
        spp_plus(costs.model, cluster, costs, 4, **options)
    with pytest.raises(InputError, match="function estimate"):
        spp_plus(costs.model, cluster, costs, 4, estimate=lambda _: 1.0, **options)


def test_a_device_with_several_stages_must_hold_all_microbatches_of_each():
    costs, cluster = costs_of(even_trace(4)), loading.load_cluster('flat(2, bandwidth="1GB/s", memory="1GiB")')
    a, b = (device.name for device in cluster.devices)
    limit = memory_limit(costs, cluster, [0, 1], 4, "one_f_one_b")
    plan = Plan("even", 4, 4, tuple(Stage(n, n + 1, ((a, b)[n % 2],)) for n in range(4)))
    each = limit.static + 4 * limit.stash
    enough = float(max(each[0] + each[2], each[1] + each[3]))
    for part, fits in ((1.0, True), (0.99, False)):
        assert holds(replace(limit, capacity=np.full(2, part * enough)), cluster, plan) == fits


def test_on_very_many_devices_only_plans_near_the_best_are_improved_and_timed(monkeypatch):
    costs, cluster = costs_of(loading.load_trace("vgg-19")), loading.load_cluster(SERVERS)
    timed = list[float]()

    def exact(plan):
        timed.append(simulated_seconds(costs, cluster, plan))
        return timed[-1]

    def estimate(plan, below=np.inf):
        return pricing.estimated_seconds(costs, cluster, plan, below)

    def planned():
        return spp_plus(costs.model, cluster, costs, 8, estimate=estimate, exact=exact)

    usual, few = planned(), len(timed)
    monkeypatch.setattr(sys.modules["pipesim.planners.spp_plus"], "MANY", 7)
    found, many = planned(), len(timed) - few
    assert many < few
    assert max(timed[few:]) <= min(timed[few:]) * 1.2, "SPP's own plan is far from it, by its estimate already"
    assert found.objective_s <= usual.objective_s * 1.05


@pytest.mark.parametrize(("compiles", "expected"), [(True, 1), (False, 4)])
def test_candidates_are_made_by_one_process_while_others_compile(compiles, expected, monkeypatch):
    module, found = sys.modules["pipesim.planners.spp_plus"], list[int]()

    def counted(*arguments):
        found.append(arguments[-1])
        return made(*arguments)

    made = module.candidates
    monkeypatch.setattr(module, "candidates", counted)
    monkeypatch.setattr(module, "is_compiling", lambda: compiles)
    costs = costs_of(even_trace(4))
    spp_plus(costs.model, loading.load_cluster('flat(2, bandwidth="1GB/s")'), costs, 2, evaluations=1)
    assert found == [expected]


def test_processes_have_room_in_half_of_the_memory_that_is_allowed(monkeypatch):
    """A twentieth more than the tables of two, and of four."""
    costs, cluster = costs_of(even_trace(12)), loading.load_cluster(SERVERS)
    asked, tables = [], table_bytes(ProblemSize(12, 8))

    def candidates(*given):
        asked.append(given[-1])
        raise InputError("enough is known")

    monkeypatch.setattr("pipesim.planners.spp_plus.candidates", candidates)
    monkeypatch.setattr("pipesim.planners.spp_plus.is_compiling", lambda: False)
    for planner, memory in (("spp_plus", 2.1), ("spp_plus", 4.2), ("spp_plus", 1e6), ("spp_plus(processes=3)", 2.1)):
        with pytest.raises(InputError, match="enough is known"):
            setups.plan_with(planner, costs, cluster, 4, host_memory=f"{int(memory * tables)} B")
    assert asked == [1, 2, 4, 3]
    with pytest.raises(InputError, match="processes = 0 found"):
        spp_plus(costs.model, cluster, costs, 4, processes=0)
