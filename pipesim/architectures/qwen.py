"""Qwen: a Llama whose queries, keys and values have biases (2 and 2.5), or whose queries and keys have norms (3).

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── norm ── head

Its mixtures of experts are those of `moe`: with a shared expert that is scaled for each token in 1.5 and 2, without
in 3.
"""

from dataclasses import replace

from pipesim.architectures import operations, transformer
from pipesim.architectures.moe import moe
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import LLAMA_STYLE, TransformerShape
from pipesim.core.model import Model


def qwen(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int,
    key_heads: int | None = None,
    head_width: int | None = None,
    key_bias: bool = False,
    key_norm: bool = False,
    vocabulary: int = 151936,
    sequence: int = 4096,
    tied: bool = False,
    fused_attention: bool = True,
    fused_loss: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A Qwen with `layers` blocks: with `key_bias` of the second generation, with `key_norm` of the third.

    `inner`: width of the mlp; `key_heads`: heads of keys and values, by default all; `head_width`: by default hidden /
    heads. The matrix of a tied head is counted once, at the embedding.
    """
    operations.check_some_sizes(inner=inner, key_heads=key_heads, head_width=head_width)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel, key_heads or 0,
        head_width=head_width or 0, inner=inner, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    style = replace(
        LLAMA_STYLE, fused_attention=fused_attention, key_bias=key_bias, key_norm=key_norm
    )  # fmt: skip
    parts = transformer.decoder(
        shape, transformer.blocks(shape, layers, style), style, tied=tied, fused_loss=fused_loss
    )
    return Model(name or f"qwen-{layers}x{hidden}", microbatch, parts, precision)


# The released checkpoints of Qwen2.5 (2024) and Qwen3 (2025).
qwen2_5_7b = of_tokens(
    qwen, "qwen2.5-7b", 28, 3584, 28, tokens=4096, inner=18944, key_heads=4, key_bias=True, vocabulary=152064
)
qwen2_5_32b = of_tokens(
    qwen, "qwen2.5-32b", 64, 5120, 40, tokens=4096, inner=27648, key_heads=8, key_bias=True, vocabulary=152064
)
qwen2_5_72b = of_tokens(
    qwen, "qwen2.5-72b", 80, 8192, 64, tokens=4096, inner=29568, key_heads=8, key_bias=True, vocabulary=152064
)
qwen3_8b = of_tokens(
    qwen, "qwen3-8b", 36, 4096, 32, tokens=4096, inner=12288, key_heads=8, head_width=128, key_norm=True
)
qwen3_32b = of_tokens(
    qwen, "qwen3-32b", 64, 5120, 64, tokens=4096, inner=25600, key_heads=8, head_width=128, key_norm=True
)
qwen3_30b_a3b = of_tokens(
    moe, "qwen3-30b-a3b", 48, 2048, 32, tokens=4096, inner=768, experts=128, active=8, key_heads=4, head_width=128,
    key_norm=True, vocabulary=151936, about="48 blocks of hidden size 2048 with 32 heads, 128 experts, 8 active",
)  # fmt: skip
qwen3_235b_a22b = of_tokens(
    moe, "qwen3-235b-a22b", 94, 4096, 64, tokens=4096, inner=1536, experts=128, active=8, key_heads=4, head_width=128,
    key_norm=True, vocabulary=151936, about="94 blocks of hidden size 4096 with 64 heads, 128 experts, 8 active",
)  # fmt: skip
