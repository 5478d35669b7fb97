"""Plans read off the program that certifies the bound: stages that know which islands their devices are on.

    islands    12 devices on three servers, 4 behind a slow link
    program    least T for which some plan keeps every inequality, with the stages of one that does
    plan       those stages on real devices; a server that only costs time stays idle

The bound has everything at its best, so a plan that keeps its inequalities may be slower than T. Therefore there are
several, from the least T up: the later ones ask less of links.
"""

import math
from collections.abc import Iterator
from itertools import product, zip_longest
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.forms import by_form
from pipesim.analysis.bounds.islands import IslandModel, Network, best_partitions, island_model
from pipesim.analysis.bounds.layer_sums import LayerSums, layer_sums
from pipesim.analysis.bounds.moves import Moves, in_blocks
from pipesim.base.arrays import Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan, Replicas, Stage
from pipesim.planners.spp_plus.labels import best_labels
from pipesim.planners.spp_plus.placements import best_placements, routes_of

LAYERS = 64  # of more, only cuts are looked at that are small among their neighbours
WORK, MORE_WORK = 2_000_000, 20_000_000  # layers times ways to place two stages: for a search, and for a few looks
LATE = (0.0, 0.45, 0.55, 0.65, 0.75, 0.85)  # as in the bound's tables, fewer
STEP = 0.05  # how the search for the least T starts
FINELY = (1.0, 1.003, 1.006, 1.01, 1.02, 1.03, 1.05, 1.08)  # of the least T, where a stage has any number of devices
UNEVEN = 32  # devices that may change places where they are not alike
NARROW, NARROWER = 3, 8  # how often its end is halved
ABOVE = (1.0, 1.03, 1.07, 1.13, 1.22, 1.35)  # of the least T
AROUND = (0.86, 0.92, 0.98)  # of the least T of larger blocks, for smaller ones


class Step(NamedTuple):
    """A stage as the program has it: its layers, its place, and the move that led there (-1 for the first)."""

    start: int
    stop: int
    place: int
    move: int


class Islands(NamedTuple):
    """A partition of the devices: what the bound asks of it, and the devices of each island in that order."""

    sea: IslandModel
    devices: list[list[str]]
    block: int


def on_islands(costs: Costs, cluster: Cluster, microbatches: int, replicas: Replicas) -> Iterator[Plan]:
    """Different plans, for each partition of the devices and from the least T up."""
    tables, cuts = _with_few_cuts(layer_sums(costs, cluster, microbatches, replicas)._replace(late=np.array(LATE)))
    network, seen = Network(cluster), set[tuple[Stage, ...]]()
    for label in best_partitions(network):
        coarse, fine = _islands(network, label, len(tables.cut))
        placed = [
            _placed(steps, moves, chosen, islands.devices, cuts, mixed=mixed)
            for islands, moves, chosen, steps in _told(tables, coarse, fine, replicas, microbatches)
            for mixed in (False, True)[: 1 + (replicas == "whole")]
        ]
        if replicas == "split":
            alike = bool(network.alike(label).all())
            placed += _in_a_row(tables, fine, cuts, microbatches, alike=alike)
            if not alike and len(cluster.devices) <= UNEVEN:
                exact, routes = layer_sums(costs, cluster, microbatches, replicas), routes_of(cluster)
                placed += [better for stages in placed for better in best_placements(stages, cluster, routes, exact)]
        for stages in placed:
            if stages not in seen:
                seen.add(stages)
                yield Plan(costs.model.name, int(cuts[-1]), microbatches, stages, replicas, "spp_plus")


def _told(
    tables: LayerSums, coarse: Islands, fine: Islands, replicas: Replicas, microbatches: int
) -> Iterator[tuple[Islands, Moves, Ints, list[Step]]]:
    """What the program tells with blocks that are quickly searched, then with smaller ones near what that found.

    Smaller ones take long, and have not helped replicas that take microbatches whole.
    """
    least = 0.0
    for islands in (coarse, fine) if fine.block < coarse.block and replicas == "split" else (coarse,):
        if not _can_be_told(islands):
            continue
        moves, chosen = in_blocks(islands.sea, replicas, microbatches, islands.block)
        if islands is coarse:
            least, found = _from_the_least(tables, moves)
        else:
            found = [_stages(tables, moves, around * least) for around in AROUND]
        yield from ((islands, moves, chosen, steps) for steps in found if steps is not None)


def _in_a_row(
    tables: LayerSums, islands: Islands, cuts: Ints, microbatches: int, *, alike: bool
) -> Iterator[tuple[Stage, ...]]:
    """Where blocks are larger than a device: stages of any size, one after the other over the islands."""
    if islands.block == 1 or len(islands.devices) == 1:
        return
    moves = by_form(islands.sea, "split", microbatches)
    told = [steps for steps in _from_the_least(tables, moves, FINELY, NARROWER)[1] if steps is not None]
    for steps, devices in product(told, _rows_of(islands.devices)[: 1 if alike else None]):
        ends = np.cumsum(moves.size[[step.place for step in steps]]).tolist()
        yield tuple(
            Stage(int(cuts[step.start]), int(cuts[step.stop]), tuple(devices[begin:end]))
            for step, begin, end in zip(steps, [0, *ends], ends, strict=False)
        )


