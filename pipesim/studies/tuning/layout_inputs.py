"""What layouts of one simulation are priced with: cluster, traces and costs at their widths, and the devices of ranks.

Cluster, traces and costs are those of a sweep's worker, which keeps them: the times of a model are computed once for
each tensor width and size of microbatches.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import BLOCK
from pipesim.core.teams import Team, teams_of, teams_of_ranks
from pipesim.lowering import Options
from pipesim.lowering.setup import GRANULARITIES, RECOMPUTES
from pipesim.studies import setups
from pipesim.studies.simulation import MODEL, Simulation
from pipesim.studies.sources import COMPUTED_WIDTHS
from pipesim.studies.sweep.worker import Worker
from pipesim.studies.tuning.layout_points import kinds_of_teams, point_of
from pipesim.studies.tuning.space import (
    BY_STAGE,
    LayoutChoice,
    Room,
    orders_of,
)
from pipesim.studies.tuning.width_inputs import WidthInputs

_RECOMPUTING: dict[tuple[str, str], Options] = {
    (how, of): Options(recompute=how, granularity=of) for how in RECOMPUTES for of in GRANULARITIES
} | {(BY_STAGE, of): Options(granularity=of) for of in GRANULARITIES}  # what is done again is added


class LayoutInputs:
    """Cluster, traces and costs of the layouts of one simulation, and which devices their ranks have."""

    def __init__(self, simulation: Simulation, worker: Worker, global_batch: int) -> None:
        self.simulation, self.global_batch, self._worker = simulation, global_batch, worker
        self._inputs = functools.lru_cache(None)(self._make_inputs)
        self._options = functools.lru_cache(None)(self._make_options)
        self._order = functools.lru_cache(None)(self._make_order)
        self._order_of_ranks = functools.lru_cache(None)(self._make_order_of_ranks)
        self.memory = functools.lru_cache(None)(self._make_memory)
        self.least_part = functools.lru_cache(None)(self._make_least_part)

    def point(
        self, one: LayoutChoice, blocks: tuple[int, ...] | None = None, redone: tuple[int, ...] | None = None
    ) -> Simulation:
        """The simulation of a layout."""
        return point_of(self.simulation, one, blocks, redone)

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The cluster, which is the same for all layouts."""
        return self._worker.inputs(self._first(frozenset()))[0]

    @functools.cached_property
    def _space(self) -> Room:
        return self.room(frozenset())

    @property
    def widths(self) -> tuple[int, ...]:
        """The tensor widths that teams may have."""
        return tuple(self._space.teams)

    @property
    def blocks(self) -> int:
        """What is divided over stages."""
        return self._space.blocks

    def room(self, given: frozenset[str]) -> Room:
        """What the sizes of layouts depend on."""
        chosen = self.simulation
        cluster, trace, costs = self._worker.inputs(self._first(given))
        computed = trace.command.startswith(MODEL)
        widths = sorted({each.tensor for each in trace.widths})
        if computed or chosen.scale_widths:
            widths = list(COMPUTED_WIDTHS)
        if "tensor" in given and chosen.tensor:
            widths = [int(chosen.tensor)]
        elif computed or chosen.scale_widths:
            widths = [width for width in widths if self._is_possible(replace(self._first(given), tensor=width))]
        teams = {width: orders_of(kinds) for width in widths if (kinds := kinds_of_teams(cluster, width))}
        if not teams:
            raise InputError(f"tensor = {widths[0]} found; cluster {cluster.name!r} has no team of so many GPUs")
        blocks = setups.blocks_in(chosen, costs)
        units = costs.model if blocks is None else blocks.costs.model
        count = sum(layer.kind == BLOCK for layer in units.layers) or len(units)
        sizes = () if computed else tuple(sorted({int(n) for n in trace.layers["microbatch_size"]}))
        in_blocks = chosen.granularity == BLOCK and any(layer >= 0 for layer in costs.model.blocks)
        return Room(teams, count, sizes, self.global_batch, computed, in_blocks)

    def _is_possible(self, point: Simulation) -> bool:
        """Whether the model can be divided by a width; others need not be searched."""
        try:
            return bool(self._worker.inputs(point))
        except InputError:
            return False

    def _first(self, given: frozenset[str]) -> Simulation:
        size = self.simulation.microbatch_size if "microbatch_size" in given else None
        return replace(self.simulation, microbatch_size=size)

    def teams(self, tensor: int) -> int:
        """How many teams of this width there are."""
        return len(self._order(tensor, ""))

    def inputs(self, one: LayoutChoice) -> WidthInputs:
        """Cluster, trace and costs of a layout; where its ranks differ in width, of the first."""
        return self._inputs(one.tensor, one.microbatch_size, one.sequence_parallel)

    def before(self, one: LayoutChoice, kinds: Sequence[str]) -> list[Floats]:
        """For each rank, on devices of these kinds, what precedes each layer if it were all on this rank."""
        known = {
            (width, kind): self.inputs(replace(one, tensor=width)).before(self.recomputing(one), kind)
            for width, kind in dict.fromkeys(zip(one.tensors, kinds, strict=True))
        }
        return [known[of_rank] for of_rank in zip(one.tensors, kinds, strict=True)]

    def costs(self, one: LayoutChoice, tensors: Iterable[int]) -> Costs:
        """The costs of a layout at all of these widths, for the first of them."""
        first, *others = (self.inputs(replace(one, tensor=width)).costs for width in dict.fromkeys(tensors))
        return replace(first, others={each.widths: each for each in others}) if others else first

    def options(self, one: LayoutChoice) -> Options:
        """The options of a layout."""
        key = (one.tensor, 1, 1, 1, one.microbatch_size, one.recompute, one.sharding, one.scheduler, "")
        return self._options(LayoutChoice(*key, one.sequence_parallel))

    def recomputing(self, one: LayoutChoice) -> Options:
        """Options that differ only where what layers take differs, so that few are kept."""
        return _RECOMPUTING[one.recompute, self.simulation.granularity]

    def pipelines(self, one: LayoutChoice) -> tuple[tuple[str, ...], ...]:
        """The kinds of device of each rank, of pipelines that differ in them."""
        kinds, d = [kind for _, kind in self.order_of(one)], one.data
        if len(set(kinds)) == 1:
            return ((kinds[0],) * one.pipeline,)
        ranks = range(one.pipeline)
        return tuple(dict.fromkeys(tuple(kinds[n * d + k] for n in ranks) for k in range(d)))

    def kinds(self, one: LayoutChoice) -> Counter[str]:
        """How many GPUs of each kind a layout uses."""
        used = self.order_of(one)[: one.pipeline * one.data]
        return Counter(kind for team, kind in used for _ in team)

    def ranks(self, one: LayoutChoice) -> list[tuple[str, ...]]:
        """The first devices of the teams of one pipeline of each sort."""
        order, found = self.order_of(one), dict[tuple[str, ...], tuple[str, ...]]()
        for k in range(one.data):
            places = [order[n * one.data + k] for n in range(one.pipeline)]
            found.setdefault(tuple(kind for _, kind in places), tuple(team[0] for team, _ in places))
        return list(found.values())

    def order_of(self, one: LayoutChoice) -> list[tuple[Team, str]]:
        """The teams in the order in which ranks take them, and their kinds."""
        if not one.widths or one.planner:
            return self._order(one.tensor, one.kinds)
        return self._order_of_ranks(one.tensors, one.data, one.kinds)

    def rate(self, one: LayoutChoice, other: int) -> float:
        """Bytes per second between the first members of the first team and another."""
        order = self.order_of(one)
        ends = order[0][0][0], order[min(other, len(order) - 1)][0][0]
        if ends not in self._rates:
            self._rates[ends] = self._inputs_of_any(one.tensor).cluster.route(*ends).bandwidth
        return self._rates[ends]

    @functools.cached_property
    def _rates(self) -> dict[tuple[str, str], float]:
        return {}

    def copies(self, one: LayoutChoice) -> int:
        """Over how many replicas what is sharded is divided."""
        return 1 if one.sharding == "none" else min(self.simulation.sharding_size or one.data, one.data)

    def _inputs_of_any(self, tensor: int) -> WidthInputs:
        samples = self.simulation.microbatch_size or self._smallest
        return self._inputs(tensor, samples, False)

    @functools.cached_property
    def _smallest(self) -> int:
        return min(self._space.sizes, default=1)

    def _make_inputs(self, tensor: int, samples: int, divided: bool) -> WidthInputs:  # noqa: FBT001 - a key
        point = self.point(LayoutChoice(tensor, 1, 1, 1, samples, "none", "none", "one_f_one_b", "", divided))
        cluster, trace, costs = self._worker.inputs(point)
        return WidthInputs.of(cluster, trace, costs, setups.blocks_in(point, costs))

    def _make_options(self, one: LayoutChoice) -> Options:
        return setups.options_of(self.point(one), self.inputs(one).trace)

    def _make_order(self, tensor: int, kinds: str) -> list[tuple[Team, str]]:
        """Teams node by node, as planner megatron numbers them, those of the first kinds first; and their kinds."""
        cluster = self._inputs_of_any(tensor).cluster
        nodes: dict[str, list[tuple[Team, str]]] = {}
        for team in teams_of(cluster, tensor):
            first = cluster.device(team[0])
            nodes.setdefault(first.node, []).append((team, first.kind))
        place = {kind: n for n, kind in enumerate(kinds.split(","))}
        return sorted((team for each in nodes.values() for team in each), key=lambda one: place.get(one[1], len(place)))

    def _make_order_of_ranks(self, widths: tuple[int, ...], data: int, kinds: str) -> list[tuple[Team, str]]:
        cluster = self._inputs_of_any(widths[0]).cluster
        every = teams_of_ranks(cluster, widths, data, kinds.split(","))
        return [(team, cluster.device(team[0]).kind) for of_rank in every for team in of_rank]

    def _make_memory(self, tensor: int) -> dict[str, int]:
        return {device.kind: device.memory for device in self._inputs_of_any(tensor).cluster.devices}

    def _make_least_part(self, tensor: int) -> float:
        """What part of its time a task takes at the least: a scenario may have devices that are faster."""
        chosen = self._worker.known(self.simulation)
        if chosen.scenario is None and chosen.slow is None:
            return 1.0
        scenario = setups.scenario_of(replace(chosen, background=None), self._inputs_of_any(tensor).cluster)
        return prod(min(1.0, slow.factor) for slow in scenario.slow)
