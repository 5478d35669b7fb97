"""The least time of an iteration among the plans of several searches; after DAPPLE's planner."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.dapple_placement import Group, Used, after, placements, placements_of_each, size_of, take
from pipesim.planners.groups import by_node, cut_bytes, kinds_of, layer_seconds, prefix, worst_bandwidths

MOST_WAYS = 2**26  # the work is in proportion to placements x devices^3; up to 16 devices, all placements are followed


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices, and of the tables of layers x layers."""
    return PER_PAIR * size.devices**2 + 8 * 13 * size.layers**2


@PlannerInfo(tables=table_bytes, look=2)
def dapple(
    model: Model, cluster: Cluster, costs: Costs, microbatches: int, *, collective: float | str | None = None
) -> Plan:
    """The plan of the least length among DAPPLE's candidates, with microbatches split over the replicas of a stage.

    length = (M-1) block + seconds of one microbatch on one device + sum of the transfers at the cuts
             + max over stages i of (all-reduce_i - i block, at least 0)

    block is the slowest of stages and transfers. With p whole pipelines side by side M is microbatches / p, rounded
    down; the plan then gives a stage the devices of all p, and splits each microbatch over them. Machines are the nodes
    of the cluster, inside and across each at the bandwidth of the slowest pair; `collective` is what an all-reduce
    across machines gets, and a transfer to a group that spans machines (default: as across).

    The candidates: data parallelism; every division into two stages; and, for each number of devices per pipeline, the
    division of the least block, with replication and without. Each stage is placed on fresh machines, appended to used
    ones, or scattered; on more than 16 devices only the most promising placements are followed.

    Two properties of DAPPLE's program are kept, since its published numbers depend on them: a transfer counts in both
    directions in the block, but in one where a single pipeline has two stages; and the seconds of one microbatch in the
    sum are those of one device, for any number of replicas, except for data parallelism, which is its work and its
    all-reduce. A third is not kept: there a stage's all-reduce includes a layer of the next stage, here its own layers
    only.

    Ignores how devices differ (each is as slow as the slowest), that a share of a microbatch may take more than its
    share of the time, what transfers share, latencies and memory.
    """
    plans.check_microbatches(microbatches)
    problem, names = problem_of(cluster, costs, microbatches, collective)
    best = min(candidates(problem), key=lambda found: found.length)
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(
            Stage(a, b, tuple(name for m, first, stop in group for name in names[m][first:stop]))
            for a, b, group in best.stages
        ),
        planner="dapple",
        objective_s=best.length,
    )


