"""Models: layers in topological order with their sizes and inputs, without times."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError
from pipesim.core.teams import SINGLE, Widths
from pipesim.core.trace import Trace
from pipesim.core.work import LayerWork

_RARE = {"unless_default": True}  # left out of files where it has its default
_BLOCK = re.compile(r"block([0-9]{1,9})\.")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; bytes and FLOPs are for a whole microbatch. `inputs=None` means it reads the layer before.

    `work` is what a device does for it, where the architecture states that; traces do not keep it.
    """

    name: str
    output_bytes: float
    parameter_bytes: int = 0
    stash_bytes: float = 0
    kind: str = ""
    inputs: tuple[int, ...] | None = None
    forward_flops: float | None = None
    work: LayerWork | None = field(default=None, compare=False)
    core_stash_bytes: float = field(default=0, metadata=_RARE)
    """The part of the stash that selective recomputation frees: the core of attention, as in Megatron-LM."""
    frozen_bytes: float = field(default=0, metadata=_RARE)
    """The part of the parameters that is not trained: it has no gradient and no optimizer state."""
    has_gradient: bool = field(default=True, metadata=_RARE)
    """Whether a gradient of its output is needed: where it, or a layer that it depends on, is trained."""
    backward_flops: float | None = field(default=None, metadata=_RARE)
    """Where that is not twice the forward's: where parameters are frozen."""

    def __post_init__(self) -> None:
        for name in ("output_bytes", "parameter_bytes", "stash_bytes", "core_stash_bytes", "frozen_bytes"):
            value = getattr(self, name)
            if not 0 <= value < np.inf:
                raise InputError(
                    f"layer {self.name!r}: {name}: {value} found; a finite number, not negative, was expected"
                )


