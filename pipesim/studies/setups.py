"""From the description of a simulation to what is lowered, step by step.

trace or architecture ──> costs ──┐
cluster ──────────────────────────┼──> plan ──> schedule ──> Setup
options, scenario, background ────┘
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np

from pipesim.base import lookup
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, PipesimError, quoted, within
from pipesim.core import legality, limits
from pipesim.core import plan as plans
from pipesim.core.background import Background
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.core.granularity import Blocks, blocks_of
from pipesim.core.limits import HostMemory
from pipesim.core.members import PlannerInfo, ProblemSize, Refit, info_of
from pipesim.core.plan import Plan
from pipesim.core.scenario import CALM, Scenario
from pipesim.core.schedule import Schedule
from pipesim.core.teams import SINGLE, Widths, as_devices, teams_of
from pipesim.core.trace import Trace
from pipesim.lowering import Options, Setup
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import memory_fit
from pipesim.studies.loading import load_plan, load_scenario
from pipesim.studies.ordering import named, ordered_with
from pipesim.studies.origins import basis_of, origin_of
from pipesim.studies.pricing import Objective, prices
from pipesim.studies.simulation import (
    ANY,
    FIELDS,
    FP32_GRADIENTS,
    LAYOUT,
    STEP_COPIES,
    UNSTATED,
    Simulation,
    widths_of_ranks,
    with_defaults,
)
from pipesim.studies.sources import cluster_of, trace_of, widths_of
from pipesim.studies.traced_models import builder, transformer_engine_bytes
from pipesim.studies.trained_parameters import trained_part

Planner = Callable[..., Plan]
Order = Callable[..., tuple[Plan, Schedule]]  # as `ordered_with`
BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}  # of a number
# Options of planners that state how many stages and replicas there are.
_SHAPE = frozenset({"stages", "most_stages", "pipeline", "data", "workers"})
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
    simulation: Simulation,
    plan: Plan,
    costs: Costs,
    cluster: Cluster,
    options: Options,
    scenario: Scenario,
    order: Order = ordered_with,
) -> Setup:
    """A plan that was made with the order of its microbatches, which `order` finds."""
    plans.check_fits(plan, costs.model, cluster)
    check_kinds(costs, cluster)
    blocks = blocks_in(simulation, costs)

    def ordered(plan: Plan) -> Setup:
        made = order(simulation.scheduler, plan, costs, cluster, options, simulation.host_memory, blocks)
        return Setup(*made, of_plan(costs, made[0]), cluster, options, scenario)

    setup = ordered(plan)
    chosen = with_defaults(simulation)
    if chosen.plan is not None or not chosen.fit or not isinstance(chosen.planner, str):
        return setup
    if not (isinstance(chosen.scheduler, str) and chosen.scheduler.partition("(")[0] in SCHEDULERS):
        legality.check(setup.schedule, setup.plan)  # of a file, of a user's function: its memory is looked at next
    if memory_fit.fits(setup):
        return setup
    bounds = np.arange(len(costs.model) + 1) if blocks is None else blocks.bounds
    refits, others = _refits(chosen, costs, cluster)
    return memory_fit.fitted(setup, ordered, refits, others, bounds)


def of_plan(costs: Costs, plan: Plan) -> Costs:
    """The costs at the widths of a plan's stages, for those of the first."""
    return costs.among(plan.widths_of_stages(costs.widths.expert))


def _refits(simulation: Simulation, costs: Costs, cluster: Cluster) -> tuple[Sequence[Refit], Callable[[], list[Plan]]]:
    """What may be changed of a planner's plans, and its plans with other values of its option, the best first.

    Options that are given are kept, and with any of them the number of stages and replicas.
    """
    name, _, given = lookup.parse_member(str(simulation.planner), PLANNERS, "planner")
    info = info_of(lookup.function_named(name, PLANNERS, "planner"), PlannerInfo)
    stated = set(given) | {size for size in ("pipeline", "data") if getattr(simulation, size) is not None}
    stated |= {"pipeline"} if widths_of_ranks(simulation) else set()

    def others() -> list[Plan]:
        devices = len(cluster.devices) // costs.widths.gpus
        found = []
        for value in info.values or [n for n in range(1, devices + 1) if devices % n == 0]:
            with suppress(PipesimError):
                found.append(plan_of(simulation, costs, cluster, {info.option: value}))
        return sorted(found, key=lambda plan: plan.objective_s or 0.0)

    refits = tuple(part for part in info.refits if part != "option" or info.option not in stated)
    return ("cuts",) if stated & _SHAPE and "cuts" in refits else () if stated & _SHAPE else refits, others


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


