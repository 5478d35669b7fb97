"""Granularity of plans: blocks that frameworks do not cut are one layer each in the model that planners see.

    layers    embedding  block0.attention  block0.mlp  block1.attention  block1.mlp  norm  head
    units     embedding  block0 ..................... block1 .....................  norm  head

Planners and layouts cut between units; their plans are expanded to layers. Names of the layers of a block begin with
`blockN.`; other layers are units of their own.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core.costs import Costs
from pipesim.core.model import Layer, Model
from pipesim.core.plan import Plan

BLOCK = "block"  # the kind of a unit that is a block


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The costs of the units of a model, and the first layer of each; bounds end with the number of layers."""

    costs: Costs
    bounds: Ints

    def expanded(self, plan: Plan) -> Plan:
        """A plan of units as one of layers."""
        stages = (
            replace(one, start=int(self.bounds[one.start]), stop=int(self.bounds[one.stop])) for one in plan.stages
        )
        return _with(plan, stages, int(self.bounds[-1]))

    def contracted(self, plan: Plan) -> Plan | None:
        """A plan of layers as one of units; None if it cuts a block."""
        if not np.isin(plan.cuts, self.bounds).all():
            return None
        unit = {int(bound): n for n, bound in enumerate(self.bounds)}
        stages = (replace(one, start=unit[one.start], stop=unit[one.stop]) for one in plan.stages)
        return _with(plan, stages, len(self.bounds) - 1)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Add to errors about layers that blocks are counted."""
        try:
            yield
        except InputError as error:
            if "layers" in error.message:
                error.message += "; a block counts as one layer, unless granularity is layer"
            raise


def _with(plan: Plan, stages: Iterator[object], layers: int) -> Plan:
    return replace(plan, stages=tuple(stages), layers=layers)  # type: ignore[arg-type]  # stages


@functools.lru_cache(maxsize=4)  # of a sweep, a comparison: few costs, asked for at each of many points
def blocks_of(costs: Costs) -> Blocks | None:
    """The units of a model; None if it has no block of several layers."""
    blocks = costs.model.blocks
    starts = [n for n, block in enumerate(blocks) if not n or block < 0 or block != blocks[n - 1]]
    if len(starts) == len(blocks):
        return None
    bounds = np.array([*starts, len(blocks)], np.int64)
    others = {widths: _at(other, bounds) for widths, other in costs.others.items()}
    return Blocks(replace(_at(costs, bounds), others=others), bounds)


def _at(costs: Costs, bounds: Ints) -> Costs:
    return costs.merged(_merged(costs.model, bounds), bounds[:-1])


def _merged(model: Model, bounds: Ints) -> Model:
    """The model of the units: a chain, in which the output of a unit is all that crosses the cut after it."""
    units = []
    for first, end in pairwise(bounds.tolist()):
        inside, block = model.layers[first:end], model.blocks[first]
        flops = [layer.forward_flops for layer in inside if layer.forward_flops is not None]
        unit = Layer(
            name=f"block{block}" if block >= 0 else inside[0].name,
            output_bytes=float(model.cut_bytes[end - 1]),
            parameter_bytes=sum(layer.parameter_bytes for layer in inside),
            stash_bytes=sum(layer.stash_bytes for layer in inside),
            kind=BLOCK if block >= 0 else inside[0].kind,
            forward_flops=sum(flops) if len(flops) == len(inside) else None,
            frozen_bytes=sum(layer.frozen_bytes for layer in inside),
            has_gradient=inside[-1].has_gradient,
        )
        units.append(unit)
    return replace(model, layers=tuple(units))


def even_bounds(model: Model, parts: int) -> list[int]:
    """The bounds of parts with equally many layers, to within one; of units, with equally many blocks.

    What precedes the first block is in the first part, what follows a block is with it.
    """
    blocks = [n for n, layer in enumerate(model.layers) if layer.kind == BLOCK]
    if len(blocks) < parts:
        return [n * len(model) // parts for n in range(parts + 1)]
    return [0, *(blocks[n * len(blocks) // parts] for n in range(1, parts)), len(model)]


def stated_bounds(model: Model, counts: Sequence[int]) -> list[int]:
    """The bounds of parts with so many blocks each; of layers, where the model has no blocks.

    >>> from pipesim.core.model import Layer
    >>> layers = [Layer(name, 1.0, 1, 1.0, kind) for name, kind in (("e", ""), ("b0", "block"), ("b1", "block"))]
    >>> stated_bounds(Model("m", 1, tuple(layers)), (1, 1))
    [0, 2, 3]
    """
    starts = [n for n, layer in enumerate(model.layers) if layer.kind == BLOCK] or list(range(len(model)))
    if min(counts, default=0) < 0 or sum(counts) != len(starts):
        raise InputError(f"{tuple(counts)}: {sum(counts)} blocks found; {len(starts)} in all were expected")
    ends = [*starts, starts[-1] + 1]
    return [0, *(ends[count] for count in accumulate(counts[:-1])), len(model)]
