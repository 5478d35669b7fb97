"""GPT-NeoX: a GPT whose positions are rotations of queries and keys, with a head of its own; also Pythia.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── norm ── head

There is no dropout. Attention and mlp of a block read the same input and are added; here the mlp follows, which
takes the same work and memory, but for one sum over tensor-parallel devices per block that is saved there.
"""

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Model


def neox(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int | None = None,
    vocabulary: int = 50432,
    sequence: int = 2048,
    tied: bool = False,
    fused_attention: bool = True,
    fused_loss: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A GPT-NeoX with `layers` blocks; `inner`: width of the mlp, by default 4 * hidden.

    `vocabulary` includes the padding of the released checkpoints.
    """
    operations.check_some_sizes(inner=inner)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel,
        inner=inner or 0, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    style = Style(dropout=False, fused_attention=fused_attention, causal=True, rotary=True)
    parts = transformer.decoder(
        shape, transformer.blocks(shape, layers, style), style, tied=tied, fused_loss=fused_loss
    )
    return Model(name or f"neox-{layers}x{hidden}", microbatch, parts, precision)


# The released checkpoints: Black et al. (2022), Biderman et al. (2023).
gpt_neox_20b = of_tokens(neox, "gpt-neox-20b", 44, 6144, 64, tokens=2048)
pythia_70m = of_tokens(neox, "pythia-70m", 6, 512, 8, tokens=2048, vocabulary=50304)
pythia_160m = of_tokens(neox, "pythia-160m", 12, 768, 12, tokens=2048, vocabulary=50304)
pythia_410m = of_tokens(neox, "pythia-410m", 24, 1024, 16, tokens=2048, vocabulary=50304)
pythia_1b = of_tokens(neox, "pythia-1b", 16, 2048, 8, tokens=2048, vocabulary=50304)
pythia_1_4b = of_tokens(neox, "pythia-1.4b", 24, 2048, 16, tokens=2048, vocabulary=50304)
pythia_2_8b = of_tokens(neox, "pythia-2.8b", 32, 2560, 32, tokens=2048, vocabulary=50304)
pythia_6_9b = of_tokens(neox, "pythia-6.9b", 32, 4096, 32, tokens=2048)
pythia_12b = of_tokens(neox, "pythia-12b", 36, 5120, 40, tokens=2048, vocabulary=50688)
