"""DeepSeek: a mixture of many small experts, with latent attention.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── block1.moe ── ... ── norm ── head

The first blocks have an mlp instead of experts. Every token uses some of the experts, and the shared ones, which are
one mlp of their summed width. This is V2 and V3; the module of V3 that predicts a further token is not included.
"""

from pipesim.architectures import latent_attention, operations, transformer
from pipesim.architectures.latent_attention import LatentSizes
from pipesim.architectures.moe import Experts, mixture
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import LLAMA_STYLE, TransformerShape
from pipesim.core.model import Model


def deepseek(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int,
    dense_inner: int,
    dense_layers: int = 1,
    experts: int = 64,
    active: int = 6,
    shared: int = 2,
    score_bias: bool = False,
    query_rank: int | None = 1536,
    key_rank: int = 512,
    plain_width: int = 128,
    rotary_width: int = 64,
    value_width: int = 128,
    vocabulary: int = 102400,
    sequence: int = 4096,
    tied: bool = False,
    fused_loss: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A DeepSeek with `layers` blocks; the first `dense_layers` have an mlp of width `dense_inner`.

    The others have `experts` experts of width `inner`, of which each token uses `active`, and `shared` that all use.
    `query_rank` and `key_rank` are the widths of the vectors from which queries, and keys and values, are computed; a
    head's key has `plain_width` values without position and `rotary_width` with. `score_bias`: as in V3, experts have a
    bias in their choice.
    """
    operations.check_sizes(layers=layers, dense_inner=dense_inner)
    sizes = LatentSizes(query_rank, key_rank, plain_width, rotary_width, value_width)
    mixed = Experts(experts, active, inner, shared * inner, score_bias=score_bias)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel,
        head_width=plain_width + rotary_width, inner=dense_inner, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    parts = []
    for block in range(layers):
        last = transformer.mlp(shape, f"block{block}", LLAMA_STYLE) if block < dense_layers else None
        parts += [
            latent_attention.attention(shape, f"block{block}", sizes),
            last or mixture(shape, f"block{block}", mixed),
        ]
    layers_ = transformer.decoder(shape, parts, LLAMA_STYLE, tied=tied, fused_loss=fused_loss)
    return Model(name or f"deepseek-{layers}x{hidden}x{experts}", microbatch, layers_, precision)


# The released checkpoints: DeepSeek-AI (2024).
deepseek_v2_lite = of_tokens(
    deepseek, "deepseek-v2-lite", 27, 2048, 16, tokens=4096, inner=1408, dense_inner=10944, query_rank=None,
    about="27 blocks of hidden size 2048 with 16 heads, 64 experts, 6 active and 2 shared",
)  # fmt: skip
deepseek_v2 = of_tokens(
    deepseek, "deepseek-v2", 60, 5120, 128, tokens=4096, inner=1536, dense_inner=12288, experts=160,
    about="60 blocks of hidden size 5120 with 128 heads, 160 experts, 6 active and 2 shared",
)  # fmt: skip
deepseek_v3 = of_tokens(
    deepseek, "deepseek-v3", 61, 7168, 128, tokens=4096, inner=2048, dense_inner=18432, dense_layers=3, experts=256,
    active=8, shared=1, score_bias=True, vocabulary=129280,
    about="61 blocks of hidden size 7168 with 128 heads, 256 experts, 8 active and 1 shared",
)  # fmt: skip
