"""GPT: a decoder-only transformer as in GPT-2 and GPT-3.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── norm ── head

Positions are learned; attention and mlp begin with their norm.
"""

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Model


def gpt(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int | None = None,
    vocabulary: int = 50257,
    sequence: int = 1024,
    positions: int | None = None,
    tied: bool = True,
    fused_attention: bool = False,
    fused_loss: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A GPT with `layers` blocks. `positions`: rows of the position table, by default one for each token of a sequence.

    `inner`: width of the mlp, by default 4 * hidden. The matrix of a tied head is counted once, at the embedding, as
    in published totals; a pipeline with the two on different devices stores it twice.
    """
    operations.check_flags(tied=tied)
    operations.check_some_sizes(inner=inner)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel,
        inner=inner or 0, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    rows = transformer.checked_positions(positions, sequence)
    parts = (
        transformer.embedding(shape, (rows,)),
        *transformer.blocks(shape, layers, Style(fused_attention=fused_attention, causal=True)),
        transformer.norm(shape),
        transformer.head(shape, tied=tied, bias=False, fused_loss=fused_loss),
    )
    return Model(name or f"gpt-{layers}x{hidden}", microbatch, parts, precision)


# The released checkpoints of GPT-2.
gpt2 = of_tokens(gpt, "gpt2", 12, 768, 12, tokens=1024, positions=1024)
gpt2_medium = of_tokens(gpt, "gpt2-medium", 24, 1024, 16, tokens=1024, positions=1024)
gpt2_large = of_tokens(gpt, "gpt2-large", 36, 1280, 20, tokens=1024, positions=1024)
gpt2_xl = of_tokens(gpt, "gpt2-xl", 48, 1600, 25, tokens=1024, positions=1024)

# Brown et al., "Language Models are Few-Shot Learners" (2020), table 2.1. There, 1.3B has 24 heads, and 13B a hidden
# size of 5140, which is not divisible by the heads; as usual, they have 16 heads and 5120 here.
gpt3_125m = of_tokens(gpt, "gpt3-125m", 12, 768, 12, tokens=2048, positions=2048)
gpt3_350m = of_tokens(gpt, "gpt3-350m", 24, 1024, 16, tokens=2048, positions=2048)
gpt3_760m = of_tokens(gpt, "gpt3-760m", 24, 1536, 16, tokens=2048, positions=2048)
gpt3_1_3b = of_tokens(gpt, "gpt3-1.3b", 24, 2048, 16, tokens=2048, positions=2048)
gpt3_2_7b = of_tokens(gpt, "gpt3-2.7b", 32, 2560, 32, tokens=2048, positions=2048)
gpt3_6_7b = of_tokens(gpt, "gpt3-6.7b", 32, 4096, 32, tokens=2048, positions=2048)
gpt3_13b = of_tokens(gpt, "gpt3-13b", 40, 5120, 40, tokens=2048, positions=2048)
gpt3_175b = of_tokens(gpt, "gpt3-175b", 96, 12288, 96, tokens=2048, positions=2048)