def costs_in(simulation: Simulation, trace: Trace) -> Costs:
    """Seconds of every layer, for the size of microbatches of the simulation."""
    costs = costs_of(
        trace,
        simulation.microbatch_size,
        widths=widths_of(simulation, trace),
        weight_share=simulation.weight_share,
        scaling=simulation.scaling,  # type: ignore[arg-type]  # one of the choices, checked there
    )
    named_costs = replace(costs, origin=origin_of(simulation, trace), basis=basis_of(simulation, trace))
    return trained_part(named_costs, trace, simulation)


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
    if isinstance(chosen.recompute_blocks, str):
        found["recompute_blocks"] = tuple(map(int, chosen.recompute_blocks.split(";")))
    gradients = _gradient_bytes(chosen, trace)
    return Options(
        **found
        | {
            "gradient_bytes": gradients,
            "step_bytes": _step_bytes(chosen, trace, gradients),
            "workspace": _workspace(chosen, trace),
        }
    )


def _gradient_bytes(simulation: Simulation, trace: Trace) -> float | None:
    """Bytes of a gradient per byte of its parameter; None where they are of one precision, or it is not known."""
    in_fp32 = trace.precision in FP32_GRADIENTS.get(simulation.framework or "", ())
    precision = simulation.gradient_precision or ("fp32" if in_fp32 else None)
    own = 2 if trace.precision == "fp8" else BYTES.get(trace.precision)  # with fp8, parameters are kept in 16 bits
    if precision is None or own is None:
        return None
    part = BYTES[precision] / own
    return None if part == 1 else part


def _workspace(simulation: Simulation, trace: Trace) -> float:
    """Bytes that Transformer Engine takes, where the framework uses it and the model is known; 0 otherwise."""
    if simulation.framework != "megatron":
        return 0.0
    return _engine_bytes(trace, widths_of(simulation, trace), simulation.microbatch_size or trace.microbatch_size)


@functools.lru_cache(maxsize=64)  # of a search, a sweep: many layouts of few models
def _engine_bytes(trace: Trace, widths: Widths, samples: int) -> float:
    build = builder(trace, widths)
    return 0.0 if build is None else float(transformer_engine_bytes(build(samples), widths))


def _step_bytes(simulation: Simulation, trace: Trace, gradients: float | None) -> float:
    """Bytes that the framework's step makes of gradients of 16 bits, per byte of parameters."""
    if BYTES.get(trace.precision, 4) > 2 or gradients is not None or simulation.framework not in STEP_COPIES:
        return 0.0
    return STEP_COPIES[simulation.framework][simulation.sharding != "none"] / 2


def scenario_of(simulation: Simulation, cluster: Cluster) -> Scenario:
    """Slow devices and degraded links, and what others use of links."""
    scenario = CALM if simulation.scenario is None else load_scenario(simulation.scenario)
    if simulation.slow is not None:
        with within("slow"):
            scenario = scenario.beside(Scenario.of_text(simulation.slow))
    if scenario.slow:
        scenario = scenario.on(cluster)
    if simulation.background is None:
        return scenario
    load = simulation.background
    return scenario.beside((load if isinstance(load, Background) else Background.load(load)).on(cluster))


def plan_of(
    simulation: Simulation, costs: Costs, cluster: Cluster, options: Mapping[str, int | str] | None = None
) -> Plan:
    """The plan of a file, or that of the planner, with more `options` of it."""
    if simulation.plan is not None:
        return load_plan(simulation.plan)
    microbatches = microbatches_of(simulation, costs)
    own = bool(widths_of_ranks(simulation)) or simulation.tensor == ANY  # the planner makes teams
    teams = teams_of(cluster, costs.widths.gpus) if costs.widths.gpus > 1 and not own else ()
    seen = as_devices(cluster, teams) if teams else cluster
    # To a planner a team is one device, which has the times of one of its GPUs.
    single = replace(costs, model=replace(costs.model, widths=SINGLE), others={}) if teams else costs
    chosen = _planner_of(with_defaults(simulation), options or {})
    blocks, objective = blocks_in(simulation, single), objective_of(simulation)
    plan = plan_with(chosen, single, seen, microbatches, simulation.host_memory, blocks, objective)
    if not teams or plan.teams:
        return plan
    used = set(plan.devices)
    members = tuple(team for team in teams if team[0] in used)
    return replace(plan, teams=members, context=costs.widths.context)


