"""The cluster and the trace that a simulation describes.

trace       a folder, a file or a bundled trace                              recorded
a model by name or from its config.json: for the cluster         computed
both        a bundled trace where it has times for the cluster, else the model of that name; model:NAME is computed
"""

import inspect
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
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
from pipesim.core.cluster import Cluster
from pipesim.core.devices import DeviceKind, device_kind
from pipesim.core.sequence_lengths import SequenceLengths
from pipesim.core.teams import Team, Widths, has_team, teams_of
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.studies.loading import bundled_traces, load_cluster, load_plan, load_trace
from pipesim.studies.scaled_widths import scaled
from pipesim.studies.simulation import ANY, COMPUTED, MODEL, Simulation, defaults, names_config, widths_of_ranks
from pipesim.studies.varied_lengths import varied
from pipesim.topologies import TOPOLOGIES, parts
from pipesim.topologies.hosts import cluster_file
from pipesim.topologies.nvidia_machines import MACHINES

COMPUTED_WIDTHS = (1, 2, 4, 8)  # of teams, at which a model is computed where no width is given


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


def trace_of(simulation: Simulation, cluster: Cluster, read: Trace | None = None) -> Trace:
    """The trace, or that of a model, computed for the kinds of device that the cluster has.

    A name of both a bundled trace and a model is the trace where that has times for the cluster's kinds and widths.
    `read` is what was read of the trace that is named, if it was.
    """
    if simulation.architecture is not None:
        kinds = tuple(dict.fromkeys(device.kind for device in cluster.devices))
        return architecture_trace(simulation.architecture, simulation.efficiency, kinds)
    if simulation.trace is None:
        raise InputError("trace, or architecture, is missing")
    model = model_named(simulation.trace)
    if not model:
        trace = load_trace(simulation.trace) if read is None else read
        model = computed_instead(simulation, trace, cluster)
    if not model:
        _check_not_computed(simulation)
        return _at_all_widths(simulation, trace, cluster) if simulation.scale_widths else trace
    if simulation.scale_widths:
        raise InputError(f"scale_widths has no effect: {quoted(model)} is computed at the widths that it is used at")
    if isinstance(simulation.cluster, str) and simulation.device is None and is_default_kind(simulation.cluster):
        raise InputError(
            f"model {quoted(model)} is computed for a kind of device, and the cluster {quoted(simulation.cluster)} "
            "names none: say which with device=..., as in device='h100-80gb'"
        )
    return _of_lengths(model, simulation, cluster)


def _of_lengths(model: str, simulation: Simulation, cluster: Cluster) -> Trace:
    """The trace of a model whose sequences are all full, or of lengths that are given."""
    if simulation.lengths is None:
        return computed_trace(model, simulation, cluster)
    given = simulation.lengths
    lengths = given if isinstance(given, SequenceLengths) else SequenceLengths.of(str(given))

    def of_length(sequence: int | None) -> Trace:
        chosen = simulation if sequence is None else replace(simulation, sequence=sequence)
        return computed_trace(model, chosen, cluster)

    return varied(of_length, lengths, pack=simulation.packed)


def _check_not_computed(simulation: Simulation) -> None:
    for name in COMPUTED:
        if getattr(simulation, name) != defaults()[name]:
            raise InputError(
                f"{name} has no effect: {quoted(str(simulation.trace))} is a recorded trace; model:NAME is computed"
            )


def computed_trace(model: str, simulation: Simulation, cluster: Cluster) -> Trace:
    """The trace of a model, computed for the kinds of device of a cluster, at the widths of its teams."""
    kinds = tuple(dict.fromkeys(device.kind for device in cluster.devices))
    sizes: dict[str, Any] = {"microbatch": simulation.microbatch_size or 1}
    for name in ("sequence", "precision"):
        if getattr(simulation, name) is not None:
            sizes[name] = getattr(simulation, name)
    if "precision" not in sizes:
        sizes["precision"] = "bf16" if all("bf16" in device_kind(kind).peak for kind in kinds) else "fp16"
    for name in ("context", "expert"):
        if (getattr(simulation, name) or 1) > 1:
            raise RefusedError(
                f"{name} = {getattr(simulation, name)} found; the model {quoted(model)} is computed, and only tensor "
                f"widths are; a trace recorded at that {name} width can be simulated"
            )
    efficiency: Any = "device" if simulation.efficiency == defaults()["efficiency"] else simulation.efficiency
    traces = []
    for kind in kinds:
        for team in _a_team_of_each_width(simulation, cluster, kind):
            # Of any widths, those are left out that the model cannot be divided by.
            with suppress(InputError) if simulation.tensor == ANY and len(team) > 1 else nullcontext():
                traces.append(trace_called(
                    model, [kind], sizes | _shared(simulation, len(team)), efficiency=efficiency,
                    team_link=team_link(cluster, team) if len(team) > 1 else None, tp_overlap=simulation.tensor_overlap,
                ))  # fmt: skip
    columns = {name: np.concatenate([trace.layers[name] for trace in traces]) for name in traces[0].layers}
    note = f"times of {model} are computed from data sheets, not recorded: {_calculated(traces[0])}"
    divided = any(trace.sequence_parallel for trace in traces)
    return replace(traces[0], layers=columns, sequence_parallel=divided, notes=(note,), command=f"{MODEL}{model}")


def _calculated(trace: Trace) -> str:
    """How the times of a computed trace were calculated."""
    return trace.machine.removeprefix("none: calculated from data sheets").strip(" ,")


