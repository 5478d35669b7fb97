"""The transformer of "Attention Is All You Need", for translation: an encoder and a decoder.

    embedding ── encoder0.attention ── encoder0.mlp ── ... ── decoder.embedding ── decoder0.attention ── ... ── head

Positions are sines, without parameters; norms follow the residual sums, so there is none at the end. Source,
target and head share one vocabulary and its matrix.
"""

from dataclasses import replace

from pipesim.architectures import encoder_decoder, operations
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Model


def translation(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int | None = None,
    vocabulary: int = 37000,
    sequence: int = 256,
    target: int | None = None,
    fused_attention: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A model with `layers` blocks in encoder and decoder each; `inner`: width of the mlp, by default 4 * hidden.

    `sequence` is the length of the source, `target` that of the target, by default the same.
    """
    operations.check_sizes(hidden=hidden, inner=4 * hidden if inner is None else inner)
    source = TransformerShape(
        microbatch,
        sequence,
        hidden,
        heads,
        vocabulary,
        precision,
        tensor_parallel,
        inner=inner or 0,
        sequence_parallel=sequence_parallel,
    )
    written = replace(source, sequence=sequence if target is None else target)
    style = Style(fused_attention=fused_attention, activation="relu", inner_dropout=True)
    parts = encoder_decoder.layers_of(source, written, (layers, layers), style, norms=False)
    return Model(name or f"translation-{layers}x{hidden}", microbatch, tuple(parts), precision)


# Vaswani et al. (2017), table 3.
transformer_base = of_tokens(
    translation, "transformer-base", 6, 512, 8, tokens=256, about="6 + 6 blocks of hidden size 512 with 8 heads"
)
transformer_big = of_tokens(
    translation, "transformer-big", 6, 1024, 16, tokens=256, about="6 + 6 blocks of hidden size 1024 with 16 heads"
)
