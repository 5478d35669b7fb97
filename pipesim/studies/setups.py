"""From the description of a simulation to what is lowered, step by step.

trace or architecture ──> costs ──┐
cluster ──────────────────────────┼──> plan ──> schedule ──> Setup
options, scenario, background ────┘
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.architectures import ARCHITECTURES, described
from pipesim.architectures.described import trace_called
from pipesim.architectures.roofline import roofline
from pipesim.architectures.team_links import TeamLink, team_link
from pipesim.base import files, lookup
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, RefusedError, UnknownNameError, quoted
from pipesim.core import limits
from pipesim.core import plan as plans
from pipesim.core.background import Background
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.core.devices import DeviceKind, device_kind
from pipesim.core.granularity import Blocks, blocks_of
from pipesim.core.limits import HostMemory
from pipesim.core.members import PlannerInfo, ProblemSize, info_of
from pipesim.core.plan import Plan
from pipesim.core.scenario import CALM, Scenario
from pipesim.core.teams import Widths, as_devices, teams_of
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.lowering import Options, Setup
from pipesim.planners import PLANNERS
from pipesim.studies.loading import bundled_traces, load_cluster, load_plan, load_scenario, load_trace
from pipesim.studies.ordering import named, ordered_with
from pipesim.studies.pricing import prices
from pipesim.studies.simulation import COMPUTED, FIELDS, LAYOUT, MODEL, UNSTATED, Simulation, defaults, with_defaults
from pipesim.topologies import TOPOLOGIES, parts
from pipesim.topologies.hosts import cluster_file
from pipesim.topologies.nvidia_machines import MACHINES

Planner = Callable[..., Plan]
ADAM = "adam"  # the optimizer of frameworks, where a trace has it and none is named


def setup_of(simulation: Simulation) -> Setup:
    """Load, plan and order what a simulation describes.

    What would take more than `host_memory` of this machine's memory is refused before it is made.
    """
    simulation = with_defaults(simulation)
    cluster = cluster_of(simulation)
    trace = trace_of(simulation, cluster)
    costs = costs_in(simulation, trace)
    if simulation.plan is None:
        limits.check_microbatches(simulation.host_memory, microbatches_of(simulation, costs))
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
    """The cluster, with all devices of one kind if the simulation names it, or if its trace has only one.

    The kind of a trace counts where the cluster's own is nothing but the default of its topology.
    """
    if simulation.cluster is None:
        raise InputError("cluster is missing")
    cluster = load_cluster(simulation.cluster)
    if simulation.device is not None:
        return of_kind(cluster, simulation.device)
    if not isinstance(simulation.cluster, str) or not is_default_kind(simulation.cluster):
        return cluster
    kinds = recorded_kinds(simulation)
    if len(kinds) != 1 or kinds[0] in {ANY_KIND, cluster.devices[0].kind}:
        return cluster
    return of_kind(cluster, kinds[0], kinds)


def recorded_kinds(simulation: Simulation) -> tuple[str, ...]:
    """The device kinds of the trace of a simulation; none for a model that is computed."""
    if simulation.architecture is not None or simulation.trace is None or model_named(simulation.trace):
        return ()
    return load_trace(simulation.trace).device_kinds


def of_kind(cluster: Cluster, kind: str, recorded: Sequence[str] | None = None) -> Cluster:
    """The same cluster with devices of this kind, with the memory and the peak of its data sheet."""
    try:
        known: DeviceKind | None = device_kind(kind)
    except UnknownNameError:
        if kind not in (recorded or ()):
            raise
        known = None  # a kind that only the trace knows: without memory and peak
    full, memory, flops = (known.name, known.memory, known.peak.get("fp16")) if known else (kind, 0, None)
    devices = tuple(
        device if device.kind == full else replace(device, kind=full, memory=memory, flops=flops)
        for device in cluster.devices
    )
    return replace(cluster, devices=devices)


def trace_of(simulation: Simulation, cluster: Cluster) -> Trace:
    """The trace, or that of a model, computed for the kinds of device that the cluster has.

    A name of both a bundled trace and a model is the trace where that has times for the cluster's kinds and widths.
    """
    if simulation.architecture is not None:
        kinds = tuple(dict.fromkeys(device.kind for device in cluster.devices))
        return architecture_trace(simulation.architecture, simulation.efficiency, kinds)
    if simulation.trace is None:
        raise InputError("trace, or architecture, is missing")
    model = model_named(simulation.trace)
    if not model:
        trace = load_trace(simulation.trace)
        model = computed_instead(simulation, trace, cluster)
    if not model:
        _check_not_computed(simulation)
        return trace
    if isinstance(simulation.cluster, str) and simulation.device is None and is_default_kind(simulation.cluster):
        raise InputError(
            f"model {quoted(model)} is computed for a kind of device, and the cluster {quoted(simulation.cluster)} "
            "names none: say which with device=..., as in device='h100-80gb'"
        )
    return computed_trace(model, simulation, cluster)


def _check_not_computed(simulation: Simulation) -> None:
    for name in COMPUTED:
        if getattr(simulation, name) != defaults()[name]:
            raise InputError(
                f"{name} has no effect: {quoted(str(simulation.trace))} is a recorded trace; model:NAME is computed"
            )


def microbatches_of(simulation: Simulation, costs: Costs) -> int:
    """The microbatches of an iteration, as given or as many as make the global batch."""
    if simulation.global_batch is None:
        return simulation.microbatches
    size = costs.model.microbatch_size
    count, rest = divmod(simulation.global_batch, size)
    if rest or count < 1:
        found = f"global_batch = {simulation.global_batch} found"
        raise InputError(f"{found}; a multiple of microbatch_size = {size} was expected")
    return count


def computed_trace(model: str, simulation: Simulation, cluster: Cluster) -> Trace:
    """The trace of a model, computed for the kinds of device of a cluster, at the widths of its teams."""
    kinds = tuple(dict.fromkeys(device.kind for device in cluster.devices))
    sizes: dict[str, Any] = {"microbatch": simulation.microbatch_size or 1}
    for name in ("sequence", "precision"):
        if getattr(simulation, name) is not None:
            sizes[name] = getattr(simulation, name)
    if "precision" not in sizes:
        sizes["precision"] = "bf16" if all("bf16" in device_kind(kind).peak for kind in kinds) else "fp16"
    width = simulation.tensor or 1
    for name in ("context", "expert"):
        if (getattr(simulation, name) or 1) > 1:
            raise RefusedError(
                f"{name} = {getattr(simulation, name)} found; the model {quoted(model)} is computed, and only tensor "
                f"widths are; a trace recorded at that {name} width can be simulated"
            )
    efficiency: Any = "device" if simulation.efficiency == defaults()["efficiency"] else simulation.efficiency
    if width > 1:
        sizes |= {"tensor_parallel": width, "sequence_parallel": bool(simulation.sequence_parallel)}
    traces = [
        trace_called(
            model, [kind], sizes, efficiency=efficiency, team_link=_link_of(cluster, kind, width),
            tp_overlap=simulation.tensor_overlap,
        )
        for kind in kinds
    ]  # fmt: skip
    columns = {name: np.concatenate([trace.layers[name] for trace in traces]) for name in traces[0].layers}
    note = f"times of {model} are computed from data sheets, not recorded ({traces[0].machine})"
    return replace(traces[0], layers=columns, notes=(note,))


def _link_of(cluster: Cluster, kind: str, width: int) -> TeamLink | None:
    """The link of a team of this kind of device; the first, as teams of a cluster are alike."""
    if width == 1:
        return None
    devices = tuple(device for device in cluster.devices if device.kind == kind)
    return team_link(cluster, teams_of(replace(cluster, devices=devices), width)[0])


def model_named(trace: object) -> str:
    """The model that a TRACE names in place of a trace; empty if it names a file or a bundled trace, or is one."""
    if not isinstance(trace, str) or not trace:
        return ""
    if trace.startswith(MODEL):
        return trace.removeprefix(MODEL)
    if is_config(Path(trace)):
        return trace
    name = trace.partition("(")[0].strip()
    is_trace = trace in bundled_traces() or files.exists(Path(trace))
    return trace if name in ARCHITECTURES and not is_trace else ""


def is_config(path: Path) -> bool:
    """Whether a path is a Hugging Face config.json, or a folder that has one and is no trace."""
    beside = path / "config.json"
    return (
        files.exists(path) if path.name == beside.name else files.exists(beside) and not (path / "trace.toml").exists()
    )


def computed_instead(simulation: Simulation, trace: Trace, cluster: Cluster) -> str:
    """The model of the same name as a bundled trace, where that has no times for this cluster; else nothing."""
    name = simulation.trace
    if not isinstance(name, str) or name not in ARCHITECTURES or name not in bundled_traces():
        return ""
    kinds = {device.kind for device in cluster.devices}
    timed = ANY_KIND in trace.device_kinds or kinds <= set(trace.device_kinds)
    default = isinstance(simulation.cluster, str) and simulation.device is None and is_default_kind(simulation.cluster)
    return "" if default or (timed and widths_of(simulation, trace) in trace.widths) else name


def is_default_kind(cluster: str) -> bool:
    """Whether the kind of devices of a cluster's expression is only the default of its topology."""
    if cluster_file.is_file(cluster, TOPOLOGIES):
        return False
    name, _, keywords = lookup.parse_call(cluster, "cluster")
    if "device" in keywords or name not in TOPOLOGIES:
        return False
    parameter = inspect.signature(lookup.function_named(name, TOPOLOGIES, "cluster")).parameters.get("device")
    return parameter is not None and parameter.default == parts.DEVICE and name not in MACHINES


