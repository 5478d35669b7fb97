"""Recorded runs with their layers cut otherwise: by the user, or by a planner on the devices of one replica.

    layers of the run ──> costs ─┐
    devices of a replica ────────┴─ planner ─> plan ─┬─> as many layers per stage: recorded steps with other durations
                                                     └─> anything else: a pipeline with the recorded factors

A factor is a recorded time over that of the layers of its stage: what a microbatch, a step and a device have of their
own. It stays with the device where every stage is on one, else it is the mean of all devices of the replica. Replicas
stay as they are recorded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis.run_layers import RunLayers
from pipesim.analysis.run_variance import ComputingTimes
from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError
from pipesim.core import recorded_run as runs
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import FORWARD, WEIGHT
from pipesim.core.recorded_run import RecordedRun
from pipesim.engines import compiled
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.layouts import laid_out
from pipesim.studies import equal_stages, setups
from pipesim.studies.ordering import ordered_with
from pipesim.studies.simulation import TRANSFERS_OF

WHATS = ("cut", "plan")
NO_SCHEDULE = "no scheduler has the order of this run; another one cannot be compared with it"

Schedule = tuple[str, int | None]  # a scheduler and its chunks per device; None for as many as it asks for


@dataclass(frozen=True, slots=True)
class Cuts:
    """Layers cut otherwise: those of the run, new numbers of layers per stage, and planners that choose them."""

    layers: RunLayers
    counts: Sequence[tuple[int, ...]] = ()
    planners: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """The run with another cut: `ratio` of the times of its stages, [kind, stage], or else a pipeline."""

    what: str
    name: str
    ratio: Floats | None = None
    setup: Setup | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CutRun:
    """A run with its layers, as a pipeline on the devices of one replica."""

    run: RecordedRun
    times: ComputingTimes
    layers: RunLayers
    costs: Costs
    cluster: Cluster
    schedule: Schedule | None  # of the run; None where no scheduler has its order
    place: Ints  # [stage] position in the pipeline of each recorded stage

    @classmethod
    def of(cls, run: RecordedRun, layers: RunLayers, schedule: Schedule | None) -> "CutRun":
        """The run under the schedule that it has."""
        rows = np.flatnonzero(run.is_computation)
        place = np.zeros(run.layout.stages, np.int64)
        place[run.stage[rows]] = run.position[run.rank[rows]]
        times = ComputingTimes.of(run)
        return cls(run, times, layers, layers.costs(), _devices(run, layers), schedule, place)

    def variants(self, cuts: Cuts, schedules: Sequence[Schedule]) -> list[Variant]:
        """Each cut and each plan, under the schedule of the run and under these."""
        found = []
        for given in cuts.counts:
            counts = self.layers.cut(given)
            name = _listed(counts)
            found.append(Variant("cut", name, self.layers.ratio(counts)))
            found += [
                Variant("cut", f"{name}, {named(other)}", setup=self._with_cut(counts, other)) for other in schedules
            ]
        for planner in cuts.planners:
            plan = setups.plan_with(planner, self.costs, self.cluster, self.run.microbatches)
            found.append(self._planned(planner, plan))
            for other in schedules:
                made = self._ordered(plan, other)
                found.append(Variant("plan", f"{_planned(planner, made.plan)}, {named(other)}", setup=made))
        for one in found:
            if one.setup is not None:
                self._check(one.name, one.setup.plan)
        return found

    def gains(self, variants: Sequence[Variant]) -> Iterator[tuple[Variant, float]]:
        """What pipelines add to the mean step, in ns."""
        pipelines = [(one, one.setup) for one in variants if one.setup is not None]
        if not pipelines:
            return
        if self.schedule is None:
            raise InputError(NO_SCHEDULE)
        before = self._mean_ns(self._ordered(self._plan(self.layers.counts), self.schedule))
        for one, setup in pipelines:
            yield one, self._mean_ns(setup) - before

    def _planned(self, planner: str, plan: Plan) -> Variant:
        """A plan under the schedule of the run: in its recorded steps, if it has its stages."""
        made = None if self.schedule is None else self._ordered(plan, self.schedule)
        shown = self._laid_out(plan) if made is None else made.plan
        name, counts = _planned(planner, shown), self._counts(shown)
        if counts is None and made is None:
            raise InputError(
                f"no scheduler has the order of this run, and {name} has other stages than the run; a plan with its "
                "stages was expected"
            )
        return Variant("plan", name, setup=made) if counts is None else Variant("plan", name, self.layers.ratio(counts))

    def _with_cut(self, counts: tuple[int, ...], schedule: Schedule) -> Setup:
        """The pipeline with so many layers per stage, which the scheduler must keep."""
        made = self._ordered(self._plan(counts), schedule)
        if _sizes(made.plan) != counts:
            raise InputError(
                f"{schedule[0]} cuts layers again, for its own layout of stages; a schedule with the stages of the run "
                "was expected beside a cut"
            )
        return made

    def _check(self, name: str, plan: Plan) -> None:
        """Refuse a plan whose sums of gradients nothing is known of."""
        copies = plan.replication
        if max(copies) > 1 and not (self.layers.model.parameter_bytes.any() and _bytes(self.layers)):
            raise InputError(
                f"{name}: stage {int(np.argmax(copies))} on {max(copies)} devices found; how long they take to sum "
                "gradients is not in the run: a trace of its layers with bytes was expected, or a planner with one "
                "device per stage, such as balanced"
            )

    def _plan(self, counts: tuple[int, ...]) -> Plan:
        """The recorded stages with so many layers each."""
        ends = np.cumsum(counts).tolist()
        names = [self.cluster.devices[place].name for place in self.place.tolist()]
        stages = (Stage(end - n, end, (name,)) for end, n, name in zip(ends, counts, names, strict=True))
        return Plan(self.costs.model.name, ends[-1], self.run.microbatches, tuple(stages), planner="recorded")

    def _ordered(self, plan: Plan, schedule: Schedule) -> Setup:
        """A plan under a schedule, its messages as in Megatron."""
        posted = TRANSFERS_OF["megatron"]
        transfers: Any = posted.get(schedule[0].partition("(")[0], posted[""])
        options = Options(transfers=transfers, sharing="none")
        name, shape, count = equal_stages.chunked(*schedule)
        if shape:
            plan = laid_out(plan, self.costs, self.cluster, "loop", count, name)
        plan, ordered = ordered_with(name, plan, self.costs, self.cluster, options)
        return Setup(plan, ordered, self.costs, self.cluster, options)

    def _laid_out(self, plan: Plan) -> Plan:
        """A plan with as many stages on each device as the run, one after the other in a loop."""
        chunks = self.run.layout.vpp
        return laid_out(plan, self.costs, self.cluster, "loop", chunks, "the run") if chunks > 1 else plan

    def _counts(self, plan: Plan) -> tuple[int, ...] | None:
        """The layers per stage of a plan that has the stages of the run on their devices; None for any other."""
        names = [(self.cluster.devices[place].name,) for place in self.place.tolist()]
        return _sizes(plan) if [stage.devices for stage in plan.stages] == names else None

    def _mean_ns(self, made: Setup) -> float:
        """The mean over steps of the slowest replica's pipeline, in ns."""
        program = lower(made)
        rows = np.flatnonzero(program.is_compute & (program.kind <= WEIGHT))
        number = {device.name: place for place, device in enumerate(self.cluster.devices)}
        place = np.array([number[name] for name in program.devices])[program.lane[rows]]
        forward, backward = self._factors(alone=max(made.plan.replication) == 1)
        microbatch, is_forward = program.microbatch[rows], program.kind[rows] == FORWARD
        factor = np.where(is_forward, forward[:, :, microbatch, place], backward[:, :, microbatch, place])
        steps, replicas = factor.shape[:2]
        durations = np.repeat(program.duration[:, None], steps * replicas, axis=1)
        own = factor.reshape(steps * replicas, len(rows)).T * program.duration[rows, None]
        durations[rows] = np.rint(own).astype(np.int64)
        ends = compiled.makespans(program, np.arange(len(program)), durations)
        return float(ends.reshape(steps, replicas).max(axis=1).mean())

    def _factors(self, *, alone: bool) -> tuple[Floats, Floats]:
        """Of forwards and of backwards, [step, replica, microbatch, place]: recorded times over those of the layers."""
        expected, found = self.layers.of_stages(self.layers.counts), list[Floats]()
        for kinds in ((runs.FORWARD,), (runs.BACKWARD, runs.INPUT, runs.WEIGHT)):
            recorded = np.zeros((*self.times.ns.shape[:3], self.run.layout.pp))
            layers = np.zeros(self.run.layout.pp)
            for operation in np.flatnonzero(np.isin(self.times.kind, kinds)).tolist():
                stage = self.times.stage[operation]
                recorded[..., self.place[stage]] += self.times.ns[..., operation]
                layers[self.place[stage]] += expected[self.times.kind[operation], stage]
            if not alone:
                recorded[:] = recorded.sum(axis=3, keepdims=True)
                layers[:] = layers.sum()
            found.append(np.divide(recorded, layers, out=np.ones_like(recorded), where=layers > 0))
        return found[0], found[1]


