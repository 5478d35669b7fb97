"""GPT: a decoder-only transformer as in GPT-2 and GPT-3.

    embedding ── block0.attention ── block0.mlp ── block1.attention ── ... ── norm ── head

Positions are learned; the norm of attention and mlp stands before the rest.
"""

from pipesim.architectures import transformer
from pipesim.architectures.transformer import Shape
from pipesim.errors import InputError
from pipesim.model import Model


def gpt(
    layers: int,
    hidden: int,
    heads: int,
    *,
    vocabulary: int = 50257,
    sequence: int = 1024,
    positions: int | None = None,
    tied: bool = True,
    microbatch: int = 1,
    precision: str = "fp16",
    name: str = "",
) -> Model:
    """A GPT of so many blocks. `positions`: rows of the position table, by default one for each token of a sequence.

    The matrix of a tied head is counted once, at the embedding, as published totals do; a pipeline that has the two on
    different devices holds it twice.
    """
    if not isinstance(tied, bool):
        raise InputError(f"tied = {tied!r} found; True or False was expected")
    shape = Shape(microbatch, sequence, hidden, heads, vocabulary, precision)
    rows = transformer.checked_positions(positions, sequence)
    parts = (
        transformer.embedding(shape, (rows,), norm=False),
        *transformer.blocks(shape, layers),
        transformer.norm(shape),
        transformer.head(shape, tied=tied, bias=False),
    )
    return Model(name or f"gpt-{layers}x{hidden}", microbatch, parts, precision)


def gpt2_xl(*, microbatch: int = 1, sequence: int = 1024, precision: str = "fp16") -> Model:
    """GPT-2 XL: 48 blocks of hidden size 1600 with 25 heads; sequences of at most 1024 tokens."""
    return gpt(
        48, 1600, 25, positions=1024, sequence=sequence, microbatch=microbatch, precision=precision, name="gpt2-xl"
    )


def gpt3_6_7b(*, microbatch: int = 1, sequence: int = 2048, precision: str = "fp16") -> Model:
    """GPT-3 6.7B: 32 blocks of hidden size 4096 with 32 heads; sequences of at most 2048 tokens."""
    return gpt(
        32, 4096, 32, positions=2048, sequence=sequence, microbatch=microbatch, precision=precision, name="gpt3-6.7b"
    )
