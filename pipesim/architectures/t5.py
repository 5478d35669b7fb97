"""T5: an encoder and a decoder, with learned biases for relative positions.

    embedding ── encoder0.attention ── encoder0.mlp ── ... ── encoder.norm
                                              decoder.embedding ── decoder0.attention ── ... ── decoder.norm ── head

Norms have a gain only, nothing else has a bias. The biases for distances are parameters of the first self-attention
of the encoder and of the decoder, and are used by all others. This is the T5 of 2019: ReLU in the mlp, and a tied head;
T5 1.1 and Flan-T5 have a mlp that is gated with GeLU and a head of their own.
"""

from dataclasses import replace

from pipesim.architectures import encoder_decoder, operations
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Model


def t5(
    layers: int,
    hidden: int,
    heads: int,
    *,
    decoder_layers: int | None = None,
    inner: int | None = None,
    gated: bool = False,
    head_width: int = 64,
    distances: int = 32,
    vocabulary: int = 32128,
    sequence: int = 512,
    target: int | None = None,
    tied: bool = True,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A T5 with `layers` blocks in encoder and decoder each; `inner` is the width of the mlp, by default 4 * hidden.

    `decoder_layers`: blocks of the decoder, if not as many. `gated`: the mlp is gated, with GeLU. `distances`: relative
    positions that have a bias. `sequence` is the length of the input, `target` that of the output, by default the same.
    """
    operations.check_flags(gated=gated, tied=tied)
    operations.check_some_sizes(head_width=head_width, inner=inner, distances=distances)
    source = TransformerShape(
        microbatch,
        sequence,
        hidden,
        heads,
        vocabulary,
        precision,
        tensor_parallel,
        head_width=head_width,
        inner=inner or 0,
        sequence_parallel=sequence_parallel,
    )
    written = replace(source, sequence=sequence if target is None else target)
    style = Style(bias=False, norm_vectors=1, activation="geglu" if gated else "relu", inner_dropout=True)
    counts = (layers, layers if decoder_layers is None else decoder_layers)
    parts = encoder_decoder.layers_of(source, written, counts, style, norms=True, tied=tied)
    biases = distances * heads // tensor_parallel * source.value
    for first in ("encoder0.attention", "decoder0.attention"):
        parts = encoder_decoder.with_parameters(parts, first, biases)
    return Model(name or f"t5-{layers}x{hidden}", microbatch, tuple(parts), precision)


# The released checkpoints of Raffel et al. (2019).
t5_small = of_tokens(t5, "t5-small", 6, 512, 8, tokens=512, about="6 + 6 blocks of hidden size 512 with 8 heads")
t5_base = of_tokens(t5, "t5-base", 12, 768, 12, tokens=512, about="12 + 12 blocks of hidden size 768 with 12 heads")
t5_large = of_tokens(t5, "t5-large", 24, 1024, 16, tokens=512, about="24 + 24 blocks of hidden size 1024 with 16 heads")
t5_3b = of_tokens(
    t5, "t5-3b", 24, 1024, 32, tokens=512, inner=16384, head_width=128,
    about="24 + 24 blocks of hidden size 1024 with 32 heads",
)  # fmt: skip
t5_11b = of_tokens(
    t5, "t5-11b", 24, 1024, 128, tokens=512, inner=65536, head_width=128,
    about="24 + 24 blocks of hidden size 1024 with 128 heads",
)  # fmt: skip
