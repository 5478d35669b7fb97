"""What is known of a layout before it is simulated: cuts, a lower bound, an estimate, and whether it fits in memory."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import PipesimError
from pipesim.core.plan import Plan, Stage
from pipesim.lowering import Setup
from pipesim.lowering.memory import byte_factors_of, peak_memory
from pipesim.studies.ordering import ordered_with
from pipesim.studies.simulation import Simulation
from pipesim.studies.sweep.worker import Worker
from pipesim.studies.tuning.layout_inputs import LayoutInputs
from pipesim.studies.tuning.pipeline_bounds import Stages, balanced, in_flight
from pipesim.studies.tuning.recomputed_blocks import StageTables
from pipesim.studies.tuning.space import (
    BALANCED,
    BY_STAGE,
    EVEN,
    SAME_IN_STAGES,
    SPLITTING,
    WAVES,
    LayoutChoice,
)

_ENOUGH = 4  # times the ranks: schedules keep as much with so many microbatches as with any greater number
ROUNDING = 1e-6  # relative: more than whole nanoseconds and sums of floating point can take
_ROUNDS = 8  # in which more blocks are done again until all stages fit
_WAIT = ("blocking", "paired", "sequential")  # transfers that hold devices


class Priced(NamedTuple):
    """A layout with what is known of it before it is simulated."""

    candidate: LayoutChoice
    blocks: tuple[int, ...] | None  # of each stage, where cuts are not even
    bound: float  # seconds
    estimate: float
    redone: tuple[int, ...] | None = None  # blocks of each stage that are done again, where stages differ


class Pricing(LayoutInputs):
    """Prices layouts of one simulation."""

    def __init__(self, simulation: Simulation, worker: Worker, global_batch: int) -> None:
        super().__init__(simulation, worker, global_batch)
        self._even = functools.lru_cache(None)(self._make_even)
        self._unlimited = functools.lru_cache(None)(self._make_unlimited)
        self._stages = functools.lru_cache(None)(self._make_stages)
        self._stage_tables = functools.lru_cache(16)(self._make_stage_tables)
        self._peak = functools.lru_cache(None)(self._make_peak)

    @property
    def _same_in_stages(self) -> bool:
        """Whether the framework has one number of blocks for all stages."""
        return self.simulation.framework in SAME_IN_STAGES

    def fitted(self, priced: Priced) -> Priced | None:
        """The layout with as many blocks done again as let every stage fit; None if it does not fit even so."""
        if not self._may_fit(priced):
            return None
        one, bounds = priced.candidate, self._cut(priced.candidate)[0] or ()
        most, redone = self.blocks_of(one), priced.redone or (0,) * one.stages
        for _ in range(_ROUNDS):
            made = priced._replace(redone=redone)
            peaks = [(names, peak, memory) for names, peak, memory in self._peaks(made)]
            excess = {name: max(0.0, float(over)) for names, peak, memory in peaks
                      for name, over in zip(names, peak - memory, strict=True)}  # fmt: skip
            over = [max(excess.get(ranks[n], 0.0) for ranks in self.ranks(one)) for n in range(one.pipeline)]
            if not any(over):
                return self._with_redone(made, bounds)
            more = self._more(one, redone, over, most)
            if more == redone:
                return None
            redone = more
        return None

    def _more(
        self, one: LayoutChoice, redone: tuple[int, ...], over: Sequence[float], most: Sequence[int]
    ) -> tuple[int, ...]:
        """More blocks in the stages of ranks that hold too much, the first stages first."""
        tables, found = self._stage_tables(replace(one, cuts=""), self.pipelines(one)[0]), list(redone)
        for rank, bytes_ in enumerate(over):
            each = tables.freed[rank][-1] / max(tables.blocks[-1], 1)
            left = max(1, round(bytes_ / each + 0.5)) if bytes_ and each > 0 else 0
            for n in range(rank, len(found), one.pipeline):
                more = min(left, most[n] - found[n])
                found[n], left = found[n] + more, left - more
        return self._alike(found, most)

    def _alike(self, counts: Sequence[int], most: Sequence[int]) -> tuple[int, ...]:
        """The same number in all stages, where the framework has one."""
        return (max(counts),) * len(most) if self._same_in_stages else tuple(counts)

    def is_whole(self, priced: Priced) -> bool:
        """Whether all blocks of all stages are done again, as with full recomputation."""
        most = self.blocks_of(priced.candidate)
        return all(count >= blocks for count, blocks in zip(priced.redone or (), most, strict=True))

    def priced(self, one: LayoutChoice) -> Priced | None:
        """Cuts, bound and estimate; None if its balanced cuts are the even ones, or there are none that fit."""
        bounds, blocks = self._cut(one)
        if bounds is None:
            return None
        kinds = self.pipelines(one)
        microbatches = one.microbatches(self.global_batch)
        name = one.scheduler.partition("(")[0]
        how = {"splits": name in SPLITTING, "anywhere": name in WAVES}
        key = replace(one, data=1, sharding="", cuts="")
        stages = [self._stages(key, bounds, each) for each in kinds]
        if one.recompute == BY_STAGE:
            places = np.searchsorted(self.inputs(one).cuts, bounds).tolist()
            redone = self._alike(
                self._stage_tables(replace(one, cuts=""), kinds[0]).counts(places), self.inputs(one).counts_at(bounds)
            )
            if not any(redone):
                return None
            return self._with_redone(Priced(one, blocks, 0.0, 0.0, redone), bounds)
        bound = max(each.bound(microbatches, **how) for each in stages) * self.least_part(one.tensor)
        return Priced(one, blocks, bound, bound + self._exchanges(one, stages[0], bounds))

    def _with_redone(self, priced: Priced, bounds: tuple[int, ...]) -> Priced:
        """The layout with the bound and the estimate that the blocks leave it which are done again."""
        one, redone = priced.candidate, priced.redone or ()
        key, name = replace(one, data=1, sharding="", cuts=""), one.scheduler.partition("(")[0]
        places, found = np.searchsorted(self.inputs(one).cuts, bounds).tolist(), []
        for kinds in self.pipelines(one):
            stages, tables = self._stages(key, bounds, kinds), self._stage_tables(replace(one, cuts=""), kinds)
            again = np.array(tables.again_seconds(places, redone))
            found.append(replace(stages, backward=stages.backward + again))
        microbatches, splits = one.microbatches(self.global_batch), name in SPLITTING
        bound = max(each.bound(microbatches, splits=splits, anywhere=False) for each in found)
        bound *= self.least_part(one.tensor)
        return priced._replace(bound=bound, estimate=bound + self._exchanges(one, found[0], bounds))

    def blocks_of(self, one: LayoutChoice) -> tuple[int, ...]:
        """The blocks of each stage."""
        bounds, counts = self._cut(one)
        return counts if counts is not None else self.inputs(one).counts_at(bounds or ())

    def neighbours(self, one: LayoutChoice) -> list[LayoutChoice]:
        """The same layout with one block more in a stage, and one less in the stage beside it."""
        if one.pipeline <= 1 or one.scheduler.partition("(")[0] in WAVES:
            return []
        blocks = self.blocks_of(one)
        found = []
        for n, step in product(range(len(blocks) - 1), (1, -1)):
            moved = [*blocks[:n], blocks[n] + step, blocks[n + 1] - step, *blocks[n + 2 :]]
            if min(moved) > 0:
                found.append(replace(one, cuts=" ".join(map(str, moved))))
        return found

    def fits(self, priced: Priced) -> bool:
        """Whether every device of one pipeline of each sort holds what it must."""
        return self._may_fit(priced) and all((peak <= memory).all() for _, peak, memory in self._peaks(priced))

    def peak(self, priced: Priced) -> float:
        """The most bytes on a device of one pipeline of each sort."""
        return max((float(peak.max()) for _, peak, _ in self._peaks(priced)), default=0.0)

    def _peaks(self, priced: Priced) -> Iterator[tuple[tuple[str, ...], Ints, Floats]]:
        """Devices of one pipeline of each sort, their peaks and memory; of none where the schedule refuses them."""
        one, cluster = priced.candidate, self.inputs(priced.candidate).cluster
        for names in self.ranks(one):
            found = self._peak(one, names, priced.redone)
            if found is not None:
                memory = [cluster.device(name).memory or np.inf for name in found[0]]
                yield found[0], found[1], np.array(memory, np.float64)

    def _cut(self, one: LayoutChoice) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """The layers where stages begin and end, and the blocks of each where cuts are not even."""
        even = self._even(replace(one, data=1, recompute="", sharding="", scheduler="", cuts=""))
        if one.cuts == EVEN:
            return even, None
        if one.cuts != BALANCED:
            counts = tuple(map(int, one.cuts.split()))
            return tuple(self.inputs(one).stated(counts)), counts
        cut = self._balanced(one, self.pipelines(one)[0])
        return (None, None) if cut is None or cut == even else (cut, self.inputs(one).counts_at(cut))

    def _make_even(self, one: LayoutChoice) -> tuple[int, ...]:
        return tuple(self.inputs(one).even(one.stages))

    def _balanced(self, one: LayoutChoice, kinds: tuple[str, ...]) -> tuple[int, ...] | None:
        """Cuts whose slowest stage is fastest; of those with which all stages fit in memory, where there are any."""
        if one.recompute == BY_STAGE:
            found = self._stage_tables(replace(one, cuts=""), kinds).balanced(one.stages)
            return None if found is None else tuple(self.inputs(one).cuts[found].tolist())
        free = self._unlimited(replace(one, data=1, sharding="", scheduler="", cuts=""), kinds)
        inputs, options, p = self.inputs(one), self.options(one), one.pipeline
        factor = byte_factors_of(options, inputs.costs.model.precision, self.copies(one))[0]
        keeps = in_flight(one.scheduler, p, one.interleave, one.microbatches(self.global_batch)) / one.interleave
        memory = self.memory(one.tensor)
        room = [
            (memory[kind] - options.reserve - options.workspace) / one.interleave if memory[kind] else np.inf
            for kind in kinds
        ]
        seconds, held = self._before_cuts(one, kinds, factor, keeps)
        if free is None or all(
            held[n % p][b] - held[n % p][a] <= room[n % p] for n, (a, b) in enumerate(pairwise(free))
        ):
            cut = free
        else:
            cut = balanced(seconds, held, room, one.stages) or free
        return None if cut is None else tuple(inputs.cuts[cut].tolist())

    def _make_stage_tables(self, one: LayoutChoice, kinds: tuple[str, ...]) -> StageTables:
        """What precedes each cut with nothing done again, and what doing blocks again takes and frees."""
        inputs, options = self.inputs(one), self.options(one)
        factor = byte_factors_of(options, inputs.costs.model.precision, self.copies(one))[0]
        keeps = in_flight(one.scheduler, one.pipeline, one.interleave, one.microbatches(self.global_batch))
        keeps, memory = keeps / one.interleave, self.memory(one.tensor)
        none, full = (self._before_cuts(replace(one, recompute=how), kinds, factor, keeps) for how in ("none", "full"))
        again = [np.subtract(twice, once).tolist() for once, twice in zip(none[0], full[0], strict=True)]
        freed = [np.subtract(more, less) for more, less in zip(none[1], full[1], strict=True)]
        room = [
            (memory[kind] - options.reserve - options.workspace) / one.interleave if memory[kind] else np.inf
            for kind in kinds
        ]
        restored = [float(np.diff(row).max(initial=0.0) / keep) for row, keep in zip(freed, keeps, strict=True)]
        return StageTables(
            none[0], none[1], again, [row.tolist() for row in freed], inputs.counts.tolist(), room, restored
        )

    def _make_unlimited(self, one: LayoutChoice, kinds: tuple[str, ...]) -> list[int] | None:
        seconds, held = self._before_cuts(one, kinds, 0.0, np.zeros(one.pipeline))
        return balanced(seconds, held, [np.inf] * one.pipeline, one.stages)

    def _before_cuts(
        self, one: LayoutChoice, kinds: tuple[str, ...], factor: float, keeps: Floats
    ) -> tuple[list[list[float]], list[list[float]]]:
        """For each rank, seconds and bytes of what precedes each cut, if it were all on this rank."""
        inputs = self.inputs(one)
        every = self.before(one, kinds)
        rows = {id(each): each[:, inputs.cuts] for each in every}  # of a few widths and kinds, for many ranks
        both = {place: (each[0] + each[1]).tolist() for place, each in rows.items()}
        of, pairs = [id(each) for each in every], zip(every, keeps.tolist(), strict=True)
        held = [(rows[id(each)][2] * factor + rows[id(each)][3] * keep).tolist() for each, keep in pairs]
        return [both[place] for place in of], held

    def _make_stages(self, one: LayoutChoice, bounds: tuple[int, ...], kinds: tuple[str, ...]) -> Stages:
        of, p = self.before(one, kinds), one.pipeline
        parts = np.array([of[n % p][:, b] - of[n % p][:, a] for n, (a, b) in enumerate(pairwise(bounds))]).T
        return Stages(parts[0], parts[1], parts[2], parts[3], one.pipeline)

    def _may_fit(self, priced: Priced) -> bool:
        """Whether parameters and what a schedule keeps at the least leave room; quick, and never wrong where not."""
        one, options = priced.candidate, self.options(priced.candidate)
        inputs, p = self.inputs(one), one.pipeline
        bounds = self._cut(one)[0]
        if bounds is None or one.scheduler.partition("(")[0] in WAVES:
            return True
        factor, frozen = byte_factors_of(options, inputs.costs.model.precision, self.copies(one))
        factor -= frozen if inputs.costs.model.is_partly_frozen else 0.0
        keeps = in_flight(one.scheduler.partition("(")[0], p, one.interleave, one.microbatches(self.global_batch))
        memory, how = self.memory(one.tensor), "full" if one.recompute == BY_STAGE else one.recompute
        for kinds in self.pipelines(one):
            stages = self._stages(replace(one, data=1, sharding="", cuts="", recompute=how), bounds, kinds)
            least = stages.by_rank(stages.parameters) * factor + stages.least_kept(keeps) + options.reserve
            room = np.array([memory[kind] or np.inf for kind in kinds])
            if (least > room + 1).any():
                return False
        return True

    def _make_peak(
        self, one: LayoutChoice, names: tuple[str, ...], redone: tuple[int, ...] | None
    ) -> tuple[tuple[str, ...], Ints] | None:
        """Devices of one pipeline, and their peak bytes; None where the schedule refuses the plan."""
        inputs, options, p = self.inputs(one), self.options(one), one.pipeline
        costs = self.costs(one, one.tensors)
        options = options if redone is None else replace(options, recompute_blocks=redone)
        bounds = self._cut(one)[0] or ()
        m = one.microbatches(self.global_batch)
        least = _ENOUGH * p
        stages = tuple(Stage(a, b, (names[n % p],)) for n, (a, b) in enumerate(pairwise(bounds)))
        team_of = {team[0]: team for team, _ in self.order_of(one)}
        plan = Plan(
            inputs.costs.model.name,
            len(inputs.costs.model),
            m if m <= least or one.scheduler.startswith("gpipe") else least + m % p,
            stages,
            "whole",
            teams=tuple(team_of[name] for name in names if len(team_of[name]) > 1),
        )
        try:
            made, schedule = ordered_with(one.scheduler, plan, costs, inputs.cluster, options, blocks=inputs.blocks)
        except PipesimError:
            return None
        return made.devices, peak_memory(Setup(made, schedule, costs, inputs.cluster, options), one.data)

    def _exchanges(self, one: LayoutChoice, stages: Stages, bounds: tuple[int, ...]) -> float:
        """Seconds of messages and of the sum of gradients, with nothing else on their links."""
        inputs, options = self.inputs(one), self.options(one)
        order, found = self.order_of(one), 0.0
        if one.pipeline > 1:
            size = float(inputs.costs.model.cut_bytes[np.array(bounds[1:-1]) - 1].max())
            hop = size / (one.tensor if options.scatter_sends else 1) / self.rate(one, one.data)
            passed = one.stages - 1
            if options.transfers in _WAIT:
                passed += one.microbatches(self.global_batch) * one.interleave
            found += 2 * hop * passed
        if one.data > 1 and len(order) > 1 and not options.gradient_overlap:
            gradients = 1.0 if options.gradient_bytes is None else options.gradient_bytes
            size = float(stages.by_rank(stages.parameters).max()) * (gradients + 1) * (one.data - 1) / one.data
            found += size / self.rate(one, one.data - 1)
        return found
