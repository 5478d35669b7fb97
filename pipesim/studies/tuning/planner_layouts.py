"""Layouts whose stages and replicas another planner decides: which planners, on which clusters, at which widths.

Planners differ from equal pipelines where devices or their links do: so they are asked on clusters of several kinds,
or of nodes that are unevenly connected, for the widths, microbatches and memory options of the best layouts so far.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from pipesim.base import lookup
from pipesim.core.cluster import Cluster
from pipesim.planners import PLANNERS
from pipesim.studies.simulation import ANY
from pipesim.studies.tuning.space import BY_STAGE, EVEN, LOOPED, WAVES, LayoutChoice

DEFAULT = ("alpa", "dapple", "piper", "spp", "spp_plus")
MOST_TEAMS = 64  # that a planner is asked to place
_MOST_TEAMS_OF = {"spp_plus": 16}  # which tries many plans
NONE = "none"
WIDTHS = 3  # for which planners are asked
MOST_GPUS = 16  # for whose teams of several widths they are


def planners_for(cluster: Cluster, stated: str | None, framework: str | None) -> tuple[str, ...]:
    """Planners whose plans are candidates: those that are stated, or where none are, on uneven clusters without a
    framework, which would have to express them.
    """
    if stated is not None:
        names = [name.strip() for name in stated.split(";") if name.strip() not in {"", NONE}]
        for name in names:
            lookup.parse_member(name, PLANNERS, "planner")
        return tuple(names)
    return DEFAULT if framework is None and is_uneven(cluster) else ()


def _options_of(name: str) -> Collection[str]:
    return inspect.signature(lookup.resolve(name, PLANNERS, "planner")).parameters


def is_uneven(cluster: Cluster) -> bool:
    """Whether devices differ, or the numbers of them in nodes, or the rates between nodes."""
    nodes: dict[str, list[str]] = {}
    for device in cluster.devices:
        nodes.setdefault(device.node, []).append(device.name)
    if len({(device.kind, device.memory) for device in cluster.devices}) > 1:
        return True
    if len({len(names) for names in nodes.values()}) > 1:
        return True
    first, *others = (names[0] for names in nodes.values())
    return len({cluster.route(first, other).bandwidth for other in others}) > 1


def layouts_of(
    planners: Iterable[str],
    best: Sequence[LayoutChoice],
    teams: Callable[[int], int],
    *,
    scheduler: str | None,
    several: bool = False,
) -> list[LayoutChoice]:
    """What planners are asked for: for the widths, microbatches and recomputation of the first of these layouts that
    differ in them, those that differ in the tensor width before others. With `several`, of planners that give stages
    teams of several widths such plans too.
    """
    found, widths = dict[LayoutChoice, None](), dict[tuple[object, ...], LayoutChoice]()
    first = list({one.tensor: one for one in reversed(best)}.values())[::-1]  # the best of each tensor width
    for one in (*first, *best):
        widths.setdefault((one.tensor, one.sequence_parallel, one.microbatch_size, one.recompute), one)
    for one in list(widths.values())[:WIDTHS]:
        how = scheduler or (one.scheduler if one.scheduler not in (*LOOPED, *WAVES) else "one_f_one_b")
        for name in planners:
            asked = replace(
                one, pipeline=0, data=0, interleave=1, scheduler=how, cuts=EVEN, kinds="", planner=name, widths="",
                recompute="full" if one.recompute == BY_STAGE else one.recompute,
            )  # fmt: skip
            if teams(one.tensor) <= _MOST_TEAMS_OF.get(name, MOST_TEAMS):
                found[asked] = None
            if several and "teams" in _options_of(name):
                found[replace(asked, tensor=1, widths=ANY)] = None
    return list(found)