def architecture_trace(architecture: str, efficiency: float | str, kinds: Sequence[str]) -> Trace:
    """The trace of an architecture, timed from data sheets."""
    model = lookup.call(described.expression(architecture), ARCHITECTURES, "architecture")
    return roofline(model, kinds, efficiency=efficiency)


def costs_in(simulation: Simulation, trace: Trace) -> Costs:
    """Seconds of every layer, for the size of microbatches of the simulation."""
    return costs_of(
        trace,
        simulation.microbatch_size,
        widths=widths_of(simulation, trace),
        weight_share=simulation.weight_share,
        scaling=simulation.scaling,  # type: ignore[arg-type]  # one of the choices, checked there
    )


def widths_of(simulation: Simulation, trace: Trace) -> Widths:
    """The widths of teams: those given, and for the others those that the trace was timed at."""
    known = trace.widths[0]
    given = {name: width for name in known.by_name if (width := getattr(simulation, name)) is not None}
    for name, width in given.items():
        check_at_least(name, width, 1)
    return replace(known, **given)


def options_of(simulation: Simulation, trace: Trace) -> Options:
    """How transfers, the optimizer and recomputation behave; an optimizer is named as recorded in the trace."""
    chosen, name = with_defaults(simulation), simulation.optimizer
    found: dict[str, Any] = {f.name: getattr(chosen, f.name) for f in fields(Options) if f.name in FIELDS}
    stated = simulation.optimizer_s_per_byte or simulation.optimizer_state is not None
    if name is None and simulation.framework is not None and not stated:
        name = next((step.name for step in trace.optimizers if step.name == ADAM), None)
    if name is not None:
        recorded = trace.optimizer(name)
        found |= {"optimizer_s_per_byte": recorded.s_per_byte, "optimizer_state": recorded.state_per_byte}
    return Options(**found | {"gradient_bytes": _gradient_bytes(chosen, trace)})


