import pytest

from helpers.models import build
from pipesim.architectures.gpt import gpt
from pipesim.core.work import Attention, Kernels, Product

# Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022); fp16.
S, B, H, A, T = 32, 3, 96, 8, 4
LAYERS, WORDS = 2, 120


def made(**options):
    return gpt(LAYERS, H, A, sequence=S, microbatch=B, vocabulary=WORDS, **options).layers


def core(layer):
    return layer.work.core_stash_bytes


@pytest.mark.parametrize(
    ("options", "outside", "inside"),
    [
        ({}, 10, 24),
        ({"tensor_parallel": T}, 10, 24 / T),
        ({"tensor_parallel": T, "sequence_parallel": True}, 10 / T, 24 / T),
    ],
)
def test_every_layer_keeps_the_activations_of_the_published_formulas(options, outside, inside):
    """A block: attention 11sbh + 5as²b, mlp 19sbh, norms 4sbh, of which outside of products 10sbh.

    Both ends: the mask of the embedding's dropout sbh, input of the last norm and of the head 2sbh each, logits in
    fp32 4sbv; token ids are not counted there.
    """
    width = options.get("tensor_parallel", 1)
    part = width if "sequence_parallel" in options else 1
    embedding, attention, mlp, *_, norm, head = made(**options)
    sbh, scores = S * B * H, 5 * A * S * S * B / width
    assert embedding.stash_bytes - 8 * S * B == sbh / part
    assert attention.stash_bytes == sbh * (5 / part + 8 / width) + scores
    assert mlp.stash_bytes == sbh * (5 / part + 16 / width)
    assert attention.stash_bytes + mlp.stash_bytes == sbh * (outside + inside) + scores
    assert norm.stash_bytes == 2 * sbh / part
    assert head.stash_bytes + head.work.loss_bytes == 2 * sbh / part + 4 * S * B * WORDS / width


@pytest.mark.parametrize("options", [{}, {"tensor_parallel": T}, {"tensor_parallel": T, "sequence_parallel": True}])
def test_what_the_attention_core_keeps_is_the_term_that_selective_recomputation_drops(options):
    """Of a block 34sbh / t bytes are left with sequence parallelism, 10sbh + 24sbh / t without."""
    width = options.get("tensor_parallel", 1)
    _, attention, mlp, *_ = made(**options)
    left = attention.stash_bytes - core(attention) + mlp.stash_bytes - core(mlp)
    assert core(attention) == 5 * A * S * S * B / width
    assert left == S * B * H * (34 / width if "sequence_parallel" in options else 10 + 24 / width)


def test_the_activations_of_the_published_22b_model_are_those_of_its_figure():
    """Figure 1 of the paper, read by calculon: TP 8, microbatch 4; all, and selective with sequence parallelism."""
    sizes = {"sequence": 2048, "microbatch": 4, "tensor_parallel": 8}
    whole = gpt(48, 6144, 64, vocabulary=51200, **sizes).layers
    split = gpt(48, 6144, 64, vocabulary=51200, sequence_parallel=True, **sizes).layers
    blocks = range(1, 1 + 2 * 48)
    assert sum(whole[one].stash_bytes for one in blocks) == 63_619_203_072
    assert sum(split[one].stash_bytes - core(split[one]) for one in blocks) == 10_267_656_192


@pytest.mark.parametrize("text", ["gpt3-1.3b", "llama3-8b", "t5-base", "bert-large"])
def test_the_products_of_the_operations_are_the_flops_of_the_layer(text):
    for layer in build(text, sequence=512, tensor_parallel=4).layers:
        if layer.kind in {"attention", "cross_attention", "mlp", "head", "tied_head"}:
            assert layer.work.flops == layer.forward_flops


def test_sequence_parallelism_changes_what_is_between_the_products_only():
    plain, split = made(tensor_parallel=T), made(tensor_parallel=T, sequence_parallel=True)
    for one, other in zip(plain, split, strict=True):
        assert one.forward_flops == other.forward_flops
        assert one.parameter_bytes == other.parameter_bytes
        assert one.output_bytes == other.output_bytes
        assert [o for o in one.work.operations if isinstance(o, Product)] == [
            o for o in other.work.operations if isinstance(o, Product)
        ]
    norm, whole = (layers[-2].work.operations[0] for layers in (split, plain))
    assert norm.forward == whole.forward / T
    assert norm.backward == whole.backward / T


def test_gathering_and_scattering_move_the_bytes_of_the_sums_that_they_replace():
    """A ring sums W bytes as a scatter and a gather; the head gathers forward what it would sum backward."""

    def moved(layer):
        share = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
        return sum(share[one.collective] * one.bytes for one in layer.work.exchanges)

    plain, split = made(tensor_parallel=T), made(tensor_parallel=T, sequence_parallel=True)
    assert [moved(layer) for layer in plain] == [moved(layer) for layer in split]
    assert moved(plain[1]) == 4 * 2 * S * B * H
    assert moved(plain[-2]) == 0


def test_fused_attention_of_a_causal_model_computes_half_of_the_scores():
    def computed(layers):
        return next(one for one in layers[1].work.operations if isinstance(one, Attention)).computed_flops

    causal = made(fused_attention=True)
    assert computed(causal) == 2 * B * S * S * H
    assert computed(build("bert(1, 96, 8, fused_attention=True)", sequence=S, microbatch=B).layers) == 4 * B * S * S * H
    assert not any(isinstance(one, Attention) for one in made()[1].work.operations)


def test_a_block_of_a_gpt_moves_what_its_kernels_read_and_write():
    """Two bytes a value, one a mask; two norms, two sums, GeLU, context, softmax, and dropout, which counts twice."""
    _, attention, mlp, *_ = made()
    forward = [
        sum(one.forward for one in layer.work.operations if isinstance(one, Kernels)) for layer in (attention, mlp)
    ]
    values, scores = S * B * H, A * S * S * B
    assert forward == [(4 + 7 + 4) * values + (4 + 2 * 5) * scores, (4 + 7 + 16) * values]


def test_a_tied_head_uses_the_words_of_the_embedding_whose_gradients_are_summed():
    assert made(tensor_parallel=T)[-1].work.tied_bytes == 2 * H * WORDS // T
    assert made(tied=False)[-1].work.tied_bytes == 0


def test_a_fused_loss_keeps_no_more_than_the_logits():
    assert made(fused_loss=True)[-1].work.loss_bytes == 0
    assert made()[-1].work.loss_bytes == 2 * S * B * WORDS


def test_a_layer_that_adds_to_the_operations_of_another_does_not_state_them():
    assert build("xlnet-base").layers[1].work is None
