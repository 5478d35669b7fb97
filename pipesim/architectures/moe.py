"""A transformer with a mixture of experts: a Llama with several mlps per block, of which each token uses a few.

    embedding ── block0.attention ── block0.moe ── block1.attention ── ... ── norm ── head

               ┌ expert 0 ┐
    router ── ─┼ expert 1 ┼─ sum        every token uses `active` of the `experts`
               ├ expert 2 ┤
               └  shared  ┘             and the shared expert, if there is one

Parameters are those of all experts; FLOPs and the stash are those of the active ones, evenly loaded. All experts of a
block are on the device of the block, or divided by tensor parallelism.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipesim.architectures import operations, transformer, transformer_work
from pipesim.architectures.presets import of_tokens
from pipesim.architectures.transformer import LLAMA_STYLE, Style, TransformerShape
from pipesim.base.errors import InputError
from pipesim.core.model import Layer, Model


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of one layer; `inner` is the width of each, `shared` that of one that all tokens use, 0 for none.

    `shared_gate`: what the shared expert adds is scaled for each token. `score_bias`: a bias per expert in the choice.
    """

    count: int
    active: int
    inner: int
    shared: int = 0
    shared_gate: bool = False
    score_bias: bool = False

    def __post_init__(self) -> None:
        operations.check_sizes(experts=self.count, active=self.active, inner=self.inner, shared=self.shared or 1)
        operations.check_flags(shared_gate=self.shared_gate, score_bias=self.score_bias)
        if self.active > self.count:
            raise InputError(f"active = {self.active} found; at most experts = {self.count} was expected")


def moe(
    layers: int,
    hidden: int,
    heads: int,
    *,
    inner: int,
    experts: int = 8,
    active: int = 2,
    every: int = 1,
    dense_inner: int | None = None,
    shared_inner: int = 0,
    shared_gate: bool = False,
    key_heads: int | None = None,
    head_width: int | None = None,
    key_bias: bool = False,
    key_norm: bool = False,
    vocabulary: int = 32000,
    sequence: int = 4096,
    tied: bool = False,
    fused_loss: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    name: str = "",
) -> Model:
    """A model with `layers` blocks, with experts in the last of every `every`; `inner` is the width of one expert.

    `dense_inner`: width of the mlp of blocks without experts, by default the same. `shared_inner`: width of an expert
    that all tokens use, scaled for each token with `shared_gate`. `key_heads`: heads of keys and values, by default
    all. `head_width`: by default hidden / heads. `key_bias` and `key_norm`: biases and norms as in Qwen.
    """
    operations.check_sizes(layers=layers, inner=inner, every=every)
    operations.check_some_sizes(key_heads=key_heads, dense_inner=dense_inner, head_width=head_width)
    mixed = Experts(experts, active, inner, shared_inner, shared_gate)
    shape = TransformerShape(
        microbatch, sequence, hidden, heads, vocabulary, precision, tensor_parallel, key_heads or 0,
        head_width=head_width or 0, inner=dense_inner or inner, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    style = replace(LLAMA_STYLE, key_bias=key_bias, key_norm=key_norm)
    parts = list(_blocks(shape, layers, every, mixed, style))
    return Model(
        name or f"moe-{layers}x{hidden}x{experts}",
        microbatch,
        transformer.decoder(shape, parts, style, tied=tied, fused_loss=fused_loss),
        precision,
    )


def _blocks(shape: TransformerShape, layers: int, every: int, experts: Experts, style: Style) -> Iterator[Layer]:
    """The blocks, with experts in the last of every `every`."""
    for block in range(layers):
        name = f"block{block}"
        yield transformer.attention(shape, name, style)
        mixed = block % every == every - 1
        yield mixture(shape, name, experts, style) if mixed else transformer.mlp(shape, name, style)


def mixture(shape: TransformerShape, block: str, experts: Experts, style: Style = LLAMA_STYLE) -> Layer:
    """A norm, the router, the experts, the residual sum.

    Each token keeps the inputs of the norm and of the router, a score per expert, and for each of its experts the
    expert's input and output (for the gradient of its weight) and the tensors of the inner width. A shared expert reads
    the router's input; its output is kept if it is scaled.
    """
    for name, width in (("inner", experts.inner), ("shared_inner", experts.shared)):
        operations.check_divides("tensor_parallel", shape.tensor_parallel, name, width)
    hidden = shape.hidden
    inner, shared = experts.inner // shape.tensor_parallel, experts.shared // shape.tensor_parallel
    matrices, tensors = transformer.ACTIVATIONS[style.activation]
    router = operations.linear_flops(shape.tokens, hidden, experts.count + experts.shared_gate)
    mlps = matrices * operations.linear_flops(shape.tokens, hidden, experts.active * inner + shared)
    gate = hidden if experts.shared_gate else 0
    kept = shape.tokens * (experts.count + experts.active * (2 * hidden + tensors * inner) + tensors * shared + gate)
    kept += 2 * shape.values_outside
    vectors = style.norm_vectors * hidden + gate + (experts.count if experts.score_bias else 0)
    return Layer(
        name=f"{block}.moe",
        kind="moe",
        output_bytes=shape.values * shape.value,
        parameter_bytes=(experts.count * (matrices * hidden * inner + hidden) + matrices * hidden * shared + vectors)
        * shape.value,
        stash_bytes=kept * shape.value,
        forward_flops=float(router + mlps),
        work=transformer_work.mixture(shape, experts.count + experts.shared_gate, experts.active, inner, shared),
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
