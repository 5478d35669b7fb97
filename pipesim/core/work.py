"""What a device does for one layer and microbatch: its operations, and what the devices of a team exchange.

    operation   forward                gradient of the inputs       gradient of the weights
    Product     C = A · B              A' = C' · Bᵀ                 B' = Aᵀ · C'
    (no weights)                       and B' = Aᵀ · C'             none
    Attention   one fused kernel       one, five products for two   none
    Kernels     `forward` bytes        `backward` bytes             `weight` bytes

These are facts of the model, without times. A `core` operation belongs to the attention core (scores, softmax, dropout,
context), which Megatron's selective recomputation does once more.
"""

from dataclasses import dataclass
from typing import Literal

Phase = Literal["forward", "backward_input", "backward_weight"]
Collective = Literal["all_reduce", "all_gather", "reduce_scatter"]

# The gradient of the scores takes five products where the forward takes two: Dao et al., "FlashAttention" (2022).
FUSED_BACKWARD = 2.5


@dataclass(frozen=True, slots=True)
class Product:
    """`count` products of an m x k by a k x n matrix, which holds weights or (`weights` False) activations."""

    m: int
    n: int
    k: int
    count: int = 1
    weights: bool = True
    core: bool = False

    @property
    def flops(self) -> float:
        """FLOPs of the forward."""
        return 2.0 * self.m * self.n * self.k * self.count


@dataclass(frozen=True, slots=True)
class Attention:
    """Fused attention of `heads` heads (of all samples): scores stay on the chip.

    `causal`: only the half of the scores on and below the diagonal is computed, as FlashAttention and cuDNN do.
    """

    heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    causal: bool = False
    core: bool = True

    @property
    def flops(self) -> float:
        """FLOPs of the forward without mask."""
        return 2.0 * self.heads * self.queries * self.keys * (self.width + self.value_width)

    @property
    def computed_flops(self) -> float:
        """FLOPs that the kernel does."""
        return self.flops / 2 if self.causal and self.queries == self.keys else self.flops

    @property
    def values(self) -> int:
        """Values of queries, keys, values and output."""
        return self.heads * (self.queries + self.keys) * (self.width + self.value_width)


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels that mostly move bytes: norms, activations, dropout, sums. Bytes read and written, kernels launched."""

    forward: float = 0.0
    backward: float = 0.0
    weight: float = 0.0
    forward_count: int = 1
    backward_count: int = 1
    weight_count: int = 0
    core: bool = False


Operation = Product | Attention | Kernels


@dataclass(frozen=True, slots=True)
class TeamExchange:
    """A collective of the devices that share the layer; `bytes` of the whole tensor, summed or gathered."""

    collective: Collective
    bytes: float
    phase: Phase


@dataclass(frozen=True, slots=True)
class LayerWork:
    """The operations of a layer on one device, and its exchanges with the others of its team.

    `core_stash_bytes`: the part of the stash that belongs to the attention core. `loss_bytes`: what a loss in fp32
    keeps beyond the stash. `tied_bytes`: parameters of another layer that this one uses, whose gradients are summed
    where both are on different devices.
    """

    operations: tuple[Operation, ...] = ()
    exchanges: tuple[TeamExchange, ...] = ()
    core_stash_bytes: float = 0.0
    loss_bytes: float = 0.0
    tied_bytes: int = 0

    @property
    def flops(self) -> float:
        """FLOPs of the products of the forward, without mask."""
        return sum(one.flops for one in self.operations if not isinstance(one, Kernels))
