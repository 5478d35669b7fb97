"""Multi-head latent attention: keys and values, and often queries, come from a narrow vector per token.

    input ─┬─ query_rank ── norm ── queries of all heads                 (or queries directly, without query_rank)
           └─ key_rank ──── norm ── keys and values of all heads
           └─ rotary ────────────── a part of every head's key that has the position

    b samples   s tokens   h hidden   a heads   q query_rank   c key_rank   r rotary   n plain   v values of a head

    forward FLOPs   2bs (hq + qa(n + r) + h(c + r) + ca(n + v) + avh) + 2bs²a(n + r + v)
    parameters          hq + qa(n + r) + h(c + r) + ca(n + v) + avh, norms h + q + c

As in DeepSeek-V2 (2024) and V3. A head's query and key have n plain values and r rotary ones. With tensor parallelism
heads are divided; the maps to the narrow vectors, and these, are on every device. What is kept are the inputs of the
norms and of the products, queries, keys, values and the result, and one number for each row of scores: it is fused.
"""

from dataclasses import dataclass

from pipesim.architectures import operations, transformer_work
from pipesim.architectures.operations import SUM_BYTES
from pipesim.architectures.transformer import TransformerShape
from pipesim.core.model import Layer


@dataclass(frozen=True, slots=True)
class LatentSizes:
    """Widths of latent attention; without `query_rank`, queries are computed from the input directly."""

    query_rank: int | None
    key_rank: int
    plain: int
    rotary: int
    values: int

    def __post_init__(self) -> None:
        operations.check_some_sizes(
            query_rank=self.query_rank,
            key_rank=self.key_rank,
            plain_width=self.plain,
            rotary_width=self.rotary,
            value_width=self.values,
        )


def attention(shape: TransformerShape, block: str, sizes: LatentSizes) -> Layer:
    """Latent attention with its norm and the residual sum; norms have a gain only, nothing has a bias."""
    hidden, heads = shape.hidden, shape.heads // shape.tensor_parallel
    query, result = heads * (sizes.plain + sizes.rotary), heads * sizes.values
    narrow = sizes.query_rank or 0
    maps = [
        *([(hidden, narrow), (narrow, query)] if narrow else [(hidden, query)]),
        (hidden, sizes.key_rank + sizes.rotary),
        (sizes.key_rank, heads * (sizes.plain + sizes.values)),
        (result, hidden),
    ]
    products = sum(operations.linear_flops(shape.tokens, read, written) for read, written in maps)
    scores = operations.linear_flops(shape.tokens, query + result, shape.sequence)
    parameters = sum(read * written for read, written in maps) + hidden + narrow + sizes.key_rank
    # Before and after their norms, but for the rotary part, which is in the keys.
    ranks = 2 * narrow + 2 * sizes.key_rank
    kept = 2 * shape.values_outside + shape.tokens * (ranks + 2 * query + 2 * result)
    return Layer(
        name=f"{block}.attention",
        kind="attention",
        output_bytes=shape.values * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=kept * shape.value + heads * shape.tokens * SUM_BYTES,
        forward_flops=float(products + scores),
        work=transformer_work.latent_attention(shape, maps, narrow + sizes.key_rank, sizes.values),
    )