@dataclass(frozen=True)
class Model:
    """Layers in order, with sizes for microbatches of `microbatch_size` samples; validated on construction."""

    FORMAT: ClassVar[str] = "pipesim.model"
    VERSION: ClassVar[int] = 1

    name: str
    microbatch_size: int
    layers: tuple[Layer, ...]
    precision: str = field(default="")
    widths: Widths = field(default=SINGLE, metadata=_RARE)
    """The widths of the teams that these sizes are for: parameters, stash and FLOPs are those of one GPU of a team."""
    sequence: int = field(default=0, compare=False, metadata=_RARE)
    sequence_parallel: bool = field(default=False, compare=False, metadata=_RARE)

    def __post_init__(self) -> None:
        check_at_least("microbatch_size", self.microbatch_size)
        if not self.layers:
            raise InputError("a model needs at least one layer")
        for index, layer in enumerate(self.layers):
            for source in layer.inputs or ():
                if not 0 <= source < index:
                    raise InputError(
                        f"layers[{index}].inputs: {source} found; inputs are layers before it, 0 to {index - 1}"
                    )

    def __len__(self) -> int:
        return len(self.layers)

    def inputs(self, layer: int) -> tuple[int, ...]:
        """The inputs of this layer."""
        stated = self.layers[layer].inputs
        return stated if stated is not None else tuple(range(max(layer - 1, 0), layer))

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The number of each layer's block, from names such as block3.attention; -1 for layers of no block."""
        found = (_BLOCK.match(layer.name) for layer in self.layers)
        return tuple(int(match[1]) if match else -1 for match in found)

    @cached_property
    def cut_bytes(self) -> Floats:
        """Bytes of activations across the cut after each layer; 0 after the last.

        An output read several layers later is relayed: it counts once at each cut it crosses.
        """
        return self._crossing([layer.output_bytes for layer in self.layers])

    @cached_property
    def gradient_bytes(self) -> Floats:
        """Bytes of gradients across the cut after each layer: of the activations that need one."""
        if not self.is_partly_frozen:
            return self.cut_bytes
        return self._crossing([layer.output_bytes * layer.has_gradient for layer in self.layers])

    @cached_property
    def is_partly_frozen(self) -> bool:
        """Whether any layer has parameters that are not trained."""
        return any(layer.frozen_bytes or not layer.has_gradient for layer in self.layers)

    def _crossing(self, sizes: Sequence[float]) -> Floats:
        """The sum of the sizes of what crosses the cut after each layer."""
        last_reader = list(range(len(self.layers)))
        for layer in range(len(self.layers)):
            for source in self.inputs(layer):
                last_reader[source] = max(last_reader[source], layer)
        # In exact arithmetic: with floats, a cut that no activation crosses would keep a rounding error.
        change = [Fraction(0)] * len(self.layers)
        for layer, reader in enumerate(last_reader):
            size = Fraction(sizes[layer])
            change[layer] += size
            change[reader] -= size
        return np.array([float(crossing) for crossing in itertools.accumulate(change)], np.float64)

    @cached_property
    def parameter_bytes(self) -> Floats:
        """Bytes of parameters of each layer."""
        return np.array([layer.parameter_bytes for layer in self.layers], np.float64)

    @cached_property
    def trained_bytes(self) -> Floats:
        """Bytes of the parameters of each layer that are trained."""
        return self.parameter_bytes - np.array([layer.frozen_bytes for layer in self.layers], np.float64)

    @cached_property
    def kept_bytes(self) -> Floats:
        """Bytes that each layer keeps to recompute its forward: its inputs, or its stash if that is smaller."""
        reads = [sum(self.layers[i].output_bytes for i in dict.fromkeys(self.inputs(n))) for n in range(len(self))]
        return np.minimum(self.stash_bytes, np.array(reads, np.float64))

    @cached_property
    def stash_bytes(self) -> Floats:
        """Bytes that each layer keeps of one microbatch from forward to backward."""
        return np.array([layer.stash_bytes for layer in self.layers], np.float64)

    @cached_property
    def core_stash_bytes(self) -> Floats:
        """Bytes of each layer's stash that selective recomputation frees."""
        return np.array([layer.core_stash_bytes for layer in self.layers], np.float64)

    @property
    def has_bytes(self) -> bool:
        """Whether bytes of parameters and of activations are known, without which memory is not."""
        return bool(self.parameter_bytes.any() and self.stash_bytes.any())

    def parameters_of(self, start: int, stop: int) -> float:
        """Bytes of the parameters of the layers start to stop - 1."""
        return self._sum_of("parameter_bytes", start, stop)

    def stash_of(self, start: int, stop: int) -> float:
        """Bytes that these layers keep of one microbatch."""
        return self._sum_of("stash_bytes", start, stop)

    def _sum_of(self, column: str, start: int, stop: int) -> float:
        key = column, start, stop
        if key not in self._sums:
            self._sums[key] = float(getattr(self, column)[start:stop].sum())
        return self._sums[key]

    @cached_property
    def _sums(self) -> dict[tuple[str, int, int], float]:
        """Kept, since plans have most of their stages in common."""
        return {}

    def flops_of(self, start: int, stop: int) -> float | None:
        """FLOPs of the forward and the backward of these layers; None if those of any are unknown."""
        found = 0.0
        for layer in self.layers[start:stop]:
            if layer.forward_flops is None:
                return None
            again = 2 * layer.forward_flops if layer.backward_flops is None else layer.backward_flops
            found += layer.forward_flops + again
        return found

    @cached_property
    def forward_flops(self) -> float | None:
        """FLOPs of the forward of one microbatch; None if those of any layer are unknown."""
        known = [layer.forward_flops for layer in self.layers if layer.forward_flops is not None]
        return float(sum(known)) if len(known) == len(self.layers) else None


def model_of(trace: Trace, microbatch_size: int | None = None, widths: Widths | None = None) -> Model:
    """The model in a trace, its sizes for microbatches of the given size and widths (default: the trace's own).

    Bytes and FLOPs are those of the nearest recorded size, scaled in proportion.
    """
    size = trace.microbatch_size if microbatch_size is None else microbatch_size
    check_at_least("microbatch_size", size)
    table = trace.layers
    wide = trace.widths[0] if widths is None else widths
    at = trace.rows_at(wide)
    recorded = np.unique(table["microbatch_size"][at])
    nearest = recorded[np.argmin(np.abs(recorded - size))]
    rows = np.flatnonzero((table["microbatch_size"] == nearest) & at)
    rows = rows[np.unique(table["layer"][rows], return_index=True)[1]]
    scale = size / nearest
    flops = table["forward_flops"][rows]
    layers = tuple(
        Layer(
            name=table["name"][row],
            output_bytes=float(table["output_bytes"][row] * scale),
            parameter_bytes=int(table["parameter_bytes"][row]),
            stash_bytes=float(table["stash_bytes"][row] * scale),
            kind=table["kind"][row],
            inputs=inputs,
            forward_flops=None if np.isnan(flop) else float(flop * scale),
            core_stash_bytes=float(table["core_stash_bytes"][row] * scale),
        )
        for row, inputs, flop in zip(rows.tolist(), trace.inputs(), flops.tolist(), strict=True)
    )
    return Model(trace.model, size, layers, trace.precision, wide, trace.sequence, trace.sequence_parallel)
