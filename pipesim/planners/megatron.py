"""Uniform blocks of layers, whole pipelines side by side, several blocks per device: after Megatron-LM."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pipesim.base.checks import check_at_least, check_sequence
from pipesim.base.errors import InputError
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import even_bounds, stated_bounds
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.core.teams import Team, Widths, teams_of_ranks
from pipesim.planners.groups import MATRIX, by_node, kinds_of, prefix, rings


class _Layout(NamedTuple):
    """Megatron-LM's options: stages, pipelines side by side, blocks per device."""

    pipeline: int
    data: int
    interleave: int
    blocks: tuple[int, ...] | None = None

    def bounds(self, model: Model) -> list[int]:
        """Parts of equally many layers, or blocks of a model that has them, to within one; or as stated."""
        if self.blocks is None:
            return even_bounds(model, self.pipeline * self.interleave)
        return stated_bounds(model, self.blocks)

    def groups(self, order: list[int]) -> list[list[int]]:
        """The devices of each position of the pipelines: neighbours in the order hold the same layers."""
        return [order[n * self.data : (n + 1) * self.data] for n in range(self.pipeline)]


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices, of clusters that are not large."""
    return PER_PAIR * min(size.devices, MATRIX) ** 2


@PlannerInfo(
    tables=table_bytes,
    refits=("option",),
    option="pipeline",
    look=8,
    aliases=("megatron_lm", "megatron_core"),
    option_aliases={
        "pp": "pipeline",
        "dp": "data",
        "vpp": "interleave",
        "pipeline_parallel": "pipeline",
        "data_parallel": "data",
        "virtual_pipeline": "interleave",
        "tp": "tensor",
        "tensor_parallel": "tensor",
    },
)
def megatron(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    pipeline: int | None = None,
    data: int | None = None,
    interleave: int = 1,
    blocks: Sequence[int] | None = None,
    kinds: Sequence[str] = (),
    tensor: Sequence[int] | None = None,
) -> Plan:
    """`pipeline` positions x `data` whole pipelines; block n of equally many layers on position n mod `pipeline`.

    An option that is not given is chosen for the least analytic time: microbatches per pipeline x slowest position,
    plus the fill, (pipeline - 1) x slowest block, plus the longest all-reduce; pipeline x data are then all devices.
    As in Megatron-LM, devices are numbered node by node and the replicas of a position are neighbours: gradients, of
    which there are more bytes than of activations, stay inside a node where they fit, and pipelines run across nodes.
    Of a model with blocks, blocks are divided; embedding, norm and head are with the first and the last of them.
    `blocks` states how many blocks (layers, of a model without any) each stage has, in order, as Megatron-LM's layouts
    for pipelines with stages that differ do. `kinds` are kinds of device that are numbered before the others, in order.
    `tensor` is the tensor width of each position of the pipelines, where they differ; the costs must have these widths.
    Ignores differences between layers, transfers of activations, latencies and memory. Unlike Megatron-LM it takes
    layers and microbatches that do not divide evenly; without `tensor` each device is a team, or a GPU, of one width.
    """
    plans.check_microbatches(microbatches)
    check_sequence("kinds", kinds, str)
    if blocks is not None:
        check_sequence("blocks", blocks, int)
    order, teams = _numbered(cluster, kinds), list[tuple[Team, ...]]()
    if tensor is None:
        layouts = _layouts(len(order), len(model), pipeline, data, interleave)
    else:
        check_sequence("tensor", tensor, int)
        if pipeline not in {None, len(tensor)}:
            raise InputError(f"tensor: {len(tensor)} widths found; pipeline = {pipeline} were expected")
        teams += _teams(cluster, tensor, data, kinds)
        layouts = _layouts(len(order), len(model), len(tensor), len(teams[0]), interleave)
    if blocks is not None:
        layouts = [layout._replace(blocks=tuple(blocks)) for layout in layouts if _has_stages(layout, blocks)]
        if not layouts:
            found = f"blocks = {tuple(blocks)}: {len(blocks)} stages found"
            length = pipeline if tensor is None else len(tensor)
            raise InputError(f"{found}; pipeline x interleave = {length} x {interleave} were expected")
    if tensor is None:
        timed = [
            (_seconds(one, one.groups(order), cluster, [costs] * one.pipeline, microbatches), one) for one in layouts
        ]
        seconds, best = min(timed)  # among equals the shortest pipeline
        groups = best.groups(order)
    else:
        (best,), place = layouts, cluster.index
        groups = [[place[team[0]] for team in of_rank] for of_rank in teams]
        of_ranks = [costs.at(Widths(tensor=width, expert=costs.widths.expert)) for width in tensor]
        seconds = _seconds(best, groups, cluster, of_ranks, microbatches)
    bounds = best.bounds(model)
    names = [tuple(cluster.devices[position].name for position in group) for group in groups]
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(Stage(a, b, names[n % best.pipeline]) for n, (a, b) in enumerate(pairwise(bounds))),
        replicas="whole",
        planner="megatron",
        objective_s=seconds,
        teams=tuple(team for of_rank in teams for team in of_rank if len(team) > 1),
    )


def _teams(
    cluster: Cluster, tensor: Sequence[int], data: int | None, kinds: Sequence[str]
) -> tuple[tuple[Team, ...], ...]:
    """The teams of each position; of as many pipelines side by side as there is room for, where `data` is not given."""
    check_at_least("tensor", min(tensor, default=0))
    for count in range(len(cluster.devices) // sum(tensor), 1, -1) if data is None else ():
        with suppress(InputError):
            return teams_of_ranks(cluster, tensor, count, kinds)
    return teams_of_ranks(cluster, tensor, 1 if data is None else data, kinds)


def _numbered(cluster: Cluster, kinds: Sequence[str]) -> list[int]:
    """The devices node by node, those of the first kinds first."""
    known = dict.fromkeys(device.kind for device in cluster.devices)
    for kind in kinds:
        if kind not in known:
            raise InputError(f"kinds: {kind!r} found; cluster {cluster.name!r} has {', '.join(known)}")
    place = {kind: n for n, kind in enumerate(kinds)}
    order = [position for node in by_node(cluster) for position in node]
    return sorted(order, key=lambda position: place.get(cluster.devices[position].kind, len(place)))


def _has_stages(layout: _Layout, blocks: Sequence[int]) -> bool:
    return layout.pipeline * layout.interleave == len(blocks)


def _layouts(devices: int, layers: int, pipeline: int | None, data: int | None, interleave: int) -> list[_Layout]:
    """The possible layouts: both sizes as given, or all pairs whose product is the number of devices."""
    if pipeline is not None and data is not None:
        pairs = [(pipeline, data)] if pipeline >= 1 and data >= 1 and pipeline * data <= devices else []
    else:
        every = [(p, devices // p) for p in range(1, devices + 1) if devices % p == 0]
        pairs = [(p, d) for p, d in every if pipeline in {None, p} and data in {None, d}]
    fitting = [
        _Layout(p, d, interleave)
        for p, d in pairs
        if interleave >= 1 and p * interleave <= layers and (p > 1 or interleave == 1)
    ]
    if not fitting:
        raise InputError(
            f"pipeline = {pipeline}, data = {data}, interleave = {interleave} found; pipeline x data = {devices} (at "
            f"most that if both are given) and pipeline x interleave <= {layers} were expected ({devices} devices, "
            f"{layers} layers), and a pipeline of at least 2 to interleave"
        )
    return fitting


def _seconds(
    layout: _Layout, groups: list[list[int]], cluster: Cluster, of_positions: Sequence[Costs], microbatches: int
) -> float:
    """The analytic time of one iteration; the costs are those of each position."""
    bounds = np.array(layout.bounds(of_positions[0].model))
    block = position = reduce = 0.0
    for n, (group, costs, of_ring) in enumerate(zip(groups, of_positions, rings(cluster, groups), strict=True)):
        parameters = np.diff(prefix(costs.model.trained_bytes)[bounds])
        for kind in kinds_of(cluster, group):
            blocks = np.diff(prefix(costs.forward(kind) + costs.backward(kind))[bounds])[n :: layout.pipeline]
            block, position = max(block, float(blocks.max())), max(position, float(blocks.sum()))
        reduce = max(reduce, of_ring * float(parameters[n :: layout.pipeline].sum()))
    return -(-microbatches // layout.data) * position + (layout.pipeline - 1) * block + reduce
