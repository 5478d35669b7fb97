"""The layers of a transformer that reads one sequence and writes another.

    embedding ── encoder0.attention ── encoder0.mlp ── ... ── memory
                                                                └──────────────┬─────────────────── ...
    decoder.embedding ── decoder0.attention ── decoder0.cross_attention ── decoder0.mlp ── ... ── head

Every cross-attention reads the memory, which therefore crosses all cuts of the decoder. The decoder's embedding
uses the encoder's table, as does a tied head; it is counted once.
"""

from dataclasses import replace

from pipesim.architectures import operations, transformer
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Layer


def layers_of(
    source: TransformerShape,
    target: TransformerShape,
    blocks: tuple[int, int],
    style: Style,
    *,
    norms: bool,
    tied: bool = True,
) -> list[Layer]:
    """All layers, with `blocks` blocks in encoder and decoder; `norms`: each ends with a norm. `tied`: the head is."""
    operations.check_sizes(encoder_layers=blocks[0], decoder_layers=blocks[1])
    layers = [transformer.embedding(source, dropout=style.dropout)]
    for block in range(blocks[0]):
        name = f"encoder{block}"
        layers += [transformer.attention(source, name, style), transformer.mlp(source, name, style)]
    if norms:
        layers.append(transformer.norm(source, style, "encoder.norm"))
    memory = len(layers) - 1
    layers.append(
        transformer.embedding(target, dropout=style.dropout, tied=True, inputs=(), name="decoder.embedding")
    )  # fmt: skip
    for block in range(blocks[1]):
        name = f"decoder{block}"
        layers.append(transformer.attention(target, name, style))
        reads = (memory, len(layers) - 1)
        layers.append(transformer.attention(target, name, style, memory=source, inputs=reads))
        layers.append(transformer.mlp(target, name, style))
    if norms:
        layers.append(transformer.norm(target, style, "decoder.norm"))
    return [*layers, transformer.head(target, tied=tied, bias=False)]


def with_parameters(layers: list[Layer], name: str, more_bytes: int) -> list[Layer]:
    """The layers, with more parameters for the named one."""
    return [
        replace(layer, parameter_bytes=layer.parameter_bytes + more_bytes) if layer.name == name else layer
        for layer in layers
    ]