class Problem(NamedTuple):
    """Layers, machines and bandwidths, as DAPPLE models them."""

    seconds: Floats  # [a, b]: of layers a .. b-1 on one device, one microbatch; infinite unless a < b
    parameters: Floats  # [l]: bytes of layers 0 .. l-1
    cut: Floats  # [l]: bytes of one microbatch between layers l-1 and l
    microbatches: int
    sizes: Used  # devices of each machine
    inside: float  # bytes/s between two devices of a machine
    across: float  # ... of two machines
    collective: float  # ... of an all-reduce across machines

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.cut) - 1

    @property
    def total(self) -> float:
        """Seconds of one microbatch on one device."""
        return float(self.seconds[0, -1])

    @property
    def fresh(self) -> Used:
        """No device is used."""
        return (0,) * len(self.sizes)

    def first(self, devices: int) -> Group:
        """The devices of a first stage of this size: fresh machines."""
        return take(self.sizes, self.fresh, devices, range(len(self.sizes))) or ()

    def transfer(self, source: Group, target: Group) -> float:
        """Seconds per byte from a group to the next."""
        if len(target) > 1:
            return 1 / self.collective
        elsewhere = size_of(tuple(piece for piece in source if piece.machine != target[0].machine))
        return elsewhere / size_of(source) / self.across if elsewhere else 1 / self.inside

    def all_reduce(self, group: Group) -> float:
        """Seconds per byte of parameters; inside a machine, one ring for each pair of devices at the same time."""
        count = size_of(group)
        wide = self.collective if len(group) > 1 else self.inside * max(count // 2, 1)
        return 2 * (count - 1) / count / wide


class PlacedStage(NamedTuple):
    """Layers start .. stop-1 on a group: the devices of all pipelines side by side."""

    start: int
    stop: int
    group: Group


class Candidate(NamedTuple):
    """Stages, and the seconds of an iteration by DAPPLE's formula."""

    length: float
    pipelines: int
    stages: tuple[PlacedStage, ...]


def problem_of(
    cluster: Cluster, costs: Costs, microbatches: int, collective: float | str | None = None
) -> tuple[Problem, list[list[str]]]:
    """The problem, and the names of each machine's devices."""
    between, machines = worst_bandwidths(cluster), by_node(cluster)
    belongs = np.empty(len(between), np.int64)
    for number, machine in enumerate(machines):
        belongs[machine] = number
    together = belongs[:, None] == belongs
    across = float(between[~together].min(initial=np.inf))
    problem = Problem(
        seconds=layer_seconds(costs, kinds_of(cluster, range(len(between))), 1.0),
        parameters=prefix(costs.model.trained_bytes),
        cut=cut_bytes(costs),
        microbatches=microbatches,
        sizes=tuple(len(machine) for machine in machines),
        inside=float(between[together].min()),
        across=across,
        collective=across if collective is None else units.bandwidth(collective),
    )
    return problem, [[cluster.devices[i].name for i in machine] for machine in machines]


# --- candidates ------------------------------------------------------------------------------------------------------


def candidates(problem: Problem) -> list[Candidate]:
    """The plans of all searches: data parallelism, two stages, and pipelines of every number of devices."""
    devices = sum(problem.sizes)
    found = [(1, (PlacedStage(0, problem.layers, problem.first(devices)),)), *two_stages(problem)]
    depths: dict[int, list[int]] = {}
    for depth in range(2, devices + 1):
        depths.setdefault(devices // depth, []).append(depth)
    for pipelines, each in depths.items():
        if pipelines <= problem.microbatches:
            ways = least_blocks(problem, pipelines, max(each))
            found += [(pipelines, ways[depth]) for depth in each if depth in ways]
            ways = least_blocks(problem, pipelines, max(each), straight=True)
            found += [(pipelines, ways[depth]) for depth in {2, devices}.intersection(each, ways)]
    return [Candidate(length(problem, pipelines, stages), pipelines, stages) for pipelines, stages in found]


def length(problem: Problem, pipelines: int, stages: tuple[PlacedStage, ...]) -> float:
    """Seconds of an iteration of these stages.

    Where the microbatches do not divide by the pipelines, each is taken to be larger, so that none is lost.
    """
    each = problem.microbatches // pipelines
    larger = problem.microbatches / pipelines / each
    sums = [problem.parameters[part.stop] - problem.parameters[part.start] for part in stages]
    exchanges = [size * problem.all_reduce(part.group) for size, part in zip(sums, stages, strict=True)]
    work = [float(problem.seconds[part.start, part.stop]) / size_of(part.group) for part in stages]
    if len(stages) == 1:
        return float(problem.microbatches * work[0] + exchanges[0])
    transfers = [problem.cut[a.stop] * problem.transfer(a.group, b.group) for a, b in pairwise(stages)]
    ways = 1 if pipelines == 1 and len(stages) == 2 else 2
    # A stage's group has the devices of all pipelines, and all of them share all microbatches.
    block = max(*work, ways * max(transfers)) * problem.microbatches / each
    exposed = max(exchange - i * block for i, exchange in enumerate(exchanges))
    return float((each - 1) * block + problem.total * larger + sum(transfers) * larger + max(exposed, 0.0))


def two_stages(problem: Problem) -> Iterator[tuple[int, tuple[PlacedStage, ...]]]:
    """One pipeline of two stages: every cut, every number of devices before it, every placement of both."""
    devices = sum(problem.sizes)
    for ahead in range(1, devices):
        for first in placements(problem.sizes, problem.fresh, ahead):
            for second in placements(problem.sizes, after(problem.fresh, first), devices - ahead):
                for cut in range(1, problem.layers):
                    yield 1, (PlacedStage(0, cut, first), PlacedStage(cut, problem.layers, second))


# --- the division of the least block ---------------------------------------------------------------------------------


class _Cell(NamedTuple):
    """The first stages, on a number of devices of each pipeline, the last of them on a group."""

    used: Used
    group: Group
    block: Floats  # [l]: the least block of layers 0 .. l-1
    cut: Ints  # [l]: where the last stage begins
    source: Ints  # [l]: which of `sources` is before it; -1 if none
    sources: list["_Cell"]

    def stages(self, stop: int) -> tuple[PlacedStage, ...]:
        """The stages of layers 0 .. stop-1."""
        start, source = int(self.cut[stop]), int(self.source[stop])
        ahead = () if source < 0 else self.sources[source].stages(start)
        return (*ahead, PlacedStage(start, stop, self.group))


def least_blocks(
    problem: Problem, pipelines: int, deepest: int, *, straight: bool = False
) -> dict[int, tuple[PlacedStage, ...]]:
    """For each number of devices per pipeline the stages of the least block; `straight`: one device each.

    cells[m] = for m devices of each pipeline: the used devices of each machine, and the last stage's group
    block[l] = min over l', r, cells before of max( block'[l'], 2 transfer at l', seconds of layers l' .. l-1 / (p r) )
    """
    width = max(16, MOST_WAYS // sum(problem.sizes) ** 4)
    cells: list[list[_Cell]] = [[]]
    ways: dict[tuple[Used, int], list[tuple[Used, Group]]] = {}
    for m in range(1, deepest + 1):
        sources: dict[tuple[Used, Group], list[_Cell]] = {}
        if m == 1 or not straight:
            group = problem.first(m * pipelines)
            sources[after(problem.fresh, group), group] = []
        for r in range(1, 2 if straight else m):
            for cell in cells[m - r][:width]:
                if (cell.used, r) not in ways:
                    ways[cell.used, r] = placements_of_each(problem.sizes, cell.used, r, pipelines, width)
                for way in ways[cell.used, r]:
                    sources.setdefault(way, []).append(cell)
        made = [_cell(problem, *way, ahead) for way, ahead in sources.items()]
        middle = min(problem.layers - 1, int(np.searchsorted(problem.seconds[0, 1:], problem.total * m / deepest)))
        cells.append(sorted(made, key=lambda cell: float(cell.block[1:][middle])))
    best = {m: min(found, key=lambda cell: float(cell.block[-1])) for m, found in enumerate(cells) if found}
    return {m: cell.stages(problem.layers) for m, cell in best.items() if np.isfinite(cell.block[-1])}


def _cell(problem: Problem, used: Used, group: Group, sources: list[_Cell]) -> _Cell:
    """The best last stage on a group for every number of layers, after the best of the sources; the first if none."""
    layers = np.arange(problem.layers + 1)
    seconds = problem.seconds / size_of(group)
    if not sources:
        return _Cell(used, group, seconds[0], np.zeros_like(layers), np.full_like(layers, -1), sources)
    moved = [2 * problem.cut * problem.transfer(cell.group, group) for cell in sources]
    reached = np.maximum([cell.block for cell in sources], moved)
    source = reached.argmin(axis=0)
    slowest = np.maximum(reached[source, layers][:, None], seconds)
    cut = slowest.argmin(axis=0)
    return _Cell(used, group, slowest[cut, layers], cut, source[cut], sources)
