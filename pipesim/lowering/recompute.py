"""Activations that are computed once more in place of being kept: which layers, what they keep, what it takes."""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError
from pipesim.core.costs import Costs
from pipesim.lowering.setup import Options, Setup

Mask = NDArray[np.bool_]

# A layer that is better than the whole by less than this part is as good: equal layers must not differ by rounding.
_AS_GOOD = 1e-9


class Kept(NamedTuple):
    """Bytes of one microbatch on one GPU of a replica of a stage.

    stash       kept from the forward to the backward
    restored    what recomputation brings back in addition: of the largest unit (a layer, or a block of layers that is
                done again as one), for a whole backward goes unit by unit; of all layers where the weights' gradients
                come later and still need it
    """

    stash: int
    restored: int
    restored_until_weights: int


def recomputation_of(setup: Setup, stage: int) -> "Recomputation":
    """What recomputation means for a stage of a plan."""
    part, options = setup.plan.stages[stage], setup.options
    counts = options.recompute_blocks
    if isinstance(counts, tuple):
        if len(counts) != len(setup.plan.stages):
            raise InputError(
                f"recompute_blocks: {len(counts)} numbers found; one for each of {len(setup.plan.stages)} stages was "
                "expected"
            )
        options = replace(options, recompute_blocks=counts[stage])
    return Recomputation(options, setup.costs_at(stage), setup.kind(0), part.start, part.stop)


def kept_of(setup: Setup, stage: int) -> Kept:
    """What a stage of a plan keeps of what it has of a microbatch."""
    part, share = setup.plan.stages[stage], setup.plan.share(stage)
    if setup.options.recompute != "none" or setup.options.recompute_blocks is not None:
        return recomputation_of(setup, stage).kept(share)
    return Kept(round(setup.costs_at(stage).model.stash_of(part.start, part.stop) * share), 0, 0)


class Recomputation:
    """What recomputation means for the layers start to stop - 1, of all of which these are masks.

    whole   layers whose forward is done once more
    core    layers of which only the core of attention is
    """

    def __init__(self, options: Options, costs: Costs, kind: str, start: int, stop: int) -> None:
        self._model = costs.model
        self._start, self._stop = start, stop
        self._blocks = options.granularity == "block"
        none: Mask = np.zeros(len(costs.model), bool)
        has_core = costs.model.core_stash_bytes > 0
        self.core = has_core if options.recompute == "selective" and has_core.any() else none
        if options.recompute == "full":
            most = options.recompute_blocks
            self.whole = self._first_blocks(most if isinstance(most, int) else None)
        else:
            self.whole = _cheapest(costs, kind) if options.recompute == "selective" and not has_core.any() else none

    def _first_blocks(self, most: int | None) -> Mask:
        """All layers; of a model of blocks only these, or the first few: embedding and head are not done again."""
        blocks = np.array(self._model.blocks)
        if not self._blocks or (blocks < 0).all():
            return np.ones(len(blocks), bool)
        here = blocks[self._start : self._stop]
        first = np.unique(here[here >= 0])[:most]
        whole: Mask = np.isin(blocks, first)
        whole[: self._start] = whole[self._stop :] = False
        return whole

    @cached_property
    def _kept(self) -> Floats:
        """Bytes that each layer keeps; of a block that is done again as one, only its first layer keeps its inputs."""
        model = self._model
        kept = model.kept_bytes.copy()
        if self._blocks:
            later = [n for n in range(1, len(model)) if model.blocks[n] >= 0 and model.blocks[n] == model.blocks[n - 1]]
            kept[[n for n in later if n != self._start]] = 0.0
        whole: Floats = np.where(self.whole, kept, model.stash_bytes)
        return np.where(self.core, model.stash_bytes - model.core_stash_bytes, whole)

    @property
    def layer_bytes(self) -> Floats:
        """Bytes of a whole microbatch that each layer of the model keeps."""
        return self._kept

    def kept(self, share: float) -> Kept:
        """What the stage keeps of a share of a microbatch."""
        here = slice(self._start, self._stop)
        if not self.whole.any() and not self.core.any():
            return Kept(round(float(self._model.stash_bytes[here].sum()) * share), 0, 0)
        back = (self._model.stash_bytes - self._kept)[here]
        units = back
        if self._blocks and len(back):
            blocks = np.array(self._model.blocks)[here]
            begin = np.flatnonzero((blocks != np.roll(blocks, 1)) | (blocks < 0) | (np.arange(len(blocks)) == 0))
            units = np.add.reduceat(back, begin)
        return Kept(
            round(float(self._kept[here].sum()) * share),
            round(float(units.max(initial=0.0)) * share),
            round(float(back.sum()) * share),
        )


def _cheapest(costs: Costs, kind: str) -> Mask:
    """The layers that free more bytes per second than the model as a whole, timed on this kind of device."""
    freed = costs.model.stash_bytes - costs.model.kept_bytes
    seconds = costs.seconds("recompute", kind)
    return np.asarray((freed > 0) & (freed * seconds.sum() > freed.sum() * seconds * (1 + _AS_GOOD)))
