"""From the description of a simulation to what is lowered, step by step.

trace or architecture ──> costs ──┐
cluster ──────────────────────────┼──> plan ──> schedule ──> Setup
options, scenario, background ────┘
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from pipesim.architectures import ARCHITECTURES, described
from pipesim.architectures.roofline import roofline
from pipesim.base import lookup
from pipesim.base.errors import InputError
from pipesim.core import limits
from pipesim.core import plan as plans
from pipesim.core.background import Background
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.core.devices import device_kind
from pipesim.core.granularity import Blocks, blocks_of
from pipesim.core.limits import HostMemory
from pipesim.core.members import PlannerInfo, ProblemSize, info_of
from pipesim.core.plan import Plan
from pipesim.core.scenario import CALM, Scenario
from pipesim.core.trace import Trace
from pipesim.lowering import Options, Setup
from pipesim.planners import PLANNERS
from pipesim.studies.loading import load_cluster, load_plan, load_scenario, load_trace
from pipesim.studies.ordering import named, ordered_with
from pipesim.studies.pricing import prices
from pipesim.studies.simulation import Simulation

Planner = Callable[..., Plan]


def setup_of(simulation: Simulation) -> Setup:
    """Load, plan and order what a simulation describes.

    What would take more than `host_memory` of this machine's memory is refused before it is made.
    """
    cluster = cluster_of(simulation)
    trace = trace_of(simulation, cluster)
    costs = costs_in(simulation, trace)
    if simulation.plan is None:
        limits.check_microbatches(simulation.host_memory, simulation.microbatches)
    plan = plan_of(simulation, costs, cluster)
    options, scenario = options_of(simulation, trace), scenario_of(simulation, cluster)
    return assembled(simulation, plan, costs, cluster, options, scenario)


def assembled(  # noqa: PLR0917 - the fields of a Setup, in their order
    simulation: Simulation, plan: Plan, costs: Costs, cluster: Cluster, options: Options, scenario: Scenario
) -> Setup:
    """A plan that was made with the order of its microbatches."""
    plans.check_fits(plan, costs.model, cluster)
    check_kinds(costs, cluster)
    blocks = blocks_in(simulation, costs)
    ordered = ordered_with(simulation.scheduler, plan, costs, cluster, options, simulation.host_memory, blocks)
    return Setup(*ordered, costs, cluster, options, scenario)


def cluster_of(simulation: Simulation) -> Cluster:
    """The cluster, with all devices of one kind if the simulation names it."""
    if simulation.cluster is None:
        raise InputError("cluster is missing")
    cluster = load_cluster(simulation.cluster)
    return cluster if simulation.device is None else of_kind(cluster, simulation.device)


def of_kind(cluster: Cluster, kind: str) -> Cluster:
    """The same cluster with devices of this kind, with the memory and the peak of its data sheet."""
    known = device_kind(kind)
    devices = tuple(
        device if device.kind == kind else replace(device, kind=kind, memory=known.memory, flops=known.peak.get("fp16"))
        for device in cluster.devices
    )
    return replace(cluster, devices=devices)


def trace_of(simulation: Simulation, cluster: Cluster) -> Trace:
    """The trace, or that of the architecture on the kinds of device that the cluster has."""
    if simulation.architecture is None:
        if simulation.trace is None:
            raise InputError("trace, or architecture, is missing")
        return load_trace(simulation.trace)
    kinds = tuple(dict.fromkeys(device.kind for device in cluster.devices))
    return architecture_trace(simulation.architecture, simulation.efficiency, kinds)


def architecture_trace(architecture: str, efficiency: float | str, kinds: Sequence[str]) -> Trace:
    """The trace of an architecture, timed from data sheets."""
    model = lookup.call(described.expression(architecture), ARCHITECTURES, "architecture")
    return roofline(model, kinds, efficiency=efficiency)


def costs_in(simulation: Simulation, trace: Trace) -> Costs:
    """Seconds of every layer, for the size of microbatches of the simulation."""
    return costs_of(
        trace,
        simulation.microbatch_size,
        weight_share=simulation.weight_share,
        scaling=simulation.scaling,  # type: ignore[arg-type]  # one of the choices, checked there
    )


def options_of(simulation: Simulation, trace: Trace) -> Options:
    """How transfers, the optimizer and recomputation behave; an optimizer is named as recorded in the trace."""
    step, state = simulation.optimizer_s_per_byte, simulation.optimizer_state
    if simulation.optimizer is not None:
        recorded = trace.optimizer(simulation.optimizer)
        step, state = recorded.s_per_byte, recorded.state_per_byte
    return Options(
        sharing=simulation.sharing,
        transfers=simulation.transfers,  # type: ignore[arg-type]  # one of the choices, checked there
        optimizer_s_per_byte=step,
        optimizer_state=state,
        recompute=simulation.recompute,  # type: ignore[arg-type]
        pair_overlap=simulation.pair_overlap,
        pair_factor=simulation.pair_factor,
    )


def scenario_of(simulation: Simulation, cluster: Cluster) -> Scenario:
    """Slow devices and degraded links, and what others use of links."""
    scenario = CALM if simulation.scenario is None else load_scenario(simulation.scenario)
    if simulation.background is None:
        return scenario
    load = simulation.background
    return scenario.beside((load if isinstance(load, Background) else Background.load(load)).on(cluster))


def plan_of(simulation: Simulation, costs: Costs, cluster: Cluster) -> Plan:
    """The plan of a file, or that of the planner."""
    if simulation.plan is not None:
        return load_plan(simulation.plan)
    blocks = blocks_in(simulation, costs)
    return plan_with(simulation.planner, costs, cluster, simulation.microbatches, simulation.host_memory, blocks)


def blocks_in(simulation: Simulation, costs: Costs) -> Blocks | None:
    """The units that plans of a simulation consist of; None for layers."""
    return blocks_of(costs) if simulation.granularity == "block" else None


def plan_with(  # noqa: PLR0917 - a planner's arguments, and how it is called
    planner: Planner | str,
    costs: Costs,
    cluster: Cluster,
    microbatches: int,
    host_memory: HostMemory = None,
    blocks: Blocks | None = None,
) -> Plan:
    """The plan of a planner, by name or as a function; refused unless it fits model and cluster.

    With `blocks`, the planner is given the model of these units, and its plan is expanded to layers. Refused too,
    before it is searched for, if the planner's tables would take more than `host_memory`.
    """
    function: Planner = lookup.resolve(planner, PLANNERS, "planner") if isinstance(planner, str) else planner
    check_kinds(costs, cluster)
    with named("planner", planner):
        lookup.check_takes(function, "model, cluster, costs, microbatches")
        plans.check_microbatches(microbatches)
        seen = costs if blocks is None else blocks.costs
        _check_tables(function, planner, seen, cluster, host_memory)
        given = prices(function, costs, cluster, host_memory, blocks)
        with nullcontext() if blocks is None else blocks.explained():
            plan = function(seen.model, cluster, seen, microbatches, **given)
        if not isinstance(plan, Plan):
            raise InputError(f"returned a {type(plan).__name__}; a Plan was expected")
        plans.check_fits(plan, seen.model, cluster)
    return plan if blocks is None else blocks.expanded(plan)


def _check_tables(
    function: Planner, planner: Planner | str, costs: Costs, cluster: Cluster, host_memory: HostMemory
) -> None:
    """Refuse a planner whose tables do not fit, before it makes them."""
    keywords = getattr(function, "keywords", {})
    nodes, kinds = ({getattr(device, column) for device in cluster.devices} for column in ("node", "kind"))
    most = next((keywords[key] for key in ("stages", "most_stages") if isinstance(keywords.get(key), int)), None)
    size = ProblemSize(len(costs.model), len(cluster.devices), len(nodes), len(kinds), most)
    name = planner.partition("(")[0].strip() if isinstance(planner, str) else getattr(planner, "__name__", "given")
    limits.check_planner(host_memory, name, size, info_of(function, PlannerInfo).tables(size))


def check_kinds(costs: Costs, cluster: Cluster) -> None:
    """Refuse devices that the trace has no times for, before a planner uses them."""
    for device in cluster.devices:
        costs.recorded_kind(device.kind)
