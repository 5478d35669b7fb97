"""Activations that are computed once more in place of being kept: which layers, what they keep, what it takes."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats
from pipesim.core.costs import Costs
from pipesim.lowering.setup import Recompute

# A layer that is better than the whole by less than this part is as good: equal layers must not differ by rounding.
_AS_GOOD = 1e-9


class Kept(NamedTuple):
    """Bytes of one microbatch on one replica of a stage.

    stash       kept from the forward to the backward
    restored    what recomputation brings back in addition: of the largest layer, for a whole backward goes layer by
                layer; of all layers where the weights' gradients come later and still need it
    """

    stash: int
    restored: int
    restored_until_weights: int


def chosen_layers(recompute: Recompute, costs: Costs, kind: str) -> NDArray[np.bool_]:
    """Which layers do their forward once more; how long that takes is looked up for this kind of device."""
    freed = costs.model.stash_bytes - costs.model.kept_bytes
    if recompute != "selective":
        return np.full(len(freed), recompute == "full")
    seconds = costs.seconds("recompute", kind)
    return np.asarray((freed > 0) & (freed * seconds.sum() > freed.sum() * seconds * (1 + _AS_GOOD)))


class Recomputation:
    """What recomputation means for the stages of a plan."""

    def __init__(self, recompute: Recompute, costs: Costs, kind: str) -> None:
        self.layers = chosen_layers(recompute, costs, kind)
        self._model = costs.model

    @cached_property
    def stash(self) -> Floats:
        """Bytes that each layer keeps."""
        return np.where(self.layers, self._model.kept_bytes, self._model.stash_bytes)

    def kept(self, start: int, stop: int, share: float) -> Kept:
        """What a stage of these layers keeps."""
        back = (self._model.stash_bytes - self.stash)[start:stop]
        return Kept(
            round(float(self.stash[start:stop].sum()) * share),
            round(float(back.max(initial=0.0)) * share),
            round(float(back.sum()) * share),
        )