def hop_s(run: RecordedRun) -> float:
    """The median of the seconds that a message took once both ends had posted it."""
    receives = run.working[np.isin(run.kind, runs.RECEIVES)]
    return units.to_s(float(np.median(receives))) if len(receives) else 0.0


def _devices(run: RecordedRun, layers: RunLayers) -> Cluster:
    """The devices of a replica; a message between any two takes as long as recorded ones, or for its bytes.

    Where the bytes of layers are known, the median of those across the recorded cuts takes that long.
    """
    count, hop, size = run.layout.pp, hop_s(run), _bytes(layers)
    devices = tuple(Device(f"rank{n}", "any", f"rank{n}", 0) for n in range(count))
    speed = (size / hop, 0.0) if size and hop else (equal_stages.WIDE, hop)
    pairs = ((a, b) for a in range(count) for b in range(a + 1, count))
    return Cluster("a replica", devices, tuple(Link(f"rank{a}", f"rank{b}", *speed) for a, b in pairs))


def _bytes(layers: RunLayers) -> float:
    """The median of the bytes across the recorded cuts; 0 where they are not known."""
    return float(np.median(layers.model.cut_bytes[np.cumsum(layers.counts[:-1]) - 1]))


def _sizes(plan: Plan) -> tuple[int, ...]:
    return tuple(stage.stop - stage.start for stage in plan.stages)


def _planned(planner: str, plan: Plan) -> str:
    """A planner with the layers of its stages, and the devices of those that have several."""
    sizes = zip(_sizes(plan), plan.replication, strict=True)
    return f"{planner}: {','.join(f'{size}' if copies == 1 else f'{size} x {copies}' for size, copies in sizes)}"


def _listed(counts: Sequence[int]) -> str:
    return ",".join(map(str, counts))


def named(schedule: Schedule) -> str:
    """A scheduler, with its chunks where they are stated."""
    scheduler, chunks = schedule
    return scheduler if chunks is None else f"{scheduler}, {chunks} chunks"
