"""A transformer with a mixture of experts: a Llama with several mlps per block, of which each token uses a few.

    embedding ── block0.attention ── block0.moe ── block1.attention ── ... ── norm ── head

               ┌ expert 0 ┐
    router ── ─┼ expert 1 ┼─ sum        every token uses `active` of the `experts`
               └ expert 2 ┘

Parameters are those of all experts; FLOPs and the stash are those of the active ones, evenly loaded. All experts of a
block are on the device of the block, or divided by tensor parallelism.
"""

from pipesim.architectures import operations, transformer
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import LLAMA_STYLE, TransformerShape
from pipesim.base.errors import InputError
from pipesim.core.model import Layer, Model


def moe(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int,
    experts: int = 8,
    active: int = 2,
    every: int = 1,
    key_heads: int | None = None,
    vocabulary: int = 32000,
    sequence: int = 4096,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A model with `layers` blocks, with experts in the last of every `every`; `inner` is the width of one expert.

    `key_heads`: heads of keys and values, by default all.
    """
    operations.check_sizes(
        layers=layers,
        inner=inner,
        experts=experts,
        active=active,
        every=every,
        key_heads=heads if key_heads is None else key_heads,
    )
    if active > experts:
        raise InputError(f"active = {active} found; at most experts = {experts} was expected")
    shape = TransformerShape(
        microbatch,
        sequence,
        hidden,
        heads,
        vocabulary,
        precision,
        tensor_parallel,
        key_heads or 0,
        inner=inner,
        sequence_parallel=sequence_parallel,
    )
    parts = [transformer.embedding(shape, dropout=False)]
    for block in range(layers):
        mixed = block % every == every - 1
        parts += [
            transformer.attention(shape, f"block{block}", LLAMA_STYLE),
            _mixture(shape, f"block{block}", experts, active)
            if mixed
            else transformer.mlp(shape, f"block{block}", LLAMA_STYLE),
        ]
    parts += [transformer.norm(shape, LLAMA_STYLE), transformer.head(shape, tied=False, bias=False)]
    return Model(name or f"moe-{layers}x{hidden}x{experts}", microbatch, tuple(parts), precision)


def _mixture(shape: TransformerShape, block: str, experts: int, active: int) -> Layer:
    """A norm, the router, the experts, the residual sum.

    Each token keeps the inputs of the norm and of the router, a score per expert, and for each of its experts the
    expert's input and output (for the gradient of its weight) and four tensors of the inner width.
    """
    hidden, inner = shape.hidden, shape.inner_width
    matrices, tensors = transformer.ACTIVATIONS[LLAMA_STYLE.activation]
    router = operations.linear_flops(shape.tokens, hidden, experts)
    expert = matrices * operations.linear_flops(shape.tokens, hidden, inner)
    kept = shape.tokens * (experts + active * (2 * hidden + tensors * inner)) + 2 * shape.values_outside
    return Layer(
        name=f"{block}.moe",
        kind="moe",
        output_bytes=shape.values * shape.value,
        parameter_bytes=(experts * (matrices * hidden * inner + hidden) + hidden) * shape.value,
        stash_bytes=kept * shape.value,
        forward_flops=float(router + active * expert),
    )


# The released checkpoints of Mixtral: Jiang et al. (2024).
mixtral_8x7b = of_tokens(
    moe, "mixtral-8x7b", 32, 4096, 32, tokens=4096, inner=14336, key_heads=8,
    about="32 blocks of hidden size 4096 with 32 heads, 8 experts, 2 active",
)  # fmt: skip
mixtral_8x22b = of_tokens(
    moe, "mixtral-8x22b", 56, 6144, 48, tokens=4096, inner=16384, key_heads=8, vocabulary=32768,
    about="56 blocks of hidden size 6144 with 48 heads, 8 experts, 2 active",
)  # fmt: skip
