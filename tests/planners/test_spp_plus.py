"""SPP+ as a whole: never worse than SPP, and devices that only cost time stay idle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.islands import SLOW, with_a_slow_server
from helpers.strategies import clusters, even_trace, traces
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.core.costs import costs_of
from pipesim.planners.spp import BANDWIDTHS, spp
from pipesim.planners.spp_plus import spp_plus
from pipesim.studies import loading, setups
from pipesim.studies.pricing import simulated_seconds

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


def test_a_server_that_only_costs_time_stays_idle():
    """A link at a hundredth of the others' bandwidth: SPP takes the devices behind it too."""
    cluster = with_a_slow_server(loading.load_cluster(SLOW))
    costs = costs_of(even_trace(6, parameter_bytes=1_000_000, output_bytes=200_000_000))
    better, first = (setups.plan_with(name, costs, cluster, 8) for name in ("spp_plus", "spp"))
    assert {name.partition(".")[0] for name in better.devices} == {"node0", "node1"}
    assert simulated_seconds(costs, cluster, better) < 0.8 * simulated_seconds(costs, cluster, first)
