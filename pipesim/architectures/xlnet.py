"""XLNet: an encoder whose attention uses distances instead of positions.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── head

    added to each attention        FLOPs                    parameters       kept
    keys of 2s distances           2 · 2bs · h²             h²               p · 2bsh, and their input p · 2bsh
    scores of 2s distances         2 · bs · 2s · h
    scores of 2 segments           2 · bs · 2 · h           2h
    biases of the three scores                              3h

b samples, s tokens, h hidden, p bytes of a value. The projections have no biases. Only the content stream is
modelled, as in fine-tuning; pre-training has a second stream for the words to predict.
"""

from dataclasses import replace

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Layer, Model

_SEGMENTS = 2
_STYLE = Style(inner_dropout=True)
_ATTENTION_STYLE = Style(bias=False)


def xlnet(
    layers: int,
    hidden: int,
    heads: int,
    *,
    vocabulary: int = 32000,
    sequence: int = 512,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """An XLNet with `layers` blocks; the matrix of the head is that of the embedding, and counted there."""
    operations.check_sizes(layers=layers)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel, sequence_parallel=sequence_parallel
    )
    parts = [transformer.embedding(shape)]
    for block in range(layers):
        parts += [_attention(shape, f"block{block}"), transformer.mlp(shape, f"block{block}", _STYLE)]
    parts.append(transformer.head(shape, tied=True, bias=True))
    return Model(name or f"xlnet-{layers}x{hidden}", microbatch, tuple(parts), precision)


def _attention(shape: TransformerShape, block: str) -> Layer:
    """Self-attention, with the additions for distances and segments."""
    plain = transformer.attention(shape, block, _ATTENTION_STYLE)
    hidden, width, distances = shape.hidden, shape.query_width, 2 * shape.sequence
    places = shape.microbatch * distances
    more = operations.linear_flops(places, hidden, width) + operations.linear_flops(
        shape.tokens, width, distances + _SEGMENTS
    )
    return replace(
        plain,
        parameter_bytes=plain.parameter_bytes + (hidden + 3 + _SEGMENTS) * width * shape.value,
        stash_bytes=plain.stash_bytes + places * (hidden + width) * shape.value,
        forward_flops=(plain.forward_flops or 0) + more,
        work=None,
    )


# The released checkpoints of Yang et al. (2019), and the deeper one that papers on pipelines measure.
xlnet_base = of_tokens(xlnet, "xlnet-base", 12, 768, 12, tokens=512)
xlnet_large = of_tokens(xlnet, "xlnet-large", 24, 1024, 16, tokens=512)
xlnet_36 = of_tokens(xlnet, "xlnet-36", 36, 1024, 16, tokens=512)
