"""The layers of transformers.

    embedding ── block0.attention ── block0.mlp ── ... ── heads        residual sums inside attention and mlp

    b samples   s tokens   h hidden   a heads   V vocabulary   p bytes of a value   m = 1 byte of a dropout mask

    layer       forward FLOPs              parameters        kept for the backward (stash)
    embedding   a sum per table and value  tables            ids 8bs, mask m·bsh (and the norm's input p·bsh)
    attention   8bsh² + 4bs²h              4h² + 4h, norm    p·6bsh + m·bsh + (2p + m)·abs²
    mlp         16bsh²                     8h² + 5h, norm    p·10bsh + m·bsh
    norm        7bsh                       2h                p·bsh
    head        2bshV                      tied: none        p·bsh and the logits p·bsV, for the loss

Attention keeps the inputs of its norm, its products and its output projection, the queries, keys and values, and of
the scores the softmax, the mask and the result of dropout; the mlp keeps the inputs of its norm, its products and its
GeLU. At p = 2 a block keeps 34bsh + 5abs² bytes, as in Korthikanti et al., "Reducing Activation Recomputation in
Large Transformer Models" (2022). A causal mask saves no FLOPs here.

This is GPT and BERT. A `Style` describes other models: no biases, a norm without bias, no dropout, another activation,
fused attention, which keeps one number for each row of scores. A `TransformerShape` can have heads narrower or wider
than h / a, fewer keys and values than queries, another width in the mlp, and a width t of tensor parallelism: then the
layers are the part of one of t devices, as in Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
Clusters" (2021). Heads, the mlp's width and the vocabulary (padded) are divided by t; norms, their inputs, dropout
masks and the tensors between layers are not: 10bsh + (24bsh + 5abs²) / t bytes are kept in a block. With sequence
parallelism these are divided, too: (34bsh + 5abs²) / t; the tensors between layers are still counted whole.

Of what attention keeps, 5abs² / t belong to its core, which selective recomputation does again. Each layer states its
operations, in `transformer_work`. The stash of the head has p bytes for each logit; a loss in fp32 keeps 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipesim.architectures import operations, transformer_work
from pipesim.architectures.operations import INDEX_BYTES, MASK_BYTES, SUM_BYTES
from pipesim.base.errors import InputError
from pipesim.core.model import Layer

EMBEDDING = "embedding"
TIED_EMBEDDING = "tied_embedding"
"""A second embedding that uses the table of the first, which alone has it as a parameter."""
TIED_HEAD = "tied_head"
"""A head that uses the matrix of the embedding, which alone has it as a parameter."""
HEAD = "head"
REDUCED = frozenset({EMBEDDING, TIED_EMBEDDING, "attention", "cross_attention", "mlp", "moe"})
"""Kinds of layers whose output tensor-parallel devices sum."""

# Activation -> (matrices of the mlp, tensors of its inner width that are kept). ReLU works in place; the gated ones,
# in one kernel, keep the gate, what is gated, and the product.
ACTIVATIONS = {"gelu": (2, 2), "relu": (2, 1), "swiglu": (3, 3), "geglu": (3, 3)}


@dataclass(frozen=True, slots=True)
class Style:
    """The style of blocks: by default that of GPT and BERT.

    `norm_vectors`: a gain and a bias, or only a gain. `inner_dropout`: another dropout inside the mlp. `causal`: fused
    attention computes half of the scores. `rotary`: positions are rotations of queries and keys. `key_bias`: queries,
    keys and values have biases even if nothing else has. `key_norm`: the queries and keys of each head have a norm.
    `post_norm`: the outputs of attention and mlp have a norm, too. `window`: tokens that a token attends to, 0 for all;
    only fused attention leaves out the others.
    """

    bias: bool = True
    norm_vectors: int = 2
    dropout: bool = True
    fused_attention: bool = False
    activation: Literal["gelu", "relu", "swiglu", "geglu"] = "gelu"
    inner_dropout: bool = False
    causal: bool = False
    rotary: bool = False
    key_bias: bool = False
    key_norm: bool = False
    post_norm: bool = False
    window: int = 0

    def __post_init__(self) -> None:
        operations.check_flags(fused_attention=self.fused_attention, key_bias=self.key_bias, key_norm=self.key_norm)

    def attended(self, keys: int) -> int:
        """Of these keys, those for which a query has a score."""
        return min(keys, self.window) if self.window and self.fused_attention else keys


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """The sizes of a transformer. 0 means: as many key heads as heads, a head width of h / a, an inner width of 4h."""

    microbatch: int
    sequence: int
    hidden: int
    heads: int
    vocabulary: int
    precision: str
    tensor_parallel: int = 1
    key_heads: int = 0
    head_width: int = 0
    inner: int = 0
    sequence_parallel: bool = False

    def __post_init__(self) -> None:
        operations.check_sizes(
            microbatch=self.microbatch,
            sequence=self.sequence,
            hidden=self.hidden,
            heads=self.heads,
            vocabulary=self.vocabulary,
            tensor_parallel=self.tensor_parallel,
            key_heads=self.key_heads or 1,
            head_width=self.head_width or 1,
            inner=self.inner or 1,
        )
        operations.value_bytes(self.precision)
        operations.check_flags(sequence_parallel=self.sequence_parallel)
        if not self.head_width:
            operations.check_divides("heads", self.heads, "hidden", self.hidden)
        operations.check_divides("key_heads", self.key_heads or self.heads, "heads", self.heads)
        for name, value in self._divided():
            operations.check_divides("tensor_parallel", self.tensor_parallel, name, value)
        if self.sequence_parallel:
            operations.check_divides("tensor_parallel", self.tensor_parallel, "sequence", self.sequence)

    def _divided(self) -> tuple[tuple[str, int], ...]:
        """The sizes that tensor parallelism must divide; the vocabulary is padded instead."""
        return (
            ("heads", self.heads),
            ("key_heads", self.key_heads or self.heads),
            ("inner", self.inner or 4 * self.hidden),
        )

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

    @property
    def values_outside(self) -> int:
        """Those of them that a device has where it shares no product: all, or its part with sequence parallelism."""
        return self.values // self.tensor_parallel if self.sequence_parallel else self.values

    @property
    def one_head(self) -> int:
        """Values of a token's queries in one head."""
        return self.head_width or self.hidden // self.heads

    @property
    def query_width(self) -> int:
        """Values of a token's queries, on one device."""
        return self.heads * self.one_head // self.tensor_parallel

    @property
    def key_width(self) -> int:
        """Values of a token's keys, on one device."""
        return self.query_width * (self.key_heads or self.heads) // self.heads

    @property
    def inner_width(self) -> int:
        """Values of a token inside the mlp, on one device."""
        return (self.inner or 4 * self.hidden) // self.tensor_parallel

    @property
    def words(self) -> int:
        """Rows of the vocabulary on one device."""
        return -(-self.vocabulary // self.tensor_parallel)


GPT_STYLE = Style()
LLAMA_STYLE = Style(
    bias=False, norm_vectors=1, dropout=False, fused_attention=True, activation="swiglu", causal=True, rotary=True
)


def checked_positions(positions: int | None, sequence: int) -> int:
    """Rows of the position table: one per token of the sequence, or as stated, if that is enough."""
    if positions is None:
        return sequence
    operations.check_sizes(positions=positions, sequence=sequence)
    if sequence > positions:
        raise InputError(f"sequence = {sequence} found; at most positions = {positions} was expected")
    return positions


def embedding(
    shape: TransformerShape,
    other_rows: tuple[int, ...] = (),
    *,
    norm: bool = False,
    dropout: bool = True,
    tied: bool = False,
    inputs: tuple[int, ...] | None = None,
    name: str = "embedding",
) -> Layer:
    """Vectors of tokens, summed with those of other tables (positions, segments); norm and dropout are optional."""
    rows = (0 if tied else shape.words) + sum(other_rows)
    parameters = rows * shape.hidden + (operations.norm_parameters(shape.hidden) if norm else 0)
    kept = (MASK_BYTES if dropout else 0) + (shape.value if norm else 0)
    flops = shape.values * (len(other_rows) + (operations.NORM_FLOPS if norm else 0))
    return Layer(
        name=name,
        kind=TIED_EMBEDDING if tied else EMBEDDING,
        output_bytes=shape.values * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=shape.tokens * INDEX_BYTES + shape.values_outside * kept,
        inputs=inputs,
        forward_flops=float(flops),
        work=transformer_work.embedding(shape, len(other_rows), norm=norm, dropout=dropout, tied=tied),
    )


def blocks(shape: TransformerShape, count: int, style: Style = GPT_STYLE) -> list[Layer]:
    """`count` blocks, each of attention and mlp."""
    operations.check_sizes(layers=count)
    return [
        part
        for block in range(count)
        for part in (attention(shape, f"block{block}", style), mlp(shape, f"block{block}", style))
    ]


def decoder(
    shape: TransformerShape, blocks: Sequence[Layer], style: Style, *, tied: bool, fused_loss: bool = False
) -> tuple[Layer, ...]:
    """A decoder without table of positions: an embedding, these blocks, a norm and a head."""
    operations.check_flags(tied=tied, fused_loss=fused_loss)
    first = embedding(shape, dropout=style.dropout)
    return (first, *blocks, norm(shape, style), head(shape, tied=tied, bias=False, fused_loss=fused_loss))


def attention(
    shape: TransformerShape,
    block: str,
    style: Style = GPT_STYLE,
    *,
    memory: TransformerShape | None = None,
    inputs: tuple[int, ...] | None = None,
) -> Layer:
    """Attention of all heads, with its projections, its norm and the residual sum.

    It attends to the same sequence, or to `memory`, the output of an encoder, which is then read and kept, too.
    """
    read = memory or shape
    hidden, queries, keys = shape.hidden, shape.query_width, shape.key_width
    projections = operations.linear_flops(shape.tokens, hidden, 2 * queries) + operations.linear_flops(
        read.tokens, hidden, 2 * keys
    )
    scores = 2 * operations.linear_flops(shape.tokens, queries, style.attended(read.sequence))
    parameters = hidden * (2 * queries + 2 * keys) + _attention_vectors(shape, style)
    kept = 2 * shape.values_outside + 2 * shape.tokens * queries + 2 * read.tokens * keys
    kept += read.values_outside if memory else 0
    kept += (shape.tokens * queries + read.tokens * keys if style.key_norm else 0) + _post_norm_values(shape, style)
    scored = _score_bytes(shape, style, read.sequence)
    return Layer(
        name=f"{block}.cross_attention" if memory else f"{block}.attention",
        kind="cross_attention" if memory else "attention",
        output_bytes=shape.values * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=kept * shape.value + _mask_bytes(shape, style) + scored,
        inputs=inputs,
        forward_flops=float(projections + scores),
        work=transformer_work.attention(shape, style, read, scored),
    )


def _attention_vectors(shape: TransformerShape, style: Style) -> int:
    """Parameters of attention beside its matrices: norms and biases."""
    inner_norms = 2 * style.norm_vectors * shape.one_head if style.key_norm else 0
    key_biases = shape.query_width + 2 * shape.key_width if style.bias or style.key_bias else 0
    return _outer_norms(shape, style) + inner_norms + key_biases + (shape.hidden if style.bias else 0)


def _outer_norms(shape: TransformerShape, style: Style) -> int:
    """Parameters of the norm before attention or mlp, and of that after it."""
    return (1 + style.post_norm) * style.norm_vectors * shape.hidden


def _post_norm_values(shape: TransformerShape, style: Style) -> int:
    """What the norm of the output of attention or mlp keeps: its input."""
    return shape.values_outside if style.post_norm else 0


def _mask_bytes(shape: TransformerShape, style: Style) -> int:
    """Bytes that the dropout at the end of a layer keeps."""
    return shape.values_outside * MASK_BYTES if style.dropout else 0


def _score_bytes(shape: TransformerShape, style: Style, keys: int) -> int:
    """Bytes of the scores that are kept: the softmax, the mask and the result of dropout; fused, a sum per row."""
    rows = shape.heads * shape.tokens // shape.tensor_parallel
    if style.fused_attention:
        return rows * SUM_BYTES
    return rows * keys * (2 * shape.value + MASK_BYTES if style.dropout else shape.value)


def mlp(shape: TransformerShape, block: str, style: Style = GPT_STYLE) -> Layer:
    """Two linear maps with an activation between, a norm and the residual sum; with a gate in some activations."""
    hidden, inner = shape.hidden, shape.inner_width
    matrices, tensors = ACTIVATIONS[style.activation]
    biases = (matrices - 1) * inner + hidden if style.bias else 0
    parameters = matrices * hidden * inner + biases + _outer_norms(shape, style)
    outside = 2 * shape.values_outside + _post_norm_values(shape, style)
    inside = tensors * shape.value + (shape.value + MASK_BYTES if style.inner_dropout else 0)
    return Layer(
        name=f"{block}.mlp",
        kind="mlp",
        output_bytes=shape.values * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=outside * shape.value + shape.tokens * inner * inside + _mask_bytes(shape, style),
        forward_flops=float(matrices * operations.linear_flops(shape.tokens, hidden, inner)),
        work=transformer_work.mlp(shape, style, matrices),
    )


def norm(shape: TransformerShape, style: Style = GPT_STYLE, name: str = "norm") -> Layer:
    """A norm as a layer."""
    return Layer(
        name=name,
        kind="norm",
        output_bytes=shape.values * shape.value,
        parameter_bytes=style.norm_vectors * shape.hidden * shape.value,
        stash_bytes=shape.values_outside * shape.value,
        forward_flops=float(shape.values * operations.NORM_FLOPS),
        work=transformer_work.norm(shape),
    )


def head(shape: TransformerShape, *, tied: bool, bias: bool, fused_loss: bool = False) -> Layer:
    """Logits over the vocabulary for every token; the loss keeps them. A fused loss works in the model's precision."""
    logits = shape.tokens * shape.words
    own = (0 if tied else shape.hidden * shape.words) + (shape.words if bias else 0)
    return Layer(
        name="head",
        kind=TIED_HEAD if tied else HEAD,
        output_bytes=logits * shape.value,
        parameter_bytes=own * shape.value,
        stash_bytes=(shape.values_outside + logits) * shape.value,
        forward_flops=float(operations.linear_flops(shape.tokens, shape.hidden, shape.words)),
        work=transformer_work.head(shape, tied=tied, fused_loss=fused_loss),
    )
