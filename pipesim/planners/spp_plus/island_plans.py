"""Plans that keep the inequalities of the bound: stages that know on which islands their devices are.

    islands    12 devices on three servers, 4 behind a slow link
    search     the least T for which some plan keeps every inequality, with the stages of one that does
    plan       those stages on real devices; a server that only costs time stays idle

The bound assumes the best of everything, so a plan that keeps its inequalities may be slower than T. Therefore several
plans are tried, from the least T up: the later ones need less of links.
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
from pipesim.planners.spp.contention import routes_of
from pipesim.planners.spp_plus.labels import best_labels
from pipesim.planners.spp_plus.placements import best_placements

LAYERS = 64  # with more, only cuts are tried that are smaller than their neighbours
WORK, MORE_WORK = 2_000_000, 20_000_000  # layers times ways to place two stages: for a search, for a few values of T
LATE = (0.0, 0.45, 0.55, 0.65, 0.75, 0.85)  # as in `layer_sums`, fewer
STEP = 0.05  # relative: the first step of the search for the least T
FINE_ABOVE = (1.0, 1.003, 1.006, 1.01, 1.02, 1.03, 1.05, 1.08)  # the same where a stage has any number of devices
ANY_SIZE = 128  # devices up to which stages of any size are tried: all pairs of sizes take a minute on 256
UNEVEN = 32  # devices up to which placements are searched where devices are not alike
HALVINGS, FINE_HALVINGS = 3, 8  # of the interval that the search ends with
ABOVE = (1.0, 1.03, 1.07, 1.13, 1.22, 1.35)  # T of the plans, relative to the least T
BELOW = (0.86, 0.92, 0.98)  # T of plans with smaller blocks, relative to the least T with larger ones


class StageAtPlace(NamedTuple):
    """A stage as the search has it: its layers, its place, and the move that led there (-1 for the first)."""

    start: int
    stop: int
    place: int
    move: int


class Islands(NamedTuple):
    """A partition of the devices, which plans for all kinds of replicas have in common."""

    model: IslandModel
    devices: list[list[str]]  # of each island, in the order of the model
    alike: bool  # whether devices of an island are


class BlockedIslands(NamedTuple):
    """A partition of the devices into islands, from which stages take devices in blocks."""

    model: IslandModel
    devices: list[list[str]]  # of each island, in the order of the model
    block: int  # devices


def islands_of(cluster: Cluster) -> list[Islands]:
    """The best partitions of the devices."""
    network, names = Network(cluster), [device.name for device in cluster.devices]
    found = []
    for label in best_partitions(network):
        model = island_model(network, label)
        devices = [[names[i] for i in np.flatnonzero(label == island)] for island in model.order]
        found.append(Islands(model, devices, bool(network.alike(label).all())))
    return found


def island_plans(
    costs: Costs, cluster: Cluster, partitions: list[Islands], microbatches: int, replicas: Replicas
) -> Iterator[Plan]:
    """Different plans, for each of these partitions of the devices, from the least T up."""
    sums, cuts = _with_few_cuts(layer_sums(costs, cluster, microbatches, replicas)._replace(late=np.array(LATE)))
    seen = set[tuple[Stage, ...]]()
    for partition in partitions:
        coarse, fine = _in_blocks(partition, len(sums.cut))
        placed = [
            _placed(steps, moves, chosen, islands.devices, cuts, mixed=mixed)
            for islands, moves, chosen, steps in _found(sums, coarse, fine, replicas, microbatches)
            for mixed in (False, True)[: 1 + (replicas == "whole")]
        ]
        if replicas == "split":
            placed += _in_a_row(sums, fine, cuts, microbatches, alike=partition.alike)
            if not partition.alike and len(cluster.devices) <= UNEVEN:
                exact, routes = layer_sums(costs, cluster, microbatches, replicas), routes_of(cluster)
                placed += [better for stages in placed for better in best_placements(stages, cluster, routes, exact)]
        for stages in placed:
            if stages not in seen:
                seen.add(stages)
                yield Plan(costs.model.name, int(cuts[-1]), microbatches, stages, replicas, "spp_plus")


def _found(
    sums: LayerSums, coarse: BlockedIslands, fine: BlockedIslands, replicas: Replicas, microbatches: int
) -> Iterator[tuple[BlockedIslands, Moves, Ints, list[StageAtPlace]]]:
    """Stages from coarse blocks, then from finer ones with T near what the coarse ones reach.

    Fine blocks take long, and have not helped replicas that take microbatches whole.
    """
    least = 0.0
    for islands in (coarse, fine) if fine.block < coarse.block and replicas == "split" else (coarse,):
        if not _has_codes(islands):
            continue
        moves, chosen = in_blocks(islands.model, replicas, microbatches, islands.block)
        if islands is coarse:
            least, found = _from_the_least(sums, moves)
        else:
            found = [_stages(sums, moves, part * least) for part in BELOW]
        yield from ((islands, moves, chosen, steps) for steps in found if steps is not None)


def _in_a_row(
    sums: LayerSums, islands: BlockedIslands, cuts: Ints, microbatches: int, *, alike: bool
) -> Iterator[tuple[Stage, ...]]:
    """Where blocks are larger than a device: stages of any size, one after the other over the islands."""
    if islands.block == 1 or len(islands.devices) == 1 or int(islands.model.sizes.sum()) > ANY_SIZE:
        return
    moves = by_form(islands.model, "split", microbatches)
    found = [steps for steps in _from_the_least(sums, moves, FINE_ABOVE, FINE_HALVINGS)[1] if steps is not None]
    for steps, devices in product(found, _rows_of(islands.devices)[: 1 if alike else None]):
        ends = np.cumsum(moves.size[[step.place for step in steps]]).tolist()
        yield tuple(
            Stage(int(cuts[step.start]), int(cuts[step.stop]), tuple(devices[begin:end]))
            for step, begin, end in zip(steps, [0, *ends], ends, strict=False)
        )


def _rows_of(islands: list[list[str]]) -> list[list[str]]:
    """Devices island after island: as they are, every other one first, and shuffled.

    Where devices are not alike, messages to another island may share links, depending on their ends.
    """
    rng = np.random.default_rng(0)
    orders = (
        islands,
        [island[1::2] + island[::2] for island in islands],
        [[island[i] for i in rng.permutation(len(island))] for island in islands],
    )
    return [[device for island in order for device in island] for order in orders]


def _with_few_cuts(sums: LayerSums) -> tuple[LayerSums, Ints]:
    """At most `LAYERS` layers, merged from neighbours, and their ends: the least cut in each stretch of equal work."""
    count = len(sums.cut) - 1
    if count <= LAYERS:
        return sums, np.arange(count + 1)
    work = sums.both[1] / (sums.both[1, -1] or 1.0)
    stretch = np.minimum((work * (LAYERS - 1)).astype(np.int64), LAYERS - 2)
    order = np.lexsort((sums.cut[1:count], stretch[1:count])) + 1
    least = order[np.unique(stretch[order], return_index=True)[1]]
    cuts = np.unique(np.concatenate([[0], least, [count]]))
    return sums.at(cuts), cuts


def _in_blocks(islands: Islands, layers: int) -> tuple[BlockedIslands, BlockedIslands]:
    """With the smallest blocks of devices for which the search has at most `WORK`, and at most `MORE_WORK`, to do."""
    model, devices, _ = islands
    coarse, fine = (BlockedIslands(model, devices, _block(model, work // layers)) for work in (WORK, MORE_WORK))
    return coarse, fine


def _block(model: IslandModel, most: int) -> int:
    """The smallest block size with at most so many ways to place stages; it divides the size of the smallest island."""
    smallest, block = int(model.sizes.min()), 1
    while block < smallest and _ways(model, block) > most:
        block += 1
        while smallest % block:
            block += 1
    return block


def _has_codes(islands: BlockedIslands) -> bool:
    """Whether the states of the search have a number each, of 62 bits."""
    most: int = int(islands.model.sizes.max()) // islands.block
    return bool((most + 1) ** (2 * len(islands.devices)) < 2**62)


def _ways(model: IslandModel, block: int) -> int:
    """The number of ways to have some devices used, a stage on others, and the next stage on yet others."""
    sizes = [(size // block, many) for size, many in model.groups]
    return math.prod(math.comb(math.comb(size + 3, 3) + many - 1, many) for size, many in sizes)


def _from_the_least(
    sums: LayerSums, moves: Moves, factors: tuple[float, ...] = ABOVE, halvings: int = HALVINGS
) -> tuple[float, list[list[StageAtPlace] | None]]:
    """The least T for which a plan is found, and plans for it and for greater T."""
    low = float(sums.area[0]) / max(int(moves.left.max(initial=0) + moves.size.max()), 1)
    high, step = low, STEP
    while (found := _stages(sums, moves, high)) is None:
        low, high = high, high * (1 + step)
        step *= 1.5
    for _ in range(halvings):
        middle = (low + high) / 2
        between = _stages(sums, moves, middle)
        low, high, found = (middle, high, found) if between is None else (low, middle, between)
    return high, [found, *(_stages(sums, moves, factor * high) for factor in factors[1:])]


def _stages(sums: LayerSums, moves: Moves, target: float) -> list[StageAtPlace] | None:
    """The stages of a plan that keeps every inequality for T = target."""
    worst, begins, places, came, origin = best_labels(sums, moves, target)
    layer = len(sums.cut) - 1
    state = int(np.argmin(worst[layer]))
    if not np.isfinite(worst[layer, state]):
        return None
    steps = list[StageAtPlace]()
    while layer:
        start, place = int(begins[layer, state]), int(places[layer, state])
        move = int(came[start, place])
        steps.append(StageAtPlace(start, layer, place, move))
        layer, state = start, int(origin[start, place])
    return steps[::-1]


def _placed(
    steps: list[StageAtPlace], moves: Moves, chosen: Ints, islands: list[list[str]], cuts: Ints, *, mixed: bool
) -> tuple[Stage, ...]:
    """Each stage on the next free devices of its islands: one island after the other, or all in turn."""
    free = [list(devices) for devices in islands]
    real = list(range(len(islands)))  # number of an island in the search -> in `islands`
    stages = []
    for step in steps:
        if step.move >= 0:
            real = _renumbered(real, moves.island_at_place[step.move])
        parts = [[]] * len(free)  # type: list[list[str]]
        for island, count in zip(real, chosen[step.place], strict=True):
            parts[island], free[island] = free[island][:count], free[island][count:]
        rounds = zip_longest(*parts) if mixed else parts
        devices = tuple(device for part in rounds for device in part if device is not None)
        stages.append(Stage(int(cuts[step.start]), int(cuts[step.stop]), devices))
        real = _renumbered(real, moves.island_at_state[step.place])
    return tuple(stages)


def _renumbered(islands: list[int], numbers: Ints) -> list[int]:
    """The islands in the order of their new numbers."""
    found = [0] * len(islands)
    for number, island in zip(numbers.tolist(), islands, strict=True):
        found[number] = island
    return found
