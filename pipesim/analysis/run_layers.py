"""Layers of the stages of a recorded run: how many each had, and what each is assumed to take.

    stage     0                   1            2               3
    layers    first block block   block block  block block     block last      counts 2, 2, 2, 2

Equal layers: a block takes the mean of all blocks of the stages between the first and the last; with two stages, that
of the stage whose blocks take less. What the first and the last stage take beyond their blocks (the embedding, the
head and the loss) belongs to the first and the last layer and stays there. Of a trace: its layers in proportion, all
forwards multiplied by one factor, all backwards by another.

A stage that takes more or less than its layers does so under another cut too: it may be the device. So times of a
cut are recorded times multiplied by a ratio, and the recorded cut gives the recorded times.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipesim.analysis.run_variance import ComputingTimes
from pipesim.base import units
from pipesim.base.arrays import Floats
from pipesim.base.checks import check_whole
from pipesim.base.errors import InputError
from pipesim.core import recorded_run as runs
from pipesim.core.costs import Costs, Phase, costs_of
from pipesim.core.model import Layer, Model
from pipesim.core.trace import ANY_KIND, Trace

_PHASES: dict[int, Phase] = {
    runs.FORWARD: "forward",
    runs.BACKWARD: "backward",
    runs.INPUT: "backward_input",
    runs.WEIGHT: "backward_weight",
}
_HALF = 0.5  # of a backward, each of its parts where only whole ones were recorded


@dataclass(frozen=True, slots=True, eq=False)
class RunLayers:
    """The layers of a run, in order, how the run cut them, and the assumption that their times rest on."""

    counts: tuple[int, ...]  # layers of each recorded stage
    ns: Floats  # [kind of computation, layer]; 0 of kinds that were not recorded
    model: Model  # sizes; 0 where they are not known
    assumption: str

    def cut(self, counts: Sequence[int]) -> tuple[int, ...]:
        """These numbers of layers per stage, checked: as many stages and layers as recorded."""
        found = tuple(check_whole("cut", count) for count in counts)
        if len(found) != len(self.counts) or sum(found) != sum(self.counts):
            raise InputError(
                f"cut {_listed(found)} found: {len(found)} stages of {sum(found)} layers; {len(self.counts)} stages "
                f"of {sum(self.counts)} layers were expected, as in the run ({_listed(self.counts)})"
            )
        return found

    def ratio(self, counts: Sequence[int]) -> Floats:
        """[kind, stage]: the time of a stage with this cut over that with the recorded one."""
        new, recorded = self.of_stages(self.cut(counts)), self.of_stages(self.counts)
        return np.divide(new, recorded, out=np.ones_like(new), where=recorded > 0)

    def of_stages(self, counts: Sequence[int]) -> Floats:
        """[kind, stage]: nanoseconds of the layers of each stage."""
        return np.add.reduceat(self.ns, np.cumsum([0, *counts[:-1]]), axis=1)

    def costs(self) -> Costs:
        """The times of the layers as those of any device."""
        forward, whole, inputs, weights = self.ns / units.NS_PER_S
        backward = whole + inputs + weights
        weights = weights + whole * _HALF
        seconds: dict[Phase, Floats] = {
            "forward": forward,
            "backward": backward,
            "backward_first": backward,
            "backward_input": backward - weights,
            "backward_weight": weights,
            "recompute": forward,
        }
        layers = len(self.model)
        return Costs(
            self.model, ((ANY_KIND, self.model.microbatch_size),), seconds, np.arange(layers)[None],
            np.ones((1, layers), np.int64),
        )  # fmt: skip


def equal_layers(times: ComputingTimes, counts: Sequence[int]) -> RunLayers:
    """Layers that are alike, but for what the first and the last stage take beyond theirs."""
    recorded = _of_stages(times)
    counts = _checked(counts, recorded)
    inner, per_layer = slice(1, -1), recorded / np.array(counts)
    several = len(counts) > 2
    block = recorded[:, inner].sum(axis=1) / sum(counts[inner]) if several else per_layer.min(axis=1)
    found = np.repeat(block[:, None], sum(counts), axis=1)
    beyond = np.maximum(recorded - block[:, None] * np.array(counts), 0.0)
    found[:, 0] += beyond[:, 0]
    found[:, -1] += beyond[:, -1]
    block_ms, first_ms, last_ms = (1e-6 * values.sum() for values in (block, beyond[:, 0], beyond[:, -1]))
    assumption = (
        f"layers are alike: {block_ms:.4g} ms each, forward and backward; the first stage takes {first_ms:.4g} ms and "
        f"the last {last_ms:.4g} ms beyond its layers"
    )
    model = Model("layers of a run", 1, tuple(Layer(f"layer {n}", 0) for n in range(sum(counts))))
    return RunLayers(counts, found, model, assumption)


def layers_of_trace(times: ComputingTimes, counts: Sequence[int], trace: Trace) -> RunLayers:
    """Layers of a trace that the run cut so: in proportion to their recorded times there."""
    recorded = _of_stages(times)
    counts = _checked(counts, recorded)
    costs = costs_of(trace)
    if len(costs.model) != sum(counts):
        raise InputError(
            f"layers {_listed(counts)} found, {sum(counts)} together; the trace of {trace.model!r} has "
            f"{len(costs.model)}, and as many were expected"
        )
    if len(costs.kinds) > 1:
        raise InputError(
            f"the trace of {trace.model!r} has times for {', '.join(costs.kinds)}; times for one kind of device were "
            "expected"
        )
    found = np.zeros((len(_PHASES), len(costs.model)))
    for kind, phase in _PHASES.items():
        seconds = costs.seconds(phase, costs.kinds[0])
        total = seconds.sum()
        found[kind] = seconds * (recorded[kind].sum() / total) if total else 0.0
    assumption = f"times of layers are in proportion to those of the trace of {trace.model!r}"
    return RunLayers(counts, found, costs.model, assumption)


def _of_stages(times: ComputingTimes) -> Floats:
    """[kind, stage]: mean nanoseconds of a computation."""
    found = np.zeros((len(_PHASES), int(times.stage.max()) + 1))
    found[times.kind, times.stage] = times.ns.mean(axis=(0, 1, 2))
    return found


def _checked(counts: Sequence[int], recorded: Floats) -> tuple[int, ...]:
    """The layers of each stage, one number for each."""
    found, stages = tuple(check_whole("layers", count) for count in counts), recorded.shape[1]
    if len(found) != stages:
        raise InputError(
            f"layers {_listed(found)} found, of {len(found)} stages; {stages} numbers were expected, one per recorded "
            "stage"
        )
    if stages == 1:
        raise InputError("the run has one stage; at least two were expected to cut layers otherwise")
    return found


def _listed(counts: Sequence[int]) -> str:
    return ",".join(map(str, counts))
