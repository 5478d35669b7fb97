"""BERT: an encoder-only transformer with the two heads of its pre-training.

                                                ┌─ pooler                 next-sentence prediction
    embedding ── block0.attention ── ... ── mlp ┤
                                                └─ transform ── head      prediction of masked words

The pooler comes before the transform; both read the last block.
"""

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Layer, Model

_CLASSES = 2


def bert(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int | None = None,
    vocabulary: int = 30522,
    sequence: int = 512,
    positions: int | None = None,
    segments: int = 2,
    fused_attention: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A BERT with `layers` blocks. `positions`: rows of the position table, by default one per token of a sequence.

    `inner`: width of the mlp, by default 4 * hidden; `segments`: rows of the table of segments. Included are the pooler
    with the next-sentence classifier, and the masked-language head: a linear map with GeLU and norm, then logits for
    every token with the embedding's matrix, which is counted once, at the embedding. Pooler and transform are not
    divided by tensor parallelism.
    """
    operations.check_some_sizes(inner=inner, segments=segments)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel,
        inner=inner or 0, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    rows = transformer.checked_positions(positions, sequence)
    body = (
        transformer.embedding(shape, (rows, segments), norm=True),
        *transformer.blocks(shape, layers, Style(fused_attention=fused_attention)),
    )
    parts = (
        *body,
        _pooler(shape),
        _transform(shape, reads=len(body) - 1),
        transformer.head(shape, tied=True, bias=True),
    )
    return Model(name or f"bert-{layers}x{hidden}", microbatch, parts, precision)


def _pooler(shape: TransformerShape) -> Layer:
    """Each sample's first token through a linear map with tanh, then to two classes. Keeps what each map reads."""
    first, hidden = shape.microbatch, shape.hidden
    parameters = operations.linear_parameters(hidden, hidden) + operations.linear_parameters(hidden, _CLASSES)
    return Layer(
        name="pooler",
        kind="linear",
        output_bytes=first * _CLASSES * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=first * 2 * hidden * shape.value,
        forward_flops=float(operations.linear_flops(first, hidden, hidden + _CLASSES)),
    )


def _transform(shape: TransformerShape, reads: int) -> Layer:
    """Every token through a linear map with GeLU and a norm. Keeps what each of the three reads."""
    hidden = shape.hidden
    parameters = operations.linear_parameters(hidden, hidden) + operations.norm_parameters(hidden)
    return Layer(
        name="transform",
        kind="linear",
        output_bytes=shape.values * shape.value,
        parameter_bytes=parameters * shape.value,
        stash_bytes=3 * shape.values * shape.value,
        inputs=(reads,),
        forward_flops=float(operations.linear_flops(shape.tokens, hidden, hidden)),
    )


# The released checkpoints of Devlin et al. (2018), and the deeper one that papers on pipelines measure.
bert_base = of_tokens(bert, "bert-base", 12, 768, 12, tokens=512, positions=512)
bert_large = of_tokens(bert, "bert-large", 24, 1024, 16, tokens=512, positions=512)
bert_48 = of_tokens(bert, "bert-48", 48, 1024, 16, tokens=512, positions=512)
