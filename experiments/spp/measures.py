"""What this evaluation measures beside the numbers that every sweep can keep: theorem, optimum, replanning."""

import functools
from dataclasses import replace

import numpy as np

from pipesim.analysis import channels, metrics
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.scenario import CALM
from pipesim.core.timeline import Timeline
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower
from pipesim.planners import PLANNERS
from pipesim.planners.brute import brute
from pipesim.studies import ordering, setups
from pipesim.studies.pricing import SCHEDULES

MANY = 2_000_000  # plans: a few hundred thousand is what four devices and a dozen layers come to
AGING = "aging"  # the kind of a slow device


def pe_over_work(case: Setup, _: Timeline) -> float:
    """PE on the abstract pipeline, over what no order of the same stages beats."""
    pipeline = channels.pipeline_of(case.plan, case.costs, case.cluster)
    return channels.execute(pipeline).time(pipeline) / channels.work_bound(pipeline)


def theorem_over_work(case: Setup, _: Timeline) -> float:
    """The bound of the theorem, which PE never exceeds, over the same."""
    pipeline = channels.pipeline_of(case.plan, case.costs, case.cluster)
    return channels.theorem_bound(pipeline) / channels.work_bound(pipeline)


# As in the files of the experiments: SPP+ takes the best of those that it plans with.
OWN_SCHEDULE = {
    "spp": "pe",
    "gpipe": "gpipe",
    "spp_plus": f"auto(among={list(SCHEDULES)})",
}


def optimum_s(case: Setup, _: Timeline) -> float:
    """Seconds of PE under the best of all plans on all orders of the devices."""
    made = case.costs.model, case.cluster, case.costs, case.plan.microbatches
    return float(brute(*made, orders="all", limit=MANY).objective_s or 0)


def replanned_s(case: Setup, timeline: Timeline) -> float:
    """Seconds of an iteration if the planner had known what is slow; as it is if that makes it no better."""
    if case.scenario == CALM:
        return metrics.iteration_time(timeline)
    costs, cluster = known(case)
    name = next(name for name in PLANNERS if case.plan.planner in {name, name.replace("_", " ")})
    scheduler = OWN_SCHEDULE.get(name, "one_f_one_b")
    plan = setups.plan_with(name, costs, cluster, case.plan.microbatches)
    # Planned on what is slow as a property of the cluster, replayed on the cluster that has it as a scenario.
    plan, schedule = ordering.ordered_with(scheduler, plan, costs, cluster, case.options)
    again = replace(case, plan=plan, schedule=schedule)
    return min(metrics.iteration_time(by_name.run(lower(again), "compiled")), metrics.iteration_time(timeline))


def known(case: Setup) -> tuple[Costs, Cluster]:
    """Costs and a cluster that have the slow devices and links of a scenario for good."""
    costs, cluster = case.costs, case.cluster
    for slow in case.scenario.slow:
        kind = cluster.device(slow.device).kind
        costs = with_kind(costs, kind, slow.factor)
        devices = tuple(replace(d, kind=AGING) if d.name == slow.device else d for d in cluster.devices)
        cluster = replace(cluster, devices=devices)
    for degraded in case.scenario.degraded:
        ends = {degraded.source, degraded.target}
        links = tuple(
            replace(x, bandwidth=x.bandwidth * degraded.fraction) if {x.source, x.target} == ends else x
            for x in cluster.links
        )
        cluster = replace(cluster, links=links)
    return costs, cluster


@functools.lru_cache(maxsize=16)  # planners keep what they know of costs by identity
def with_kind(costs: Costs, kind: str, factor: float) -> Costs:
    """Costs with one more kind of device, which takes `factor` times as long as another."""
    chosen = [number for number, (name, _) in enumerate(costs.groups) if name == kind]
    spots = [np.arange(a, a + n) for g in chosen for a, n in zip(costs.first[g], costs.count[g], strict=True)]
    taken = np.concatenate(spots)
    samples = {phase: np.concatenate([x, x[taken] * factor]) for phase, x in costs.samples.items()}
    count = costs.count[chosen]
    begin = len(next(iter(costs.samples.values())))
    first = begin + np.concatenate([[0], np.cumsum(count.ravel())[:-1]]).reshape(count.shape)
    groups = (*costs.groups, *((AGING, size) for name, size in costs.groups if name == kind))
    made = np.concatenate([costs.first, first]), np.concatenate([costs.count, count])
    return replace(costs, groups=groups, samples=samples, first=made[0], count=made[1])
