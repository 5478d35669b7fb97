"""SPP as a whole: the best number of stages, never worse than data parallelism, within memory if asked."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import pipeline_trace
from helpers.strategies import clusters, even_trace, traces
from pipesim.analysis import metrics
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device
from pipesim.core.costs import costs_of
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.planners.data_parallel import data_parallel
from pipesim.planners.spp import memory_limit, plan_of, spp
from pipesim.planners.spp.contention import contended, shared_bandwidths, shared_pipeline
from pipesim.planners.spp.prm import partitions, prm, tables_of
from pipesim.planners.spp.rdo import ordered
from pipesim.studies import loading, results


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_spp_is_the_best_of_all_numbers_of_stages_and_never_loses_to_data_parallelism(trace, cluster, microbatches):
    costs = costs_of(trace)
    plan = spp(costs.model, cluster, costs, microbatches, bandwidth="nominal")
    order, _ = ordered(cluster, "auto")

    def time(candidate):
        pipeline = pipeline_of(candidate, costs, cluster)
        return execute(pipeline).time(pipeline)

    solutions = prm(costs, cluster, order, microbatches).values()
    assert time(plan) == min(time(plan_of(costs.model, cluster, order, s, microbatches)) for s in solutions)
    assert plan.objective_s == pytest.approx(time(plan) / 1e9)
    whole = data_parallel(costs.model, cluster, costs, microbatches)
    assert time(plan) <= time(whole)


@settings(max_examples=25)
@given(traces(kinds=("any",)), clusters(), st.integers(1, 8))
def test_by_default_links_are_shared_and_no_reading_of_spp_is_better_where_they_are(trace, cluster, microbatches):
    costs = costs_of(trace)
    plan = spp(costs.model, cluster, costs, microbatches)
    assert plan == spp(costs.model, cluster, costs, microbatches, bandwidth="shared")
    order, _ = ordered(cluster, "auto", shared_bandwidths(cluster))
    tables = tables_of(costs, cluster, order, microbatches)
    both = [*partitions(tables).values(), *partitions(contended(tables, cluster, order)).values()]

    def time(candidate):
        pipeline = shared_pipeline(candidate, costs, cluster)
        return execute(pipeline).time(pipeline)

    assert time(plan) == min(time(plan_of(costs.model, cluster, order, s, microbatches)) for s in both)
    assert plan.objective_s == pytest.approx(time(plan) / 1e9)


@pytest.mark.parametrize("cluster", ['servers(2, 4, "25GB/s", "1GB/s")', 'servers(3, 2, "4GB/s", "1GB/s")'])
@pytest.mark.parametrize("seed", range(6))
def test_where_tables_are_large_only_states_of_slower_plans_are_skipped(seed, cluster, monkeypatch):
    rng, made = np.random.default_rng(seed), loading.load_cluster(cluster)
    layers = int(rng.integers(6, 14))
    forward, backward = (rng.integers(10**6, 9 * 10**6, layers).tolist() for _ in range(2))
    costs = costs_of(pipeline_trace(forward, backward, rng.integers(10**5, 10**7, layers - 1).tolist(), 10**7))
    whole = {name: spp(costs.model, made, costs, 8, bandwidth=name) for name in ("nominal", "shared")}
    monkeypatch.setattr(sys.modules["pipesim.planners.spp.prm"], "FEW_STATES", 0)
    found = {name: spp(costs.model, made, costs, 8, bandwidth=name) for name in whole}
    assert found["nominal"] == whole["nominal"]
    assert found["shared"].objective_s <= whole["shared"].objective_s


def test_what_was_done_is_stated_in_the_plan():
    costs = costs_of(even_trace(4))
    cluster = loading.load_cluster('flat(3, bandwidth="1GB/s")')
    assert spp(costs.model, cluster, costs, 2).planner == "spp"
    assert spp(costs.model, cluster, costs, 2, order="hierarchical").planner == "spp(order='hierarchical')"
    literal = spp(costs.model, cluster, costs, 2, order="given", bandwidth="nominal")
    assert literal.planner == "spp(order='given', bandwidth='nominal')"
    assert spp(costs.model, cluster, costs, 2, bandwidth="nominal").planner == "spp(bandwidth='nominal')"


# --- memory ----------------------------------------------------------------------------------------------------------


def small_devices(count, memory):
    made = loading.load_cluster(f'flat({count}, bandwidth="1GB/s")')
    return Cluster("small", tuple(Device(d.name, d.kind, d.node, memory) for d in made.devices), made.links)


@pytest.mark.parametrize("schedule", ["one_f_one_b", "gpipe"])
def test_a_plan_that_does_not_fit_is_never_returned_when_one_fits(schedule):
    """Six layers of 4 MB with parameters and state, 1 MB of stash per microbatch: data parallelism does not fit."""
    costs = costs_of(even_trace(6))
    cluster = small_devices(3, 17_000_000)
    free = spp(costs.model, cluster, costs, 4)
    held = spp(costs.model, cluster, costs, 4, memory=schedule)
    assert free.stages != held.stages
    timeline = by_name.run(lower(results.make_setup(even_trace(6), cluster, held, schedule)))
    assert metrics.fits_memory(timeline)


def test_when_nothing_fits_the_stage_and_the_bytes_are_named():
    costs = costs_of(even_trace(6))
    with pytest.raises(
        InputError, match=r"no plan fits in memory; .* stage \d \(layers \d to \d\) is short by \d+ bytes"
    ):
        spp(costs.model, small_devices(3, 1_000_000), costs, 4, memory="one_f_one_b")


def test_the_memory_of_unknown_devices_is_no_limit():
    costs = costs_of(even_trace(4))
    cluster = small_devices(2, 0)
    assert spp(costs.model, cluster, costs, 4, memory="pe").stages == spp(costs.model, cluster, costs, 4).stages
    with pytest.raises(InputError, match="memory = 'none' found; one of one_f_one_b, gpipe, pe"):
        memory_limit(costs, cluster, [0, 1], 4, "none")