def _gradient_bytes(simulation: Simulation, trace: Trace) -> float | None:
    """Bytes of a gradient per byte of its parameter; None where they are of one precision, or it is not known."""
    sizes = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
    own = sizes.get(trace.precision)
    if simulation.gradient_precision is None or own is None:
        return None
    part = sizes[simulation.gradient_precision] / own
    return None if part == 1 else part


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
    microbatches = microbatches_of(simulation, costs)
    teams = teams_of(cluster, costs.widths.gpus) if costs.widths.gpus > 1 else ()
    seen = as_devices(cluster, teams) if teams else cluster
    chosen = _planner_of(with_defaults(simulation))
    plan = plan_with(chosen, costs, seen, microbatches, simulation.host_memory, blocks_in(simulation, costs))
    if not teams:
        return plan
    used = set(plan.devices)
    members = tuple(team for team in teams if team[0] in used)
    return replace(plan, teams=members, context=costs.widths.context)


def _planner_of(simulation: Simulation) -> Planner | str:
    """The planner, with the sizes of the layout that are given as its options; refused by name if it has none such."""
    layout = {name: value for name in LAYOUT if (value := getattr(simulation, name)) is not None}
    planner: Planner | str = simulation.planner or UNSTATED["planner"]
    if not layout:
        return planner
    function = lookup.resolve(planner, PLANNERS, "planner") if isinstance(planner, str) else planner
    takes = inspect.signature(function).parameters
    for name, value in layout.items():
        if name not in takes:
            raise InputError(
                f"{name} has no effect on planner {quoted(str(planner))}, which chooses its own layout; planner "
                "'megatron' takes it"
            )
        check_at_least(name, value, 1)
    return functools.partial(function, **layout)


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
