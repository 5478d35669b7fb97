"""The least steady-state bottleneck over levels of bandwidth, stages replicated; after PipeDream's optimizer."""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.groups import by_node, cut_bytes, kinds_of, layer_seconds, prefix, worst_bandwidths


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices, and of the tables of layers x layers at each level."""
    node, nodes = size.devices_per_node, size.nodes
    two_levels = 1 < nodes < size.devices
    tables = max(4 * node + 11, 3 * (node + 1) + nodes + 6) if two_levels else size.devices + 5
    return PER_PAIR * size.devices**2 + 8 * tables * size.layers**2


@PlannerInfo(tables=table_bytes, look=3)
def pipedream(model: Model, cluster: Cluster, costs: Costs, microbatches: int) -> Plan:
    """Stages whose slowest takes the least seconds per microbatch once the pipeline is full, replicas included.

    A stage of m replicas, each with whole microbatches, takes (compute + 4 (m-1)/m parameter bytes / bandwidth) / m:
    gradients are exchanged after every microbatch, as PipeDream does. A cut takes 2 activation bytes / (bandwidth m)
    for the m replicas of the stage after it, and of the one before unless that is the first. Where nodes have equally
    many devices there are two levels of bandwidth, each at its slowest pair: first the devices of a node, for every
    range of layers, then the nodes, each with what the level below has found. Otherwise there is one level. All
    devices are used.

    The objective is that bottleneck for one microbatch: PipeDream's seconds per minibatch, if the microbatch is the
    recorded minibatch. As in PipeDream's program, a level's first stage shares its exchange of gradients among the
    devices of a node, later ones do not. Ignores fill and drain, and that a flushed pipeline exchanges gradients once
    per iteration; also differences between devices (each is as slow as the slowest), links shared by several pairs,
    latencies and memory. Layers are in the model's order; a tensor that crosses several cuts counts at each.
    """
    plans.check_microbatches(microbatches)
    nodes, levels = levels_of(cluster)
    everything = kinds_of(cluster, range(len(cluster.devices)))
    seconds = layer_seconds(costs, everything, 1.0)
    solved = solve(seconds, prefix(model.trained_bytes), cut_bytes(costs), levels)
    names = [[cluster.devices[i].name for i in node] for node in nodes]
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(_stages(solved, names, len(model))),
        replicas="whole",
        planner="pipedream",
        objective_s=float(solved[-1].best[-1, 0, -1]),
    )


class Level(NamedTuple):
    """The number of groups of the level below in one group, and bytes/s between two of them."""

    groups: int
    bandwidth: float


class LevelStage(NamedTuple):
    """Layers start .. stop-1 on this many groups of the level below."""

    start: int
    stop: int
    replicas: int


class Solved(NamedTuple):
    """The table of a level: [m, a, b] for layers a .. b-1 on m groups; 0 .. b-1 only, on the last level."""

    best: Floats
    cut: Ints  # the first layer of the last stage; a if there is one stage
    replicas: Ints  # the groups of the last stage

    def parts(self, start: int, stop: int) -> list[LevelStage]:
        """The stages of a range of layers on all groups."""
        left, found = len(self.best) - 1, list[LevelStage]()
        while left:
            cut, replicas = int(self.cut[left, start, stop]), int(self.replicas[left, start, stop])
            found.append(LevelStage(cut, stop, replicas))
            stop, left = cut, left - replicas
        return found[::-1]


def levels_of(cluster: Cluster) -> tuple[list[list[int]], list[Level]]:
    """The devices in groups, and the levels of bandwidth: inside nodes and across, or one where nodes are uneven."""
    between, nodes = worst_bandwidths(cluster), by_node(cluster)
    size, flat = len(nodes[0]), [position for node in nodes for position in node]
    if len(nodes) == 1 or size == 1 or any(len(node) != size for node in nodes):
        return [flat], [Level(len(flat), float(between.min()))]
    inside = min(float(between[np.ix_(node, node)].min()) for node in nodes)
    belongs = np.repeat(np.arange(len(nodes)), size)
    across = between[np.ix_(flat, flat)][belongs[:, None] != belongs]
    return nodes, [Level(size, inside), Level(len(nodes), float(across.min()))]


def solve(seconds: Floats, parameters: Floats, cut: Floats, levels: list[Level]) -> list[Solved]:
    """The dynamic program of every level, lowest first.

    `seconds[a, b]` of layers a .. b-1 on one device, infinite unless a < b; `parameters[l]` bytes of layers 0 .. l-1;
    `cut[l]` bytes between layers l-1 and l.
    """
    solved: list[Solved] = []
    inside = 1
    for n, level in enumerate(levels):
        exchanged = np.maximum(parameters[None, :] - parameters[:, None], 0.0) / level.bandwidth
        rows = 1 if n == len(levels) - 1 else len(cut) - 1
        solved.append(_level(seconds, exchanged, cut / level.bandwidth, level.groups, rows, inside))
        seconds = np.vstack([solved[-1].best[-1], np.full((len(cut) - rows, len(cut)), np.inf)])
        inside = level.groups
    return solved


def _level(seconds: Floats, exchanged: Floats, cut: Floats, count: int, rows: int, inside: int) -> Solved:  # noqa: PLR0917 - the parts of a recurrence
    """best[m, a, b] = least bottleneck of layers a .. b-1 on m groups.

    a ───────────── l' ───── b      all of it on m groups, or max of
    best[m-r, a, l'] │ last[l', b]  - the best of the layers before a last cut l', on m-r
                                    - the last stage on r, with the transfers over the cuts at its ends
    """
    layers = len(cut) - 1
    best = np.full((count + 1, rows, layers + 1), np.inf)
    cuts = np.tile(np.arange(rows)[:, None], (count + 1, 1, layers + 1))
    replicas = np.tile(np.arange(count + 1)[:, None, None], (1, rows, layers + 1))
    for m in range(1, count + 1):
        ring = 4 * (m - 1) / m * exchanged[:rows]
        best[m] = (seconds[:rows] + ring / inside) / m
    transfer = 2 * np.maximum(cut[:, None], cut[None, :])
    last = [np.maximum(seconds + 4 * (r - 1) / r * exchanged, transfer) / r for r in range(1, count)]
    for m in range(2, count + 1):
        for r in range(1, m):
            slowest, at = _last_cut(best[m - r], last[r - 1])
            better = slowest < best[m]
            best[m][better], cuts[m][better], replicas[m][better] = slowest[better], at[better], r
    return Solved(best, cuts, replicas)


def _last_cut(before: Floats, last: Floats) -> tuple[Floats, Ints]:
    """For each a and b the least max(before[a, l], last[l, b]) over cuts l, and that l."""
    if len(before) == 1:
        slowest = np.maximum(before[0][:, None], last)
        at = slowest.argmin(axis=0)
        return slowest[at, np.arange(len(at))][None, :], at[None, :]
    least, best_at = np.full(before.shape, np.inf), np.zeros(before.shape, np.int64)
    for cut in range(1, len(last) - 1):
        corner = slice(0, cut), slice(cut + 1, None)  # all ranges of layers that this cut divides
        slowest = np.maximum(before[:cut, cut, None], last[None, cut, cut + 1 :])
        better = slowest < least[corner]
        least[corner][better], best_at[corner][better] = slowest[better], cut
    return least, best_at


def _stages(solved: list[Solved], nodes: list[list[str]], layers: int) -> list[Stage]:
    """The stages on devices: the upper level's take whole nodes in order, those inside the same places of each.

    nodes   ab cd ef      upper level: 2 nodes, then 1      inside: one place each      stages   ac | bd | e | f
    """
    whole = solved[1].parts(0, layers) if len(solved) > 1 else [LevelStage(0, layers, 1)]
    stages, taken = list[Stage](), 0
    for outer in whole:
        mine, place = nodes[taken : taken + outer.replicas], 0
        for part in solved[0].parts(outer.start, outer.stop):
            devices = tuple(name for node in mine for name in node[place : place + part.replicas])
            stages.append(Stage(part.start, part.stop, devices))
            place += part.replicas
        taken += outer.replicas
    return stages
