"""What searching planners minimise: the time of the abstract pipeline, however many plans are to be timed."""

from typing import ClassVar

import pytest

from helpers.strategies import even_trace
from pipesim.analysis.channels import execute, pipeline_of
from pipesim.base import kernels
from pipesim.core.costs import costs_of
from pipesim.planners.abstract_cost import abstract_cost, begin_of
from pipesim.studies import loading, setups

CLUSTER = 'servers(2, 2, intra="25GB/s", inter="10Gb/s")'


@pytest.mark.parametrize("planner", ["uniform", "balanced", "data_parallel", "spp"])
def test_it_is_the_time_of_cycle_order_whether_compiled_or_not(planner):
    costs, cluster = costs_of(even_trace(6)), loading.load_cluster(CLUSTER)
    plan = setups.plan_with(planner, costs, cluster, 5)
    pipeline = pipeline_of(plan, costs, cluster)
    expected = execute(pipeline).time(pipeline) / 1e9
    assert abstract_cost(costs, cluster, 1)(plan) == abstract_cost(costs, cluster, 1000)(plan) == expected


def test_a_stage_alone_takes_its_work_and_its_all_reduce():
    """Four microbatches of 3 ms on two replicas of half a microbatch each, then 2 x 1/2 of 2 MB at 1 GB/s."""
    costs = costs_of(even_trace(1, 1e-3, 2e-3, parameter_bytes=2_000_000))
    cluster = loading.load_cluster("flat(2, bandwidth=1e9, latency=0)")
    plan = setups.plan_with("data_parallel", costs, cluster, 4)
    assert abstract_cost(costs, cluster, 1)(plan) == pytest.approx(4 * 1.5e-3 + 2e-3)


@pytest.mark.parametrize(("evaluations", "pays"), [(99, False), (100, True)])
def test_the_compiler_is_imported_for_many_evaluations_only(monkeypatch, evaluations, pays):
    imported = []
    monkeypatch.setattr(kernels, "import_compiler", lambda: imported.append(True))
    abstract_cost(costs_of(even_trace(2)), loading.load_cluster(CLUSTER), evaluations)
    assert bool(imported) == pays


def test_a_cost_is_begun_where_it_can_be():
    class Slow:
        begun: ClassVar[list[object]] = []

        def begin(self, plan, below, *, split=False):
            self.begun.append((plan, below, split))

    begin_of(Slow())("plan", 2.0)
    begin_of(Slow(), split=True)("other", 3.0)
    assert Slow.begun == [("plan", 2.0, False), ("other", 3.0, True)]
    assert begin_of(lambda plan: 1.0)("plan", 2.0) is None  # noqa: ARG005 - a cost
