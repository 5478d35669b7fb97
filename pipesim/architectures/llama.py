"""Llama: a decoder-only transformer with gated mlps, and with fewer keys and values than queries in the larger ones.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── norm ── head

Positions are rotations of queries and keys, without parameters. Norms have a gain only; there are no biases and no
dropout. Attention is fused by default, since the scores of long sequences do not fit into memory.
"""

from dataclasses import replace

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import LLAMA_STYLE, TransformerShape
from pipesim.core.model import Model


def llama(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int,
    key_heads: int | None = None,
    head_width: int | None = None,
    window: int = 0,
    vocabulary: int = 32000,
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
    """A Llama with `layers` blocks. `inner`: width of the mlp; `key_heads`: heads of keys and values, by default all.

    `head_width`: by default hidden / heads. `window`: tokens that a token attends to, by default all. The matrix of a
    tied head is counted once, at the embedding.
    """
    operations.check_some_sizes(inner=inner, key_heads=key_heads, head_width=head_width, window=window or None)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel, key_heads or 0,
        head_width=head_width or 0, inner=inner, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    style = replace(LLAMA_STYLE, fused_attention=fused_attention, window=window)
    parts = transformer.decoder(
        shape, transformer.blocks(shape, layers, style), style, tied=tied, fused_loss=fused_loss
    )
    return Model(name or f"llama-{layers}x{hidden}", microbatch, parts, precision)


# The released checkpoints: Touvron et al. (2023), Dubey et al. (2024), and for Mistral Jiang et al. (2023).
# Llama 1 has the sizes of Llama 2 in 7B and 13B.
llama2_7b = of_tokens(llama, "llama2-7b", 32, 4096, 32, tokens=4096, inner=11008)
llama2_13b = of_tokens(llama, "llama2-13b", 40, 5120, 40, tokens=4096, inner=13824)
llama2_70b = of_tokens(llama, "llama2-70b", 80, 8192, 64, tokens=4096, inner=28672, key_heads=8)
llama3_1b = of_tokens(
    llama, "llama3.2-1b", 16, 2048, 32, tokens=8192, inner=8192, key_heads=8, vocabulary=128256, tied=True
)
llama3_8b = of_tokens(llama, "llama3-8b", 32, 4096, 32, tokens=8192, inner=14336, key_heads=8, vocabulary=128256)
llama3_70b = of_tokens(llama, "llama3-70b", 80, 8192, 64, tokens=8192, inner=28672, key_heads=8, vocabulary=128256)
llama3_405b = of_tokens(
    llama, "llama3.1-405b", 126, 16384, 128, tokens=8192, inner=53248, key_heads=8, vocabulary=128256
)
mistral_7b = of_tokens(llama, "mistral-7b", 32, 4096, 32, tokens=4096, inner=14336, key_heads=8, window=4096)