def _rows_of(islands: list[list[str]]) -> list[list[str]]:
    """Devices island after island: as they are, every other one first, and shuffled.

    Where devices are not alike, the way a message takes to another island depends on its ends: shared ways are slow.
    """
    rng = np.random.default_rng(0)
    orders = (
        islands,
        [island[1::2] + island[::2] for island in islands],
        [[island[i] for i in rng.permutation(len(island))] for island in islands],
    )
    return [[device for island in order for device in island] for order in orders]


def _with_few_cuts(tables: LayerSums) -> tuple[LayerSums, Ints]:
    """The same with at most `LAYERS` layers, and where those begin: the least cut in each stretch of equal work."""
    count = len(tables.cut) - 1
    if count <= LAYERS:
        return tables, np.arange(count + 1)
    work = tables.both[1] / (tables.both[1, -1] or 1.0)
    stretch = np.minimum((work * (LAYERS - 1)).astype(np.int64), LAYERS - 2)
    order = np.lexsort((tables.cut[1:count], stretch[1:count])) + 1
    least = order[np.unique(stretch[order], return_index=True)[1]]
    cuts = np.unique(np.concatenate([[0], least, [count]]))
    return tables.at(cuts), cuts


def _islands(network: Network, label: Ints, layers: int) -> tuple[Islands, Islands]:
    """With the smallest blocks of devices with which there are few ways to place stages, and not too many."""
    sea = island_model(network, label)
    names = [device.name for device in network.cluster.devices]
    devices = [[names[i] for i in np.flatnonzero(label == island)] for island in sea.order]
    coarse, fine = (Islands(sea, devices, _block(sea, work // layers)) for work in (WORK, MORE_WORK))
    return coarse, fine


def _block(sea: IslandModel, most: int) -> int:
    """The least with which there are at most so many ways to place stages; islands have several whole ones."""
    smallest, block = int(sea.sizes.min()), 1
    while block < smallest and _ways(sea, block) > most:
        block += 1
        while smallest % block:
            block += 1
    return block


def _can_be_told(islands: Islands) -> bool:
    """Whether states have a number each."""
    most: int = int(islands.sea.sizes.max()) // islands.block
    return bool((most + 1) ** (2 * len(islands.devices)) < 2**62)


def _ways(sea: IslandModel, block: int) -> int:
    """How many ways there are to have devices used, a stage on some, and the next on others."""
    sizes = [(size // block, many) for size, many in sea.groups]
    return math.prod(math.comb(math.comb(size + 3, 3) + many - 1, many) for size, many in sizes)


def _from_the_least(
    tables: LayerSums, moves: Moves, factors: tuple[float, ...] = ABOVE, narrow: int = NARROW
) -> tuple[float, list[list[Step] | None]]:
    """The least T that has a plan, and plans for it and for some that are greater."""
    low = float(tables.area[0]) / max(int(moves.left.max(initial=0) + moves.size.max()), 1)
    high, step = low, STEP
    while (found := _stages(tables, moves, high)) is None:
        low, high = high, high * (1 + step)
        step *= 1.5
    for _ in range(narrow):
        middle = (low + high) / 2
        between = _stages(tables, moves, middle)
        low, high, found = (middle, high, found) if between is None else (low, middle, between)
    return high, [found, *(_stages(tables, moves, factor * high) for factor in factors[1:])]


def _stages(tables: LayerSums, moves: Moves, target: float) -> list[Step] | None:
    """The stages of a plan that keeps every inequality for T = target."""
    worst, begins, places, came, origin = best_labels(tables, moves, target)
    layer = len(tables.cut) - 1
    state = int(np.argmin(worst[layer]))
    if not np.isfinite(worst[layer, state]):
        return None
    steps = list[Step]()
    while layer:
        start, place = int(begins[layer, state]), int(places[layer, state])
        move = int(came[start, place])
        steps.append(Step(start, layer, place, move))
        layer, state = start, int(origin[start, place])
    return steps[::-1]


def _placed(
    steps: list[Step], moves: Moves, chosen: Ints, islands: list[list[str]], cuts: Ints, *, mixed: bool
) -> tuple[Stage, ...]:
    """Each stage on the next free devices of its islands: one island after the other, or all in turn."""
    free = [list(devices) for devices in islands]
    real = list(range(len(islands)))  # the program's numbers of islands -> ours
    stages = []
    for step in steps:
        if step.move >= 0:
            real = _turned(real, moves.island_at_place[step.move])
        parts = [[]] * len(free)  # type: list[list[str]]
        for island, count in zip(real, chosen[step.place], strict=True):
            parts[island], free[island] = free[island][:count], free[island][count:]
        rounds = zip_longest(*parts) if mixed else parts
        devices = tuple(device for part in rounds for device in part if device is not None)
        stages.append(Stage(int(cuts[step.start]), int(cuts[step.stop]), devices))
        real = _turned(real, moves.island_at_state[step.place])
    return tuple(stages)


def _turned(real: list[int], turn: Ints) -> list[int]:
    turned = [0] * len(real)
    for number, island in zip(turn.tolist(), real, strict=True):
        turned[number] = island
    return turned
