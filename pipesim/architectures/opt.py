"""OPT: a GPT with ReLU, with two rows more in its table of positions.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── norm ── head

                   with narrower embeddings:   embedding ── project_in ── ... ── project_out ── head

Where embeddings are narrower than the blocks, as in the model with 350 million parameters, they are widened before
and narrowed after the blocks, whose norms then follow the residual sums, so that there is none at the end.
"""

from dataclasses import replace

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Layer, Model

_MORE_POSITIONS = 2


def opt(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int | None = None,
    embedding_width: int | None = None,
    final_norm: bool = True,
    vocabulary: int = 50272,
    sequence: int = 2048,
    positions: int | None = None,
    tied: bool = True,
    fused_attention: bool = True,
    fused_loss: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """An OPT with `layers` blocks; `inner`: width of the mlp, by default 4 * hidden.

    `embedding_width`: by default hidden. `positions`: by default one for each token of a sequence.
    """
    operations.check_flags(tied=tied, final_norm=final_norm)
    operations.check_some_sizes(inner=inner, embedding_width=embedding_width)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel,
        inner=inner or 0, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    rows = transformer.checked_positions(positions, sequence) + _MORE_POSITIONS
    style = Style(activation="relu", fused_attention=fused_attention, causal=True)
    outside = replace(shape, hidden=embedding_width or hidden, head_width=shape.one_head)
    narrow = outside.hidden != hidden
    parts = [
        transformer.embedding(outside, () if narrow else (rows,), dropout=not narrow),
        *([_projection("project_in", outside, shape, rows)] if narrow else []),
        *transformer.blocks(shape, layers, style),
        *([transformer.norm(shape)] if final_norm else []),
        *([_projection("project_out", shape, outside)] if narrow else []),
        transformer.head(outside, tied=tied, bias=False, fused_loss=fused_loss),
    ]
    return Model(name or f"opt-{layers}x{hidden}", microbatch, tuple(parts), precision)


def _projection(name: str, read: TransformerShape, written: TransformerShape, rows: int = 0) -> Layer:
    """A linear map without bias, and a table of positions of its output; not divided by tensor parallelism."""
    return Layer(
        name=name,
        kind="linear",
        output_bytes=written.values * written.value,
        parameter_bytes=(read.hidden + rows) * written.hidden * written.value,
        stash_bytes=read.values * read.value + (written.values * operations.MASK_BYTES if rows else 0),
        forward_flops=float(operations.linear_flops(read.tokens, read.hidden, written.hidden)),
    )


# The released checkpoints: Zhang et al., "OPT: Open Pre-trained Transformer Language Models" (2022), table 1.
opt_125m = of_tokens(opt, "opt-125m", 12, 768, 12, tokens=2048, positions=2048)
opt_350m = of_tokens(
    opt, "opt-350m", 24, 1024, 16, tokens=2048, positions=2048, embedding_width=512, final_norm=False
)  # fmt: skip
opt_1_3b = of_tokens(opt, "opt-1.3b", 24, 2048, 32, tokens=2048, positions=2048)
opt_2_7b = of_tokens(opt, "opt-2.7b", 32, 2560, 32, tokens=2048, positions=2048)
opt_6_7b = of_tokens(opt, "opt-6.7b", 32, 4096, 32, tokens=2048, positions=2048)
opt_13b = of_tokens(opt, "opt-13b", 40, 5120, 40, tokens=2048, positions=2048)
opt_30b = of_tokens(opt, "opt-30b", 48, 7168, 56, tokens=2048, positions=2048)
opt_66b = of_tokens(opt, "opt-66b", 64, 9216, 72, tokens=2048, positions=2048)
