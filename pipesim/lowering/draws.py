"""Times of one iteration drawn from samples, and what tasks share of a draw.

independent   nothing: each layer of each task has a draw of its own
layer         a layer's forward and backward of one microbatch, on all replicas that have a part of it
microbatch    all layers and both directions of a microbatch: its length, say
step          everything
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.core.costs import Costs, Phase
from pipesim.core.program import BACKWARD, WEIGHT, Program
from pipesim.lowering.compute import WITH_RECOMPUTATION, paired_ns, phases_of
from pipesim.lowering.recompute import recomputation_of
from pipesim.lowering.setup import Setup

Draw = Literal["independent", "layer", "microbatch", "step"]
DRAWS: tuple[Draw, ...] = ("independent", "layer", "microbatch", "step")


def redraw(
    program: Program, setup: Setup, *, rng: np.random.Generator, jitter: float = 0.0, draw: Draw = "independent"
) -> Program:
    """The program with every layer's time drawn from its samples.

    `jitter` multiplies each layer's time by a log-normal factor of mean 1 and this coefficient of variation; tasks that
    share a draw share it too.
    """
    plan = setup.plan
    duration, actions = program.duration.copy(), len(setup.schedule.kind)
    drawing = _Drawing(rng, jitter, _shared(draw, plan.microbatches, len(setup.costs.model), rng, jitter))
    for stage, part in enumerate(plan.stages):
        costs, recomputed = setup.costs_at(stage), recomputation_of(setup, stage)
        again, core = np.flatnonzero(recomputed.whole), np.flatnonzero(recomputed.core)
        for device in part.devices:
            rank = setup.rank[device]
            mine = (program.stage == stage) & (program.lane == rank) & (program.kind <= WEIGHT)
            for phase, rows in _rows_by_phase(program, np.flatnonzero(mine), phases_of(setup, stage)):
                how = setup.kind(rank), plan.share(stage), program.microbatch[rows]
                drawn = drawing.seconds(costs, phase, *how)
                if phase in WITH_RECOMPUTATION and len(again):
                    drawn[:, again] += drawing.seconds(costs, "recompute", *how)[:, again]
                if phase in WITH_RECOMPUTATION and len(core):
                    drawn[:, core] += drawing.seconds(costs, "core", *how)[:, core]
                drawn = drawing.jittered(drawn, program.microbatch[rows])
                duration[rows] = units.to_ns(drawn[:, part.start : part.stop].sum(axis=1))
    duration[:actions] = paired_ns(duration[:actions], setup.schedule, setup.options)
    return program.with_durations(duration)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What tasks share of a draw, for each microbatch and layer: the place in the samples, and the factor of jitter."""

    place: Floats
    factor: Floats


@dataclass(frozen=True, slots=True)
class _Drawing:
    """How times of an iteration are drawn."""

    rng: np.random.Generator
    jitter: float
    shared: _Shared | None

    def seconds(self, costs: Costs, phase: Phase, kind: str, share: float, microbatch: Ints) -> Floats:
        """Times of all layers for these microbatches: [microbatch, layer]."""
        if self.shared is None:
            return costs.draw(phase, kind, share, len(microbatch), self.rng)
        return costs.draw_at(phase, kind, share, self.shared.place[microbatch])

    def jittered(self, seconds: Floats, microbatch: Ints) -> Floats:
        """These times, each with its factor."""
        if not self.jitter:
            return seconds
        if self.shared is None:
            return seconds * _noise(seconds.shape, self.jitter, self.rng)
        return seconds * self.shared.factor[microbatch]


def _shared(draw: Draw, microbatches: int, layers: int, rng: np.random.Generator, jitter: float) -> _Shared | None:
    """What microbatches and layers share; None where they share nothing."""
    if draw == "independent":
        return None
    whole = microbatches, layers
    shape = {"layer": whole, "microbatch": (microbatches, 1), "step": (1, 1)}[draw]
    place = rng.random(shape)
    factor = _noise(shape, jitter, rng) if jitter else np.ones((1, 1))
    return _Shared(np.broadcast_to(place, whole), np.broadcast_to(factor, whole))


def _rows_by_phase(program: Program, rows: Ints, phases: dict[int, Phase]) -> list[tuple[Phase, Ints]]:
    """The tasks of one slot by what they cost; its first whole backward writes gradients, the others add to them."""
    by_phase = [(phase, rows[program.kind[rows] == kind]) for kind, phase in phases.items()]
    whole = by_phase[BACKWARD][1]
    by_phase[BACKWARD] = ("backward", whole[1:])
    return [*by_phase, ("backward_first", whole[:1])]


def _noise(shape: tuple[int, ...], jitter: float, rng: np.random.Generator) -> Floats:
    sigma = np.sqrt(np.log1p(jitter**2))
    return rng.lognormal(-(sigma**2) / 2, sigma, shape)
