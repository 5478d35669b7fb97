"""Gemma: a decoder-only transformer in which most blocks attend to the last tokens only, and outputs have norms, too.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── norm ── head

In the last of every `every` blocks tokens attend to all tokens before them, in the others to `window`. Attention and
mlp have a norm before and one after; the mlp is gated with GeLU; the head is tied. This is Gemma 2 and the text model
of Gemma 3, whose queries and keys have norms.
"""

from dataclasses import replace

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import LLAMA_STYLE, TransformerShape
from pipesim.core.model import Model


def gemma(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int,
    key_heads: int | None = None,
    head_width: int = 256,
    key_norm: bool = False,
    window: int = 4096,
    every: int = 2,
    vocabulary: int = 256000,
    sequence: int = 4096,
    tied: bool = True,
    fused_attention: bool = True,
    fused_loss: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A Gemma with `layers` blocks: of the second generation, or with `key_norm` of the third.

    `inner`: width of the mlp; `key_heads`: heads of keys and values, by default all. The matrix of the head is counted
    once, at the embedding.
    """
    operations.check_sizes(layers=layers, inner=inner, head_width=head_width, window=window, every=every)
    operations.check_some_sizes(key_heads=key_heads)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel, key_heads or 0,
        head_width=head_width, inner=inner, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    whole = replace(
        LLAMA_STYLE, fused_attention=fused_attention, activation="geglu", key_norm=key_norm, post_norm=True
    )  # fmt: skip
    parts = []
    for block in range(layers):
        style = whole if block % every == every - 1 else replace(whole, window=window)
        parts += [
            transformer.attention(shape, f"block{block}", style),
            transformer.mlp(shape, f"block{block}", style),
        ]
    return Model(
        name or f"gemma-{layers}x{hidden}",
        microbatch,
        transformer.decoder(shape, parts, whole, tied=tied, fused_loss=fused_loss),
        precision,
    )


# The released checkpoints: Gemma Team (2024, 2025); of Gemma 3, the text model.
gemma2_9b = of_tokens(gemma, "gemma2-9b", 42, 3584, 16, tokens=8192, inner=14336, key_heads=8)
gemma2_27b = of_tokens(gemma, "gemma2-27b", 46, 4608, 32, tokens=8192, inner=36864, key_heads=16, head_width=128)
gemma3_27b = of_tokens(
    gemma, "gemma3-27b", 62, 5376, 32, tokens=8192, inner=21504, key_heads=16, head_width=128, key_norm=True,
    window=1024, every=6, vocabulary=262208, about="62 blocks of hidden size 5376 with 32 heads, without the images",
)  # fmt: skip
