"""The search for the best layout: bounds and memory leave layouts out, simulations decide between the others.

space ──> cuts, bounds, estimates ──> in the order of estimates: ┬─ bound above the best: left out
                                                                ├─ does not fit in memory: left out
                                                                └─ simulated, so many at a time

Layouts are simulated in rounds of the same size, whatever the number of workers, and bounds are compared with the best
of the rounds before: so the result depends on the space and the budget alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from math import isfinite, isinf
from pathlib import Path
from typing import Any

from pipesim.base.checks import check_at_least
from pipesim.base.errors import DoesNotFitError, InputError, RefusedError, quoted, within
from pipesim.core import limits
from pipesim.studies.goodput import Failures
from pipesim.studies.origins import headline
from pipesim.studies.simulation import FIELDS, Simulation
from pipesim.studies.sources import cluster_of
from pipesim.studies.store import Store
from pipesim.studies.store.records import Result
from pipesim.studies.sweep import grid, points
from pipesim.studies.sweep import workers as crews
from pipesim.studies.sweep.inputs import Inputs
from pipesim.studies.sweep.worker import Outcome, Worker, WorkerConfig
from pipesim.studies.sweep.workers import Crew
from pipesim.studies.tuning import rank_widths
from pipesim.studies.tuning.layout_prices import Priced, Pricing
from pipesim.studies.tuning.lost_parts import without
from pipesim.studies.tuning.open_bounds import open_bound, planned
from pipesim.studies.tuning.planner_layouts import MOST_GPUS, NONE, WIDTHS, layouts_of, planners_for
from pipesim.studies.tuning.space import BY_STAGE, NAMES, SPLITTING, LayoutChoice, Space
from pipesim.studies.tuning.tuning_results import Counts, TuningResult, TuningRow
from pipesim.studies.tuning_options import TuningOptions, prices_of, time_of

ROUND = 8  # layouts that are simulated before bounds are compared again
_MOVED = 3  # layouts whose cuts are moved by a block
_SPLIT, _NEAR = 4, 1.25  # plans of other planners, near the best, that are tried with schedules that split backwards
ITERATIONS = 40  # drawn for each layout under the objective p95, where none are given
METRICS = (
    "iteration_time_s", "tokens_per_s_per_gpu", "mfu", "bubble_idle_share", "exposed_communication_s",
    "exposed_all_reduce_s", "peak_memory_bytes", "fits_memory", "devices_in_plan", "global_batch",
    "throughput_samples_per_s", "measured_low_s", "measured_high_s",
)  # fmt: skip
_NAMED = ("trace", "architecture", "cluster", "lengths", "scenario", "background")  # values that may be made in Python
REPLAYED = ("replay_p50_s", "replay_p95_s", "replay_mean_s")
Watch = Callable[[int, int], None]
"""Called with how many layouts were simulated, and how many may be at most."""


@dataclass(slots=True)
class _SearchState:
    """What was found so far."""

    rows: list[TuningRow] = field(default_factory=list)
    tried: int = 0
    memory: int = 0
    bound: int = 0
    left: list[Priced] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    refused: int = 0
    same: int = 0  # as another layout
    planned: list[float] = field(default_factory=list)  # what no plan has less of that planners were asked for

    @property
    def best(self) -> float:
        """The least value of a layout that fits."""
        return min((row.value for row in self.rows), default=float("inf"))

    @property
    def ranked(self) -> list[TuningRow]:
        """The layouts that fit, the best first."""
        return sorted(self.rows, key=lambda row: (row.value, row.memory, row.candidate))


def tuned(
    simulation: Simulation, given: frozenset[str], options: TuningOptions, watch: Watch | None = None
) -> TuningResult:
    """The best layouts of a simulation, of which these fields are given and all others are searched."""
    times = {name: time_of(getattr(options, name)) for name in ("mtbf", "restart", "checkpoint")}
    options = replace(options, price=prices_of(options.price), **times)
    options.check()
    simulation = _checked(simulation, given, options)
    if options.lost is not None:
        simulation = replace(simulation, cluster=without(cluster_of(simulation), options.lost), device=None)
    metrics = METRICS + (REPLAYED if options.objective == "p95" else ())
    metrics += ("bytes_out_of_nodes",) if options.price_out else ()
    pricing, worker, inputs = prepared(simulation, metrics)
    return _Search(simulation, options, pricing, worker, inputs, metrics).result(given, watch)


def prepared(simulation: Simulation, metrics: Sequence[str]) -> tuple[Pricing, Worker, Inputs]:
    """What prices layouts of a simulation, what simulates them, and what all names mean."""
    simulation, inputs = _with_names(simulation)
    config = WorkerConfig(inputs.values, tuple(metrics), simulation.engine, simulation.host_memory, simulation.fold)
    worker = Worker(config)
    return Pricing(simulation, worker, simulation.global_batch or 0), worker, inputs


def _checked(simulation: Simulation, given: frozenset[str], options: TuningOptions) -> Simulation:
    """The simulation with what an objective needs; refused where what is searched is given in another way."""
    if simulation.global_batch is None:
        raise InputError("global_batch is missing: the samples of an iteration, as in --global-batch 1024")
    check_at_least("global_batch", simulation.global_batch)
    for name, instead in (
        ("plan", "pipesim simulate takes a plan"),
        ("planner", "the cuts of layers are searched; pipesim compare has planners side by side"),
        ("recompute_blocks", "recomputation is searched"),
        ("microbatches", "their number follows from --global-batch and --microbatch-size"),
    ):
        if name in given:
            raise InputError(f"{name} found; {instead}")
    if isinstance(simulation.tensor, str):
        raise InputError(
            f"tensor = {quoted(str(simulation.tensor))} found; one width, or none, was expected: where devices differ, "
            "tune searches widths of ranks itself, and pipesim simulate takes them"
        )
    for name in ("context", "expert"):
        if (getattr(simulation, name) or 1) > 1:
            raise InputError(
                f"{name} = {getattr(simulation, name)} found; tune searches tensor, pipeline and data widths: "
                f"simulate layouts with {name} widths one by one, from a trace that was recorded at them"
            )
    if options.objective == "p95" and simulation.iterations is None:
        return replace(simulation, iterations=ITERATIONS)
    return simulation


def _with_names(simulation: Simulation) -> tuple[Simulation, Inputs]:
    """The simulation with names in place of values that were made in Python, and what all names mean."""
    inputs, names = Inputs(Path("tune")), dict[str, Any]()
    for name in _NAMED:
        value = getattr(simulation, name)
        if value is None:
            continue
        if isinstance(value, str | Path):
            names[name] = str(value)
            inputs.gather(name, str(value))
        else:
            names[name] = f"<{name}>"
            inputs.values[f"{name} <{name}>"] = value
    return replace(simulation, **names), inputs


class _Search:
    """One search."""

    def __init__(  # noqa: PLR0917 - what a search needs, made in one place
        self,
        simulation: Simulation,
        options: TuningOptions,
        pricing: Pricing,
        worker: Worker,
        inputs: Inputs,
        metrics: Sequence[str],
    ) -> None:
        self._simulation, self._options, self._pricing = pricing.simulation, options, pricing
        self._named_simulation = simulation
        self._named = {name: getattr(simulation, name) for name in _NAMED}
        times = (float(value or 0) for value in (options.mtbf, options.restart, options.checkpoint))
        self._failures = None if options.mtbf is None else Failures(*times)
        self._worker, self._inputs, self._metrics = worker, inputs, tuple(metrics)
        self._found = _SearchState()

    def result(self, given: frozenset[str], watch: Watch | None) -> TuningResult:
        """Search, and sort what was found."""
        room = self._pricing.room(given)
        space = Space.of(self._simulation, given, fewer=self._options.objective in {"tokens/s/gpu", "cost"})
        every = self._within(space.candidates(room))
        priced = sorted((made for one in every if (made := self._pricing.priced(one)) is not None), key=self._place)
        if not priced:
            widths = ", ".join(map(str, room.teams))
            raise InputError(
                f"no layout found: global_batch = {self._pricing.global_batch}, tensor widths {widths}, "
                f"{room.blocks} blocks, and what is given beside them, leave none"
            )
        with ExitStack() as stack:
            store = self._store(stack)
            crew = stack.enter_context(self._crew(len(priced)))
            names = self._planners(given)
            kept = min(len(names) * WIDTHS, self._options.budget // 4)  # of the budget, for other planners
            differ = self._may_differ(given)
            ranks = self._options.budget // 8 if differ else 0  # and for ranks of several widths
            self._go(priced, crew, store, watch, self._options.budget - kept - ranks)
            added = self._ask_planners(names, given, crew, store)
            added += self._differ_in_width(given, crew, store, watch) if differ else 0
            added += self._move_cuts(crew, store, watch)
            if self._found.tried < self._options.budget:  # of what was kept, something is over
                left, self._found.left = self._found.left, []
                self._go(left, crew, store, watch, self._options.budget)
        return self._sorted(len(priced) + added, self._any_bound(priced))

    def _planners(self, given: frozenset[str]) -> tuple[str, ...]:
        """Planners whose plans are candidates: none where sizes are given, and where money depends on the devices."""
        stated = self._options.planners
        decided = given & {"pipeline", "data", "interleave"} or self._options.objective in {"tokens/s/gpu", "cost"}
        if decided and stated is None:
            return ()
        if decided and stated != NONE:
            found = ", ".join(sorted(given & {"pipeline", "data", "interleave"})) or self._options.objective
            raise InputError(f"planners and {found} found; planners decide stages and replicas, for the least time")
        return planners_for(cluster_of(self._named_simulation), stated, self._simulation.framework)

    def _ask_planners(self, names: Sequence[str], given: frozenset[str], crew: Crew, store: Store | None) -> int:
        """Simulate plans of other planners at the widths of the best layouts; how many layouts that adds."""
        rows = self._found.ranked
        scheduler = self._simulation.scheduler if "scheduler" in given else None
        asked = layouts_of(
            names, [row.candidate for row in rows], self._pricing.teams,
            scheduler=scheduler if isinstance(scheduler, str) else None,
            several=self._several_widths(given) and len(self._pricing.cluster.devices) <= MOST_GPUS,
        )  # fmt: skip
        count = self._try_planned(self._within(asked), crew, store)
        if scheduler is None and self._simulation.framework is None and asked:
            rows = self._found.ranked
            near = _NEAR * self._found.best
            of_planners = [row.candidate for row in rows if row.candidate.planner and row.value <= near]
            of_widths = {(one.tensor, one.widths): one for one in of_planners[::-1]}  # the best of each
            best = list(dict.fromkeys([*of_planners[:2], *list(of_widths.values())[::-1]]))[:_SPLIT]
            others = [replace(one, scheduler=name) for one in best for name in SPLITTING if name != one.scheduler]
            known = {row.candidate for row in rows}
            count += self._try_planned(self._within([one for one in others if one not in known]), crew, store)
        return count

    def _try_planned(self, asked: Iterable[LayoutChoice], crew: Crew, store: Store | None) -> int:
        """Simulate layouts that planners decide; how many there are."""
        every = [planned(self._pricing, one) for one in asked]
        self._found.planned += [one.bound for one in every]
        places = iter(every)
        self._simulate(self._next(places, self._options.budget - self._found.tried), crew, store)
        self._found.left += self._next(places, len(every))
        return len(every)

    def _may_differ(self, given: frozenset[str]) -> bool:
        """Whether ranks may have teams of several widths: where devices differ, and no framework has to express it."""
        decided = given & {"pipeline", "data", "interleave"} or self._options.objective == "tokens/s/gpu"
        return not decided and self._several_widths(given) and rank_widths.has_several(self._pricing)

    def _several_widths(self, given: frozenset[str]) -> bool:
        """Whether there are several widths to choose from, and no framework that has one for all."""
        return "tensor" not in given and self._simulation.framework is None and len(self._pricing.widths) > 1

    def _differ_in_width(self, given: frozenset[str], crew: Crew, store: Store | None, watch: Watch | None) -> int:
        """Simulate layouts whose ranks have teams of several widths, like the best; how many layouts that adds."""
        rows = self._found.ranked
        best = [row.candidate for row in rows]
        asked = self._within(rank_widths.layouts_of(best, self._pricing, same_schedule="scheduler" in given))
        priced = sorted((made for one in asked if (made := self._pricing.priced(one)) is not None), key=self._place)
        self._found.planned += rank_widths.bounds_of([one.candidate for one in priced], self._pricing)
        self._go(priced, crew, store, watch, min(self._options.budget, self._found.tried + self._options.budget // 8))
        return len(priced)

    def _any_bound(self, priced: Sequence[Priced]) -> float | None:
        """The bound for any cuts, chunks and schedules; only times have one."""
        if self._options.bound is False or self._options.objective != "time":
            return None
        found = min([open_bound(self._pricing, priced), *self._found.planned])
        return found if isfinite(found) else None

    def _place(self, priced: Priced) -> tuple[Any, ...]:
        return (self._weight(priced.candidate) * priced.estimate, priced.candidate)

    def _within(self, candidates: Iterable[LayoutChoice]) -> Iterable[LayoutChoice]:
        if self._options.within is None:
            return candidates
        with within("within"):
            (formula,) = grid.filters(self._options.within, [*NAMES, "gpus"])
            return [
                one for one in candidates
                if formula.value({name: getattr(one, name) for name in (*NAMES, "gpus")})
            ]  # fmt: skip

    def _go(self, priced: Sequence[Priced], crew: Crew, store: Store | None, watch: Watch | None, budget: int) -> None:
        """Simulate what may be better than the best, round by round, until the budget or the space ends."""
        found, places = self._found, iter(priced)
        while found.tried < budget:
            waiting = self._next(places, min(ROUND, budget - found.tried))
            if not waiting:
                return
            self._simulate(waiting, crew, store)
            if watch is not None:
                watch(found.tried, budget)
        found.left += self._next(places, len(priced))

    def _move_cuts(self, crew: Crew, store: Store | None, watch: Watch | None) -> int:
        """Move cuts of the best layouts by a block while that is better; how many layouts that adds to the space."""
        rows = [row for row in self._found.rows if not row.candidate.planner]
        seen = {(replace(row.candidate, cuts=""), self._pricing.blocks_of(row.candidate)) for row in rows}
        known, tried = len(seen), set[LayoutChoice]()
        while True:
            rows = self._found.ranked
            own = [row.candidate for row in rows if not row.candidate.planner]
            start = next((one for one in own[:_MOVED] if one not in tried), None)
            if start is None or self._found.tried >= self._options.budget:
                return len(seen) - known
            tried.add(start)
            chosen = []
            for one in self._pricing.neighbours(start):
                key = (replace(one, cuts=""), self._pricing.blocks_of(one))
                made = None if key in seen else self._pricing.priced(one)
                if made is not None:
                    seen.add(key)
                    chosen.append(made)
            chosen.sort(key=self._place)
            places, most = iter(chosen), self._options.budget - self._found.tried
            self._simulate(self._next(places, most), crew, store)
            self._found.left += self._next(places, len(chosen))
            if watch is not None:
                watch(self._found.tried, self._options.budget)

    def _next(self, places: Iterator[Priced], most: int) -> list[Priced]:
        """So many of the next layouts, those left out that are beaten or do not fit."""
        chosen: list[Priced] = []
        for one in places:
            if isinf(one.bound):
                self._found.memory += 1
            elif self._is_beaten(one):
                self._found.bound += 1
            elif one.candidate.planner:
                chosen.append(one)
                if len(chosen) == most:
                    break
            elif one.candidate.recompute == BY_STAGE:
                chosen += self._by_stage(one)
                if len(chosen) == most:
                    break
            elif not self._pricing.fits(one):
                self._found.memory += 1
            else:
                chosen.append(one)
                if len(chosen) == most:
                    break
        return chosen

    def _by_stage(self, priced: Priced) -> list[Priced]:
        """A layout with as many blocks done again as it needs to fit; none if it is beaten then, or does not fit."""
        made = self._pricing.fitted(priced)
        if made is None:
            self._found.memory += 1
        elif self._pricing.is_whole(made):
            self._found.same += 1
        elif self._is_beaten(made):
            self._found.bound += 1
        else:
            return [made]
        return []

    def _is_beaten(self, priced: Priced) -> bool:
        """Whether a layout cannot be better than the best, or with a front than one that needs no more memory."""
        if self._options.objective == "p95":
            return False
        least = self._weight(priced.candidate) * priced.bound
        if not self._options.front:
            return least >= self._found.best
        beating = [row for row in self._found.rows if row.value <= least]
        return bool(beating) and self._pricing.peak(priced) >= min(row.memory for row in beating)

    def _simulate(self, waiting: Sequence[Priced], crew: Crew, store: Store | None) -> None:
        """Simulate layouts, or take their results from the store; in their order, in whatever order they end."""
        chunk = []
        for one in waiting:
            point = self._pricing.point(one.candidate, one.blocks, one.redone)
            chunk.append((points.key(point, self._inputs.contents), point))
        kept = {} if store is None else store.values_of([key for key, _ in chunk], self._metrics)
        answers = {key: crew.submit([(key, point)]) for key, point in chunk if key not in kept}
        outcomes = {key: answer.result()[0] for key, answer in answers.items()}
        if store is not None and outcomes:
            store.commit(self._metrics, [Result(*outcome) for outcome in outcomes.values()])
        for one, (key, point) in zip(waiting, chunk, strict=True):
            self._take(one, point, outcomes.get(key) or Outcome(key, list(kept[key]), None, False, "", 0.0))

    def _take(self, one: Priced, point: Simulation, outcome: Outcome) -> None:
        found = self._found
        found.tried += 1
        if outcome.error is not None:
            found.refused += 1
            if outcome.error not in found.refusals:
                found.refusals.append(outcome.error)
            return
        metrics = dict(zip(self._metrics, outcome.values, strict=True))
        if metrics["fits_memory"] is not None:
            metrics["fits_memory"] = bool(metrics["fits_memory"])  # a store has numbers
        if metrics["fits_memory"] is False:
            found.memory += 1
            return
        seconds = metrics["replay_p95_s" if self._options.objective == "p95" else "iteration_time_s"]
        if self._failures is not None:
            metrics["goodput"] = self._failures.goodput(int(str(metrics["devices_in_plan"])))
        made = replace(point, **self._named)
        value = self._weight(one.candidate, int(str(metrics["devices_in_plan"]))) * float(str(seconds))
        if self._options.price_out:
            left = float(str(metrics.get("goodput", 1.0)))
            value += self._options.price_out * float(str(metrics["bytes_out_of_nodes"])) / 1e9 / left
        if self._options.objective == "cost":
            metrics["cost_per_million_tokens"] = _per_million(value, metrics)
        found.rows.append(TuningRow(one.candidate, made, one.blocks, one.bound, value, metrics, one.redone))

    def _weight(self, one: LayoutChoice, gpus: int | None = None) -> float:
        """What a second of an iteration of a layout counts, with what failures leave of the time."""
        gpus = gpus or one.gpus or one.tensor  # a planner may use as few as a team
        left = 1.0 if self._failures is None else self._failures.goodput(gpus)
        return {"tokens/s/gpu": float(gpus), "cost": self._price_s(one)}.get(self._options.objective, 1.0) / left

    def _price_s(self, one: LayoutChoice) -> float:
        """Money for a second of all GPUs of a layout."""
        price = self._options.price
        if not isinstance(price, dict):
            return 0.0
        kinds = self._pricing.kinds(one)
        for kind in kinds:
            if kind not in price and "" not in price:
                raise InputError(f"price of {kind} is missing; {', '.join(price)} found")
        return sum(count * price.get(kind, price.get("", 0.0)) for kind, count in kinds.items()) / 3600

    def _sorted(self, count: int, any_bound: float | None) -> TuningResult:
        found, objective = self._found, self._options.objective
        if not found.rows:
            reasons = "; ".join(found.refusals[:3])
            error = RefusedError if found.refused else DoesNotFitError
            raise error(
                f"none of {count:,} layouts can be used: {found.memory:,} do not fit in memory, {found.refused:,} were "
                f"refused{': ' + reasons if reasons else ''}; give it more GPUs, or GPUs with more memory"
            )
        rows = found.ranked
        best = rows[0].candidate
        costs = self._pricing.costs(best, best.tensors or (best.tensor,))
        own_bound = None
        if objective == "time":
            own_bound = min([*(row.bound for row in rows), *(one.bound for one in found.left)])
            own_bound = max(own_bound, any_bound or 0.0)
        counts = Counts(count - found.same, found.memory, found.bound, found.refused, len(rows), len(found.left))
        return TuningResult(
            tuple(rows), counts, objective, any_bound, headline(costs, self._pricing.cluster), costs.notes,
            tuple(found.refusals), own_bound,
        )  # fmt: skip

    def _crew(self, count: int) -> AbstractContextManager[Crew]:
        options, config = self._options, self._worker.config
        several = min(options.workers, options.budget, count)
        if options.dask is not None:
            return crews.dask(config, options.dask, options.workers)
        if several == 1:
            return crews.here(config, self._worker)
        share = limits.limit_of(config.host_memory).shared(several)
        return crews.processes(replace(config, host_memory=share), several)

    def _store(self, stack: ExitStack) -> Store | None:
        if self._options.store is None:
            return None
        if any(getattr(self._simulation, name) == f"<{name}>" for name in _NAMED):
            raise InputError("store found beside a trace or cluster made in Python; files or names were expected")
        store = stack.enter_context(Store.open(self._options.store, create=True))
        store.prepare(self._metrics)
        return store


def _per_million(value: float, metrics: Mapping[str, Any]) -> float | None:
    """Money for an iteration as money for a million tokens; None where its tokens are not known."""
    if metrics["tokens_per_s_per_gpu"] is None:
        return None
    tokens = metrics["tokens_per_s_per_gpu"] * metrics["devices_in_plan"] * metrics["iteration_time_s"]
    return float(value / tokens * 1e6)


def given_fields(simulation: Simulation) -> frozenset[str]:
    """The fields of a simulation that differ from their defaults."""
    plain = Simulation()
    return frozenset(name for name in FIELDS if getattr(simulation, name) != getattr(plain, name))
