"""What layouts of one tensor width and one size of microbatches have in common: costs, and what precedes each cut."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import BLOCK, Blocks, even_bounds, stated_bounds
from pipesim.core.trace import Trace
from pipesim.lowering import Options
from pipesim.lowering.recompute import Recomputation


@dataclass(frozen=True, eq=False)
class WidthInputs:
    """Cluster, trace, costs, and the layers before which stages can be cut, from the first to the end.

    `counts` are the blocks before each cut; of a model without blocks, the layers.
    """

    cluster: Cluster
    trace: Trace
    costs: Costs
    blocks: Blocks | None
    cuts: Ints
    counts: Ints

    @classmethod
    def of(cls, cluster: Cluster, trace: Trace, costs: Costs, blocks: Blocks | None) -> "WidthInputs":
        """Cuts before and after every block, and at both ends of the model."""
        units = costs.model if blocks is None else blocks.costs.model
        starts = [n for n, layer in enumerate(units.layers) if layer.kind == BLOCK] or list(range(len(units)))
        after = {n: count for count, n in enumerate([*starts, starts[-1] + 1])} | {0: 0, len(units): len(starts)}
        places = np.array(sorted(after), np.int64)
        counts = np.array([after[n] for n in places.tolist()], np.int64)
        return cls(cluster, trace, costs, blocks, places if blocks is None else blocks.bounds[places], counts)

    def even(self, stages: int) -> list[int]:
        """The layers at which even cuts are, with both ends."""
        units = self.costs.model if self.blocks is None else self.blocks.costs.model
        bounds = even_bounds(units, stages)
        return bounds if self.blocks is None else self.blocks.bounds[bounds].tolist()

    def stated(self, counts: Sequence[int]) -> list[int]:
        """The layers at which cuts are between stages of so many blocks, with both ends."""
        units = self.costs.model if self.blocks is None else self.blocks.costs.model
        bounds = stated_bounds(units, counts)
        return bounds if self.blocks is None else self.blocks.bounds[bounds].tolist()

    def counts_at(self, bounds: Sequence[int]) -> tuple[int, ...]:
        """The blocks of each stage between these layers."""
        return tuple(np.diff(self.counts[np.searchsorted(self.cuts, bounds)]).tolist())

    def before(self, options: Options, kind: str) -> Floats:
        """What precedes each layer: seconds of forwards and backwards, bytes of parameters and activations."""
        return _before(self, options, kind)


@functools.lru_cache(maxsize=512)  # of all widths, sizes and recomputations of a search
def _before(inputs: WidthInputs, options: Options, kind: str) -> Floats:
    costs, model = inputs.costs, inputs.costs.model
    again = Recomputation(options, costs, kind, 0, len(model))
    whole, first = costs.backward(kind), costs.seconds("backward_first", kind)
    parts = costs.seconds("backward_input", kind) + costs.seconds("backward_weight", kind)
    recomputed = costs.seconds("recompute", kind) * again.whole + costs.seconds("core", kind) * again.core
    rows = [
        costs.forward(kind),
        np.minimum(np.minimum(whole, first), parts) + recomputed,
        model.parameter_bytes,
        again.layer_bytes,
    ]
    return np.concatenate([np.zeros((4, 1)), np.cumsum(np.stack(rows), axis=1)], axis=1)
