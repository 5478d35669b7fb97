"""What is printed as JSON: a plan, a simulation, a cluster, a trace."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipesim.analysis import metrics
from pipesim.base import serialisation
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Phase, Scaling, costs_of
from pipesim.core.plan import Plan
from pipesim.core.timeline import Timeline
from pipesim.core.trace import Trace
from pipesim.lowering import Setup
from pipesim.studies import experiment


def plan_data(
    plan: Plan,
    bound_s: float | None = None,
    planning_s: float | None = None,
    scaling: Scaling = "recorded",
    seconds_by_scaling: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """A plan as `pipesim plan --json` prints it: the plan's own keys, and those derived from it."""
    head = {"format": Plan.FORMAT, "version": Plan.VERSION, **serialisation.to_data(plan)}
    derived = {"replication": list(plan.replication), "cuts": list(plan.cuts)}
    shares = {"scaling": scaling, "seconds_by_scaling": seconds_by_scaling}
    return head | derived | {"bound_s": bound_s, "planning_s": planning_s} | shares


def simulation_data(case: Setup, timeline: Timeline) -> dict[str, Any]:
    """A simulation as `pipesim simulate --json` prints it."""
    own = {
        "model": case.costs.model.name,
        "cluster": case.cluster.name,
        "planner": case.plan.planner,
        "replication": list(case.plan.replication),
        "cuts": list(case.plan.cuts),
        "schedule_bound_s": experiment.schedule_bound(case),
        "bound_s": experiment.bound(case),
        "channel_time_s": experiment.channel_seconds(case, timeline),
        "fits_memory": metrics.fits_memory(timeline),
        "scaling": case.costs.scaling,
        "iteration_time_by_scaling_s": experiment.seconds_by_scaling(case, timeline),
        "weight_share": experiment.weight_share(case),
    }
    return metrics.summary(timeline) | own


def cluster_data(cluster: Cluster) -> dict[str, Any]:
    """A cluster as `pipesim show --json` prints it: its file form, and the bandwidth between devices."""
    matrix = [[None if np.isinf(value) else value for value in row] for row in cluster.bandwidth_matrix.tolist()]
    head = {"format": Cluster.FORMAT, "version": Cluster.VERSION, **serialisation.to_data(cluster)}
    return head | {"bandwidth_matrix": matrix}


def trace_data(trace: Trace) -> dict[str, Any]:
    """A trace as `pipesim show --json` prints it: where it comes from, and its layers' costs by device kind."""
    costs = costs_of(trace)
    layers = [serialisation.to_data(layer) for layer in costs.model.layers]
    phases: tuple[Phase, ...] = ("forward", "backward")
    return {
        "model": trace.model,
        "source": trace.source,
        "machine": trace.machine,
        "microbatch_size": trace.microbatch_size,
        "device_kinds": list(trace.device_kinds),
        "layers": layers,
        "seconds": {kind: {phase: costs.seconds(phase, kind).tolist() for phase in phases} for kind in costs.kinds},
    }
