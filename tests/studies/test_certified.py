"""What a setup is measured against."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import instances
from helpers.small_programs import star
from helpers.strategies import any_team_jobs, at_widths, even_trace, for_drawn
from pipesim.analysis import bounds, metrics
from pipesim.base.errors import DeadlockError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import WEIGHT
from pipesim.engines import by_name, event
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.reductions import BUCKET
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies import certified, results


def test_an_assumed_split_of_backwards_is_stated_and_used():
    """Where a trace has whole backwards only: a schedule that splits them says by what, one that does not is silent."""
    trace, cluster = even_trace(4, 1e-3, 2e-3), 'flat(4, bandwidth="10GB/s")'
    for share in (0.25, 0.5):
        case = results.make_setup(trace, cluster, "balanced", "zb_h1", 8, weight_share=share)
        program = lower(case)
        assert set(program.duration[program.kind == WEIGHT]) == {share * 2e6}
        assert results.SimulationResult(case, by_name.run(program)).as_data()["weight_share"] == share
    assert certified.weight_share(results.make_setup(trace, cluster, "balanced", "one_f_one_b", 8)) is None
    assert (
        certified.weight_share(results.make_setup("bert-large", 'flat(4, bandwidth="1GB/s")', "balanced", "zb_h1"))
        is None
    )


def below_the_time(job):
    """Neither bound is above the simulated time, if the job comes to its end; which options it had."""
    case = Setup(*job[:5], scenario=job.scenario)
    try:
        time = metrics.iteration_time(event.run(lower(case)))
    except DeadlockError:
        return
    instances.check(time, case)


def test_no_bound_is_above_the_time_of_teams_and_of_what_replicas_exchange():
    for_drawn(any_team_jobs, 60, below_the_time)


@pytest.mark.parametrize(
    ("options", "is_below"),
    [
        ({"rings": "all"}, False), ({"sharding": "zero1"}, False), ({"sharding": "zero2"}, False),
        ({"sharding": "zero3"}, False), ({"sharding": "zero1", "sharding_size": 2}, False),
        ({"gradient_overlap": True}, True), ({"gradient_bytes": 0.25}, True),
        ({"sharding": "zero1", "gradient_bytes": 0.5}, True), ({"sharding": "zero1", "gradient_overlap": True}, True),
    ],
    ids=str,
)  # fmt: skip
def test_no_bound_is_above_the_time_where_replicas_exchange_less_at_a_time(options, is_below):
    """Four GPUs with a NIC each in two nodes. Some are below what assumes an all-reduce after the last backward."""
    names = [f"n{n}.g{i}" for n in range(2) for i in range(2)]
    links = [*(Link(name, "core", 1e9) for name in names), *(Link(*names[i : i + 2], 8e9) for i in (0, 2))]
    cluster = Cluster("rails", tuple(Device(name, "any", name[:2]) for name in names), tuple(links))
    # Of two buckets, so that overlap has something to hide.
    costs = costs_of(even_trace(2, 0.01, 0.3, output_bytes=10_000, parameter_bytes=int(2 * BUCKET * 2)))
    times = []
    for stages in (1, 2):
        k = 4 // stages
        parts = tuple(
            Stage(2 * n // stages, 2 * (n + 1) // stages, tuple(names[n * k : n * k + k])) for n in range(stages)
        )
        for replicas in ("split", "whole"):
            plan = Plan("even", 2, 4, parts, replicas)
            case = Setup(plan, one_f_one_b(plan), costs, cluster, Options(**options))
            times.append(metrics.iteration_time(event.run(lower(case))))
            instances.check(times[-1], case)
    assert (min(times) < bounds.plan_bound(costs, cluster, 4)) == is_below


def test_recomputed_work_is_in_the_bounds():
    none, full = (
        results.make_setup("bert-large", 'flat(4, bandwidth="1GB/s")', recompute=how) for how in ("none", "full")
    )
    assert certified.layout_bound(full) == pytest.approx(certified.layout_bound(none) * 1.3, rel=0.03)
    assert certified.bound(full) >= certified.layout_bound(full)
    assert certified.bound(none) > certified.layout_bound(none)


def test_a_bound_of_teams_counts_all_their_gpus():
    """Two teams of four do half of the work each; of ten GPUs, two are left over."""
    trace = even_trace(4, 1e-3, 2e-3)
    names = [f"g{i}" for i in range(10)]
    parts = (Stage(0, 2, ("g0",)), Stage(2, 4, ("g4",)))
    plan = Plan("even", 4, 8, parts, teams=(tuple(names[:4]), tuple(names[4:8])))
    costs = costs_of(at_widths(trace, plan), widths=plan.widths(0))
    case = Setup(plan, one_f_one_b(plan), costs, star(10))
    assert certified.bound(case) == pytest.approx(8 * 4 * 3e-3 / 4 / 2, rel=1e-3)
    assert certified.schedule_bound(case) == pytest.approx((8 + 1) * 2 * 3e-3 / 4, rel=1e-3)


def test_a_bound_of_several_widths_has_each_layer_where_it_takes_least():
    """A width of two takes half as long for one layer, and as long for the other: one stage on it, the other alone."""
    plan = Plan("even", 2, 64, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g2",))), teams=(("g0", "g1"),))
    trace = at_widths(even_trace(2, 1e-3, 2e-3, output_bytes=1000, parameter_bytes=1000), plan)
    for name in ("forward_s", "backward_s"):
        trace.layers[name][:] = trace.layers[name].min() * np.array([1, 3, 3, 1])
    costs = costs_of(trace, widths=plan.widths(0))
    case = Setup(plan, one_f_one_b(plan), costs, star(3))
    time, bound = metrics.iteration_time(event.run(lower(case))), certified.layout_bound(case)
    assert 0.97 * time < bound <= time
    one = replace(plan, teams=())
    narrow = replace(case, plan=one, costs=costs.at(one.widths(0)))
    assert certified.layout_bound(narrow, memory=False) > time  # of another space