def objective_of(simulation: Simulation) -> Objective | None:
    """What a planner minimises of drawn iterations; None for the iteration with median times."""
    if simulation.objective is None:
        return None
    return Objective(simulation.objective, simulation.jitter, simulation.draw)


def fitting_plan(simulation: Simulation, trace: Trace, costs: Costs, cluster: Cluster) -> tuple[Plan, tuple[str, ...]]:
    """The plan, or in its place one that fits in memory, and what was changed in sentences."""
    plan = plan_of(simulation, costs, cluster)
    try:
        options, scenario = options_of(simulation, trace), scenario_of(simulation, cluster)
        setup = assembled(simulation, plan, costs, cluster, options, scenario)
    except PipesimError:  # it has no such order: as it was planned
        return plan, ()
    return (setup.plan, setup.notes) if setup.notes else (plan, ())


def _planner_of(simulation: Simulation, options: Mapping[str, int | str]) -> Planner | str:
    """The planner, with the sizes of the layout that are given as its options; refused by name if it has none such."""
    layout: dict[str, Any] = {name: value for name in LAYOUT if (value := getattr(simulation, name)) is not None}
    for name, value in layout.items():
        check_at_least(name, value, 1)
    if ranks := widths_of_ranks(simulation):
        layout["tensor"] = ranks
    if simulation.tensor == ANY:
        if layout:
            raise InputError(f"tensor = any and {', '.join(layout)} found; the planner chooses all of the layout then")
        layout["teams"] = True
    planner: Planner | str = simulation.planner or UNSTATED["planner"]
    if not layout and not options and simulation.tensor is None:
        return planner
    function = lookup.resolve(planner, PLANNERS, "planner") if isinstance(planner, str) else planner
    takes, stated = inspect.signature(function).parameters, getattr(function, "keywords", {})
    if simulation.tensor is not None and {"tensor", "teams"} & set(stated):
        raise InputError(
            f"tensor = {simulation.tensor} found beside planner {quoted(str(planner))}, which states it too"
        )
    if not layout and not options:
        return planner
    for name in layout:
        if name not in takes:
            found, other = ("tensor = any", "spp_plus") if name == "teams" else (name, "megatron")
            raise InputError(
                f"{found} has no effect on planner {quoted(str(planner))}, which chooses its own layout; planner "
                f"{other!r} takes it"
            )
    return functools.partial(function, **layout, **options)


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
    objective: Objective | None = None,
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
        most_processes = _check_tables(function, planner, seen, cluster, host_memory)
        given: dict[str, Any] = dict(prices(function, costs, cluster, host_memory, blocks, objective))
        processes = inspect.signature(function).parameters.get("processes")
        if processes is not None and processes.default is None:
            given["processes"] = most_processes
        with nullcontext() if blocks is None else blocks.explained():
            plan = function(seen.model, cluster, seen, microbatches, **given)
        if not isinstance(plan, Plan):
            raise InputError(f"returned a {type(plan).__name__}; a Plan was expected")
        plans.check_fits(plan, seen.model, cluster)
    return plan if blocks is None else blocks.expanded(plan)


def _check_tables(
    function: Planner, planner: Planner | str, costs: Costs, cluster: Cluster, host_memory: HostMemory
) -> int:
    """Refuse a planner whose tables do not fit, before it makes them; how many times half of the memory has room."""
    keywords = getattr(function, "keywords", {})
    nodes, kinds = ({getattr(device, column) for device in cluster.devices} for column in ("node", "kind"))
    most = next((keywords[key] for key in ("stages", "most_stages") if isinstance(keywords.get(key), int)), None)
    size = ProblemSize(len(costs.model), len(cluster.devices), len(nodes), len(kinds), most)
    name = planner.partition("(")[0].strip() if isinstance(planner, str) else getattr(planner, "__name__", "given")
    tables = info_of(function, PlannerInfo).tables(size)
    limits.check_planner(host_memory, name, size, tables)
    return int(max(1, limits.limit_of(host_memory).size / 2 // max(tables, 1.0)))


def check_kinds(costs: Costs, cluster: Cluster) -> None:
    """Refuse devices that the trace has no times for at any width, before a planner uses them."""
    for device in cluster.devices:
        if not any(each.has_kind(device.kind) for each in costs.others.values()):
            costs.recorded_kind(device.kind)
