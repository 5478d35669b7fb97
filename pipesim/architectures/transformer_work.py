"""The operations of the layers of transformers, as frameworks with fused kernels (Megatron, DeepSpeed) launch them.

    p bytes of a value   m = 1 byte of a dropout mask   S values between two layers (1/t with sequence parallelism)

    kernel                                          forward     backward
    norm                                            2pS         3pS
    bias gradient                                               p · rows · outputs
    rotation of queries and keys                    2p each     2p each
    softmax of scores, scaled and masked            2p          3p               of each score, unless fused
    dropout of scores                               4p + 2m     2p + m           likewise; forward, see below
    context put back in the order of tokens         2p          2p               of each value, likewise
    activation                                      2p          3p               of the inner width
    gated activation                                3p          5p
    bias, dropout and residual sum                  3pS + mS    2pS + mS, and the sum of both gradients 3pS
    loss in fp32, unfused                           p + 36      p + 12           of each logit; 38 and 14 in 16 bits
    loss, fused                                     3p          2p

Drawing the random numbers of a mask takes about as long as the moves, so forward these count twice, unless the kernel
does more than dropout. A gradient of weights is added to that of earlier microbatches by the product itself, in fp32:
8 bytes per parameter. A table of words gets a dense gradient, which is then added: p + 8 bytes per parameter.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipesim.architectures.operations import MASK_BYTES, SUM_BYTES
from pipesim.core.work import Attention, Kernels, LayerWork, Operation, Product, TeamExchange

if TYPE_CHECKING:
    from pipesim.architectures.transformer import Style, TransformerShape

ACCUMULATED_BYTES = 8
"""Read and written in fp32, where a gradient of weights is added to what is there."""
LOGIT_BYTES = 4
"""The loss keeps its softmax in fp32."""
_LOSS_FORWARD, _LOSS_BACKWARD = 36, 12
_DRAWN = 2


def attention(shape: "TransformerShape", style: "Style", read: "TransformerShape", kept_scores: int) -> LayerWork:
    """Attention of all heads; `read` has the keys. `kept_scores`: bytes that the core keeps."""
    queries, keys, hidden = shape.query_width, shape.key_width, shape.hidden
    if read is shape:
        projections: list[Operation] = [Product(shape.tokens, queries + 2 * keys, hidden)]
    else:
        projections = [Product(shape.tokens, queries, hidden), Product(read.tokens, 2 * keys, hidden)]
    projected = shape.tokens * queries + 2 * read.tokens * keys
    operations = [
        _norm(shape),
        *projections,
        *([_bias_gradient(shape, projected)] if style.bias or style.key_bias else []),
        *(_key_norms(shape, read) if style.key_norm else []),
        *([_rotation(shape, shape.tokens * queries + read.tokens * keys)] if style.rotary else []),
        *_core(shape, style, read),
        Product(shape.tokens, hidden, queries),
        *_residual(shape, style),
    ]
    return LayerWork(tuple(operations), _exchanges(shape), core_stash_bytes=float(kept_scores))


def _core(shape: "TransformerShape", style: "Style", read: "TransformerShape") -> list[Operation]:
    """Scores, softmax, dropout and context."""
    p, heads = shape.value, shape.microbatch * shape.heads // shape.tensor_parallel
    width = shape.one_head
    if style.fused_attention:
        return [Attention(heads, shape.sequence, style.attended(read.sequence), width, width, causal=style.causal)]
    scores = heads * shape.sequence * read.sequence
    masked = (2 * p + MASK_BYTES) * scores
    context = 2 * p * shape.tokens * shape.query_width
    return [
        Product(shape.sequence, read.sequence, width, heads, weights=False, core=True),
        Kernels(2 * p * scores, 3 * p * scores, core=True),
        *([Kernels(_DRAWN * masked, masked, core=True)] if style.dropout else []),
        Product(shape.sequence, width, read.sequence, heads, weights=False, core=True),
        Kernels(context, context, core=True),
    ]


def mlp(shape: "TransformerShape", style: "Style", matrices: int) -> LayerWork:
    """Two linear maps with an activation between; with a gate, the first is twice as wide."""
    p, hidden, inner = shape.value, shape.hidden, shape.inner_width
    values = shape.tokens * inner
    dropped = (2 * p + MASK_BYTES) * values
    gated = matrices > 2
    operations = [
        _norm(shape),
        Product(shape.tokens, (matrices - 1) * inner, hidden),
        *([_bias_gradient(shape, (matrices - 1) * values)] if style.bias else []),
        Kernels((3 if gated else 2) * p * values, (5 if gated else 3) * p * values),
        *([Kernels(_DRAWN * dropped, dropped)] if style.inner_dropout else []),
        Product(shape.tokens, hidden, inner),
        *_residual(shape, style),
    ]
    return LayerWork(tuple(operations), _exchanges(shape))


def latent_attention(shape: "TransformerShape", maps: Sequence[tuple[int, int]], narrow: int, value: int) -> LayerWork:
    """Attention through narrow vectors: `maps` are its products, `narrow` the values with norms, `value` those of a
    head. The first products, to the narrow vectors, are done by every device.
    """
    p, heads = shape.value, shape.heads // shape.tensor_parallel
    *projections, last = [Product(shape.tokens, written, read) for read, written in maps]
    ranks = p * shape.tokens * narrow
    scored = Attention(
        shape.microbatch * heads, shape.sequence, shape.sequence, shape.one_head, value, causal=True
    )  # fmt: skip
    operations: list[Operation] = [
        _norm(shape),
        *projections,
        Kernels(2 * ranks, 3 * ranks, forward_count=2, backward_count=4),
        _rotation(shape, 2 * shape.tokens * shape.query_width),
        scored,
        last,
        _residual_sum(shape),
    ]
    kept = float(heads * shape.tokens * SUM_BYTES)
    return LayerWork(tuple(operations), _exchanges(shape), core_stash_bytes=kept)


def mixture(shape: "TransformerShape", experts: int, active: int, inner: int, shared: int) -> LayerWork:
    """Gated experts of width `inner`, evenly loaded, and one of width `shared` for all tokens; no exchange of tokens.

    Tokens are ordered by expert before, and put back and summed after; products of all experts are one launch each.
    """
    p, hidden, pairs = shape.value, shape.hidden, shape.tokens * active
    used = min(experts, pairs)
    each = -(-pairs // used)
    moved = 2 * p * pairs * hidden
    values = pairs * inner + shape.tokens * shared
    operations: list[Operation] = [
        _norm(shape),
        Product(shape.tokens, experts, hidden),
        Kernels(moved, moved),
        Product(each, 2 * inner, hidden, used),
        *([Product(shape.tokens, 2 * shared, hidden)] if shared else []),
        Kernels(3 * p * values, 5 * p * values),
        Product(each, hidden, inner, used),
        *([Product(shape.tokens, hidden, shared)] if shared else []),
        Kernels(moved, moved),
        _residual_sum(shape),
    ]
    return LayerWork(tuple(operations), _exchanges(shape))


def embedding(shape: "TransformerShape", tables: int, *, norm: bool, dropout: bool, tied: bool) -> LayerWork:
    """Rows looked up and summed; their gradient is as large as the table of words."""
    p, words = shape.value, shape.words * shape.hidden
    masked = (2 * p + MASK_BYTES) * shape.values_outside
    operations: list[Operation] = [
        Kernels(2 * p * shape.values, 2 * p * shape.values, (p + ACCUMULATED_BYTES) * words, weight_count=2),
        *[Kernels(3 * p * shape.values, p * shape.values)] * tables,
        *([_norm(shape)] if norm else []),
        *([Kernels(_DRAWN * masked, masked)] if dropout else []),
    ]
    whole = float(p * shape.values)
    exchanges: tuple[TeamExchange, ...] = (TeamExchange("all_reduce", whole, "forward"),)
    if shape.sequence_parallel:
        exchanges = (
            TeamExchange("reduce_scatter", whole, "forward"),
            TeamExchange("all_gather", whole, "backward_input"),
        )
    return LayerWork(tuple(operations), exchanges, tied_bytes=p * words if tied else 0)


def norm(shape: "TransformerShape") -> LayerWork:
    """A norm as a layer."""
    return LayerWork((_norm(shape),))


def head(shape: "TransformerShape", *, tied: bool, fused_loss: bool) -> LayerWork:
    """Logits of the words of this device, and the loss."""
    p, logits, whole = shape.value, shape.tokens * shape.words, float(shape.values * shape.value)
    if fused_loss:
        loss = Kernels(3 * p * logits, 2 * p * logits)
    else:
        loss = Kernels((p + _LOSS_FORWARD) * logits, (p + _LOSS_BACKWARD) * logits, forward_count=8, backward_count=3)
    sums = (TeamExchange("all_reduce", 4.0 * shape.tokens, "forward"),) * 3  # largest logit, that of the word, sum
    if shape.sequence_parallel:
        inputs: tuple[TeamExchange, ...] = (
            TeamExchange("all_gather", whole, "forward"),
            TeamExchange("reduce_scatter", whole, "backward_input"),
        )
    else:
        inputs = (TeamExchange("all_reduce", whole, "backward_input"),)
    return LayerWork(
        (Product(shape.tokens, shape.words, shape.hidden), loss),
        (*inputs, *sums),
        loss_bytes=0.0 if fused_loss else float(max(LOGIT_BYTES - p, 0) * logits),
        tied_bytes=p * shape.words * shape.hidden if tied else 0,
    )


def _norm(shape: "TransformerShape") -> Kernels:
    size = shape.value * shape.values_outside
    return Kernels(2 * size, 3 * size, backward_count=2)


def _bias_gradient(shape: "TransformerShape", values: int) -> Kernels:
    return Kernels(0, shape.value * values, forward_count=0)


def _rotation(shape: "TransformerShape", values: int) -> Kernels:
    moved = 2 * shape.value * values
    return Kernels(moved, moved, forward_count=2, backward_count=2)


def _residual(shape: "TransformerShape", style: "Style") -> list[Operation]:
    """Bias, dropout and the residual sum; the gradients of both ways meet."""
    p, outside = shape.value, shape.values_outside
    mask = MASK_BYTES if style.dropout else 0
    dropped = (2 * p + mask) * outside if style.dropout else 0
    biased = p * outside if style.bias else 0
    kernels = 1 + (1 if dropped else 0) + (1 if biased else 0)
    added = Kernels((3 * p + mask) * outside, 3 * p * outside + dropped + biased, backward_count=kernels)
    return [_norm(shape), added] if style.post_norm else [added]


def _key_norms(shape: "TransformerShape", read: "TransformerShape") -> list[Operation]:
    """A norm of the queries and one of the keys."""
    sizes = (shape.value * shape.tokens * shape.query_width, shape.value * read.tokens * shape.key_width)
    return [Kernels(2 * size, 3 * size, backward_count=2) for size in sizes]


def _exchanges(shape: "TransformerShape") -> tuple[TeamExchange, ...]:
    """The output is summed forward, the gradient of the inputs backward.

    With sequence parallelism, inputs are gathered and outputs are scattered. That inputs are gathered once more for the
    gradient of the weights is left out: frameworks do it beside the gradient of the inputs.
    """
    whole = float(shape.values * shape.value)
    if not shape.sequence_parallel:
        return TeamExchange("all_reduce", whole, "forward"), TeamExchange("all_reduce", whole, "backward_input")
    return (
        TeamExchange("all_gather", whole, "forward"),
        TeamExchange("reduce_scatter", whole, "forward"),
        TeamExchange("all_gather", whole, "backward_input"),
        TeamExchange("reduce_scatter", whole, "backward_input"),
    )


def _residual_sum(shape: "TransformerShape") -> Kernels:
    """The residual sum without bias and dropout."""
    size = 3 * shape.value * shape.values_outside
    return Kernels(size, size)