def _shared(simulation: Simulation, width: int) -> dict[str, Any]:
    """How the GPUs of a team share a layer, as sizes of a model."""
    if width == 1:
        return {}
    return {"tensor_parallel": width, "sequence_parallel": bool(simulation.sequence_parallel)}


def _a_team_of_each_width(simulation: Simulation, cluster: Cluster, kind: str) -> list[Team]:
    """A team of this kind of device, of each width that stages have; others of its width are taken to be like it."""
    if simulation.plan is None:
        for width in widths_of_ranks(simulation):
            teams_of(cluster, width)  # refused if there is none of any kind
        devices = tuple(device for device in cluster.devices if device.kind == kind)
        of_kind, several = replace(cluster, devices=devices), _several_widths(simulation)
        if not several:
            return [teams_of(of_kind, int(simulation.tensor or 1))[0]]
        return [teams_of(of_kind, width)[0] for width in sorted(several) if has_team(of_kind, width)]
    plan = load_plan(simulation.plan)
    if plan.context > 1:
        raise RefusedError(f"context = {plan.context} found in the plan; only tensor widths are computed")
    every = {len(team): team for stage in plan.stages for team in map(plan.team, stage.devices)}
    return [every[width] for width in sorted(every)]


def model_named(trace: object) -> str:
    """The model that a TRACE names in place of a trace; empty if it names a file or a bundled trace, or is one."""
    if not isinstance(trace, str) or not trace:
        return ""
    if trace.startswith(MODEL):
        return trace.removeprefix(MODEL)
    if names_config(Path(trace)):
        return trace
    name = trace.partition("(")[0].strip()
    is_trace = trace in bundled_traces() or files.exists(Path(trace))
    return trace if name in ARCHITECTURES and not is_trace else ""


def computed_instead(simulation: Simulation, trace: Trace, cluster: Cluster) -> str:
    """The model of the same name as a bundled trace, where that has no times for this cluster; else nothing."""
    name = simulation.trace
    if not isinstance(name, str) or name not in ARCHITECTURES or name not in bundled_traces():
        return ""
    kinds = {device.kind for device in cluster.devices}
    timed = ANY_KIND in trace.device_kinds or kinds <= set(trace.device_kinds)
    default = isinstance(simulation.cluster, str) and simulation.device is None and is_default_kind(simulation.cluster)
    wide = simulation.scale_widths or set(all_widths_of(simulation, trace)) <= set(trace.widths)
    return "" if (default or timed) and wide else name


def _at_all_widths(simulation: Simulation, trace: Trace, cluster: Cluster) -> Trace:
    """The trace at the widths of all stages, scaled to those that it was not timed at."""

    def link_of(kind: str, width: int) -> TeamLink | None:
        devices = tuple(device for device in cluster.devices if device.kind == kind)
        if not devices:
            return None
        of_kind = replace(cluster, devices=devices)
        return team_link(cluster, teams_of(of_kind, width)[0]) if one_kind or has_team(of_kind, width) else None

    one_kind = len({device.kind for device in cluster.devices}) == 1
    wanted = all_widths_of(simulation, trace)
    if simulation.tensor != ANY:
        return scaled(trace, wanted, link_of)
    for widths in (each for each in wanted if has_team(cluster, each.gpus)):
        with suppress(InputError):  # a width that the model cannot be divided by
            trace = scaled(trace, [widths], link_of)
    return trace


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


def widths_of(simulation: Simulation, trace: Trace) -> Widths:
    """The widths of teams: those given, and for the others those of the plan, or that the trace was timed at.

    Where ranks or stages have widths of their own, those of the first.
    """
    known = trace.widths[0] if simulation.plan is None else load_plan(simulation.plan).widths(0)
    given = {name: width for name in known.by_name if (width := getattr(simulation, name)) not in {None, ANY}}
    if ranks := widths_of_ranks(simulation):
        given["tensor"] = ranks[0]
        _check_ranks(simulation, known)
    for name, width in given.items():
        check_at_least(name, min(ranks) if ranks and name == "tensor" else width, 1)
    return replace(known, **given)


def _check_ranks(simulation: Simulation, known: Widths) -> None:
    """Refuse widths of ranks beside a context width, or beside a plan that has others."""
    found = f"tensor = {quoted(str(simulation.tensor))} found"
    if (simulation.context or known.context) > 1:
        raise InputError(f"{found} beside a context width; one tensor width was expected")
    if simulation.plan is None:
        return
    plan = load_plan(simulation.plan)
    first = {stage.devices[0]: n for n, stage in reversed(list(enumerate(plan.stages)))}
    of_plan = tuple(plan.widths(n).tensor for n in sorted(first.values()))
    if of_plan != widths_of_ranks(simulation):
        raise InputError(f"{found} beside a plan whose ranks have {';'.join(map(str, of_plan))}")


def all_widths_of(simulation: Simulation, trace: Trace) -> list[Widths]:
    """The widths of the teams of all stages, those of `widths_of` first."""
    own = widths_of(simulation, trace)
    plan = None if simulation.plan is None else load_plan(simulation.plan)
    of_plan = () if plan is None else plan.widths_of_stages(own.expert)
    several = () if plan is not None else _several_widths(simulation)
    return list(dict.fromkeys([own, *of_plan, *(replace(own, tensor=width) for width in several)]))


def _several_widths(simulation: Simulation) -> tuple[int, ...]:
    """The tensor widths that ranks have, or may have; none where all have the same."""
    return COMPUTED_WIDTHS if simulation.tensor == ANY else tuple(dict.fromkeys(widths_of_ranks(simulation)))
