"""Times that a setup is measured against: certified lower bounds, and the time on the abstract network of planners."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pipesim.analysis import bounds, metrics
from pipesim.analysis.bounds.over_plans import bound_of_widths, space_bound
from pipesim.analysis.bounds.rounding import LeastPart
from pipesim.core.cluster import Cluster
from pipesim.core.costs import SCALINGS, Costs
from pipesim.core.plan import Plan
from pipesim.core.scenario import CALM, Scenario
from pipesim.core.schedule import INPUT, WEIGHT
from pipesim.core.timeline import Timeline
from pipesim.engines.by_name import run
from pipesim.lowering import Options, Setup, lower
from pipesim.studies.pricing import simulated_seconds


def bound(setup: Setup) -> float:
    """Seconds that no plan and schedule of this sort can beat on this cluster, in this scenario or a worse one.

    >>> setup = ps.make_setup("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=4)
    >>> print(f"{ps.bound(setup) * 1e3:.1f} ms")
    167.6 ms
    """
    # Nothing delays one replica only.
    in_step = setup.scenario == CALM and setup.options.transfers == "eager" and not exchanges_beside(setup.options)
    plan, schedule, cluster = setup.plan, setup.schedule, setup.cluster
    costs = setup.costs if reduces_in_one_ring(setup.options) else _without_exchanges(setup.costs)
    if setup.costs.model.is_partly_frozen:
        costs = _without_messages(setup.costs)
    found = bounds.bound_for(
        plan, schedule, costs, cluster, setup.options.sharing, in_step=in_step, part=_least_part(setup)
    )
    if setup.options.recompute == "none" and not plan.teams:
        return found
    return max(found, layout_bound(setup, memory=False) or 0.0)  # which counts what is done again, and knows of teams


def layout_bound(setup: Setup, *, memory: bool = True) -> float | None:
    """Seconds that no layout on this cluster has less of with teams of this width: any stages, chunks, replicas, cuts
    and schedule, split backwards too; where the plan has teams of several widths, with teams of these.

    `memory`: no layout that fits in memory, and None where none does; otherwise none at all.

    >>> setup = ps.make_setup("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=4)
    >>> print(f"{ps.layout_bound(setup) * 1e3:.1f} ms")
    141.6 ms
    """
    found = plan_space_bound(setup.plan, setup.costs, setup.cluster, setup.options, memory=memory)
    return found * math.prod(min(1.0, slow.factor) for slow in setup.scenario.slow) if math.isfinite(found) else None


def plan_space_bound(plan: Plan, costs: Costs, cluster: Cluster, options: Options, *, memory: bool = True) -> float:
    """Seconds that no plan has less of with teams of the widths of this one; infinite where none fits in memory."""
    first, *others = dict.fromkeys(plan.widths_of_stages(costs.widths.expert))
    if others:
        return bound_of_widths(costs, cluster, plan.microbatches, options, (first, *others))
    return float(space_bound(costs.at(first), cluster, plan.microbatches, options, memory=memory).seconds)


def exchanges_beside(options: Options) -> bool:
    """Whether replicas exchange anything while actions run, not only after the last backward of a stage."""
    return options.gradient_overlap or options.sharding in {"zero2", "zero3"}


def reduces_in_one_ring(options: Options) -> bool:
    """Whether after the last backward of a stage every edge of one ring has the bytes of an all-reduce, or more.

    A distributed optimizer has half of them before its step and half after it.
    """
    whole = options.sharding == "none" or (options.sharding == "zero1" and options.sharding_size is None)
    fewer = options.gradient_bytes is not None and options.gradient_bytes < 1
    return whole and not fewer and not options.gradient_overlap and options.rings == "one"


@lru_cache(maxsize=64)  # so that a bound that was searched for is known again
def _without_exchanges(costs: Costs) -> Costs:
    """The costs of layers without parameters, for which replicas exchange nothing."""
    model = costs.model
    layers = tuple(replace(layer, parameter_bytes=0, frozen_bytes=0) for layer in model.layers)
    return replace(costs, model=replace(model, layers=layers))


@lru_cache(maxsize=64)
def _without_messages(costs: Costs) -> Costs:
    """The same without activations between stages, of which some have no gradient that comes back."""
    model = _without_exchanges(costs).model
    layers = tuple(replace(layer, output_bytes=0) for layer in model.layers)
    return replace(costs, model=replace(model, layers=layers))


def schedule_bound(setup: Setup) -> float | None:
    """Seconds that no schedule of this plan can beat which leaves backwards whole; None if this one splits them."""
    if splits_backwards(setup):
        return None
    costs = _without_messages(setup.costs) if setup.costs.model.is_partly_frozen else setup.costs
    return bounds.schedule_bound(setup.plan, costs, setup.cluster, _least_part(setup))


def _least_part(setup: Setup) -> LeastPart:
    """What parts of its time a task takes at the least: devices may be faster, and two actions may run as one."""
    slow = math.prod(min(1.0, slow.factor) for slow in setup.scenario.slow)
    if not setup.schedule.paired.any():
        return LeastPart(slow)
    factor = setup.options.pair_factor
    return LeastPart(slow, 1 - setup.options.pair_overlap / 2 if factor is None else min(1.0, factor))


def splits_backwards(setup: Setup) -> bool:
    """Whether the schedule computes the gradients of inputs and of weights apart."""
    return bool(np.isin(setup.schedule.kind, [INPUT, WEIGHT]).any())


def weight_share(setup: Setup) -> float | None:
    """The part of a backward taken as the weights' gradient; None if none is split, or both parts were recorded."""
    return setup.costs.weight_share if splits_backwards(setup) else None


def channel_time(setup: Setup, timeline: Timeline) -> float:
    """Seconds of the same schedule on the abstract network that planners assume; contention costs the difference."""
    if not setup.sharing_rule.has_links:
        return metrics.iteration_time(timeline)
    options = replace(setup.options, sharing="channel")
    abstract = replace(setup, options=options, scenario=Scenario(setup.scenario.slow))
    return metrics.iteration_time(run(lower(abstract)))


def times_by_scaling(setup: Setup, timeline: Timeline) -> dict[str, float] | None:
    """Seconds of this plan and schedule with times interpolated between recorded sizes, and in proportion.

    None where it makes no difference: no stage splits its microbatches, or only one size was recorded. `timeline` is
    the one under the scaling of the setup.
    """
    if not scaling_matters(setup.plan, setup.costs):
        return None
    own, found = setup.costs.scaling, dict.fromkeys(map(str, SCALINGS), metrics.iteration_time(timeline))
    for other in (scaling for scaling in SCALINGS if scaling != own):
        scaled = replace(setup, costs=replace(setup.costs, scaling=other))
        found[other] = metrics.iteration_time(run(lower(scaled), timeline.engine))
    return found


def plan_times_by_scaling(plan: Plan, costs: Costs, cluster: Cluster) -> dict[str, float] | None:
    """As `times_by_scaling`, for the better of the schedules by which planners judge a plan."""
    if not scaling_matters(plan, costs):
        return None
    return {each: simulated_seconds(replace(costs, scaling=each), cluster, plan) for each in SCALINGS}


def scaling_matters(plan: Plan, costs: Costs) -> bool:
    """Whether the time of a part of a microbatch depends on the scaling, and the plan has such parts."""
    return costs.is_curved and any(plan.share(n) < 1 for n in range(len(plan.stages)))
