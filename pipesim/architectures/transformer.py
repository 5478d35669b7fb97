"""The layers that transformers are made of.

    embedding ── block0.attention ── block0.mlp ── ... ── heads        residual sums inside attention and mlp

    b samples   s tokens   h hidden   a heads   V vocabulary   p bytes of a value   m = 1 byte of a dropout mask

    layer       forward FLOPs              parameters        kept for the backward (stash)
    embedding   a sum per table and value  tables            ids 8bs, mask m·bsh (and the norm's input p·bsh)
    attention   8bsh² + 4bs²h              4h² + 4h, norm    p·6bsh + m·bsh + (2p + m)·abs²
    mlp         16bsh²                     8h² + 5h, norm    p·10bsh + m·bsh
    norm        7bsh                       2h                p·bsh
    head        2bshV                      tied: none        p·bsh and the logits p·bsV, for the loss

Attention keeps the inputs of its norm, its products and its output projection, the queries, keys and values, and of
the scores the softmax, the mask and what dropout leaves; the mlp keeps the inputs of its norm, its products and its
GeLU. At p = 2 a block keeps 34bsh + 5abs² bytes, as in Korthikanti et al., "Reducing Activation Recomputation in
Large Transformer Models" (2022). A causal mask saves no FLOPs here.
"""

from dataclasses import dataclass

from pipesim.architectures import operations
from pipesim.architectures.operations import INDEX_BYTES, MASK_BYTES
from pipesim.errors import InputError
from pipesim.model import Layer

EMBEDDING = "embedding"
TIED_HEAD = "tied_head"
"""A head that multiplies with the embedding's matrix; the matrix is a parameter of the embedding alone."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a transformer's activations."""

    microbatch: int
    sequence: int
    hidden: int
    heads: int
    vocabulary: int
    precision: str

    def __post_init__(self) -> None:
        operations.check_sizes(
            microbatch=self.microbatch,
            sequence=self.sequence,
            hidden=self.hidden,
            heads=self.heads,
            vocabulary=self.vocabulary,
        )
        operations.value_bytes(self.precision)
        if self.hidden % self.heads:
            raise InputError(f"heads = {self.heads} found; a divisor of hidden = {self.hidden} was expected")

    @property
    def value(self) -> int:
        """Bytes of one value."""
        return operations.value_bytes(self.precision)

    @property
    def tokens(self) -> int:
        """Tokens in a microbatch."""
        return self.microbatch * self.sequence

    @property
    def values(self) -> int:
        """Values between two layers."""
        return self.tokens * self.hidden


def checked_positions(positions: int | None, sequence: int) -> int:
    """Rows of the position table: as many as the sequence has tokens, or as many as stated, if that is enough."""
    if positions is None:
        return sequence
    operations.check_sizes(positions=positions, sequence=sequence)
    if sequence > positions:
        raise InputError(f"sequence = {sequence} found; at most positions = {positions} was expected")
    return positions


def embedding(shape: Shape, other_rows: tuple[int, ...], *, norm: bool) -> Layer:
    """Vectors of tokens, summed with those of other tables (positions, segments), perhaps normed; with dropout."""
    rows = shape.vocabulary + sum(other_rows)
    parameters = rows * shape.hidden + (operations.norm_parameters(shape.hidden) if norm else 0)
    kept = shape.tokens * INDEX_BYTES + shape.values * (MASK_BYTES + (shape.value if norm else 0))
    flops = shape.values * (len(other_rows) + (operations.NORM_FLOPS if norm else 0))
    return Layer(
        name="embedding",
        kind=EMBEDDING,
        output_bytes=shape.values * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=kept,
        forward_flops=float(flops),
    )


def blocks(shape: Shape, count: int) -> list[Layer]:
    """So many blocks, each attention and mlp."""
    operations.check_sizes(layers=count)
    return [part for block in range(count) for part in (attention(shape, block), mlp(shape, block))]


def attention(shape: Shape, block: int) -> Layer:
    """Self-attention of all heads, with its projections, its norm and the residual sum."""
    hidden = shape.hidden
    projections = operations.linear_flops(shape.tokens, hidden, 4 * hidden)
    scores = 2 * operations.linear_flops(shape.tokens, hidden, shape.sequence)
    parameters = 4 * operations.linear_parameters(hidden, hidden) + operations.norm_parameters(hidden)
    probabilities = shape.heads * shape.tokens * shape.sequence
    return Layer(
        name=f"block{block}.attention",
        kind="attention",
        output_bytes=shape.values * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=shape.values * (6 * shape.value + MASK_BYTES) + probabilities * (2 * shape.value + MASK_BYTES),
        forward_flops=float(projections + scores),
    )


def mlp(shape: Shape, block: int) -> Layer:
    """Two linear maps, to four times the width and back, with GeLU between, a norm and the residual sum."""
    hidden, inner = shape.hidden, 4 * shape.hidden
    parameters = operations.linear_parameters(hidden, inner) + operations.linear_parameters(inner, hidden)
    return Layer(
        name=f"block{block}.mlp",
        kind="mlp",
        output_bytes=shape.values * shape.value,
        parameter_bytes=(parameters + operations.norm_parameters(hidden)) * shape.value,
        stash_bytes=shape.values * (10 * shape.value + MASK_BYTES),
        forward_flops=float(2 * operations.linear_flops(shape.tokens, hidden, inner)),
    )


def norm(shape: Shape) -> Layer:
    """A norm that stands by itself."""
    return Layer(
        name="norm",
        kind="norm",
        output_bytes=shape.values * shape.value,
        parameter_bytes=operations.norm_parameters(shape.hidden) * shape.value,
        stash_bytes=shape.values * shape.value,
        forward_flops=float(shape.values * operations.NORM_FLOPS),
    )


def head(shape: Shape, *, tied: bool, bias: bool) -> Layer:
    """Logits over the vocabulary for every token; the loss keeps them."""
    logits = shape.tokens * shape.vocabulary
    own = (0 if tied else shape.hidden * shape.vocabulary) + (shape.vocabulary if bias else 0)
    return Layer(
        name="head",
        kind=TIED_HEAD if tied else "head",
        output_bytes=logits * shape.value,
        parameter_bytes=own * shape.value,
        stash_bytes=(shape.values + logits) * shape.value,
        forward_flops=float(operations.linear_flops(shape.tokens, shape.hidden, shape.vocabulary)),
    )
